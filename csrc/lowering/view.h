// Views: how a strided tensor is read from, and written to, the dense base value of its storage.
//
// A storage's value has a dense base type. A view is (sizes, strides, offset) in elements of its
// own dtype. Its plan depends on the offset only through a small class, ViewKind, and run-time
// start indices, so that reading x[i] is one program for every i.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "stablehlo/builder.h"

namespace torch_tpu::lowering {

/// As in the key: which program shape reads or writes the view.
enum class ViewKind : uint8_t {
  Empty,   // no elements: reads nothing
  Whole,   // every element of the base exactly once: reshape and transpose
  Sliced,  // a box in a reshape of the base: dynamic_slice with run-time starts
  Window,  // nested blocks that straddle such a reshape: a flat slice, then static cuts
  Gather,  // anything else, such as overlapping windows: computed flat indices
};

constexpr int kMaxViewDims = 64;

struct ViewPlan {
  ViewKind kind = ViewKind::Whole;
  int num_starts = 0;
  std::array<int64_t, kMaxViewDims + 1> starts;  // run-time operands
};

/// Chooses the plan of a view of a base with `base_numel` elements (counted in the view's dtype).
/// Allocates nothing. `whole` tells that the view is dense, not overlapping, at offset 0, and has
/// base_numel elements.
void plan_view(int64_t base_numel, std::span<const int64_t> sizes, std::span<const int64_t> strides,
               int64_t offset, bool whole, ViewPlan& plan);

/// A view's geometry as the program needs it: without the offset, which is a run-time operand.
struct ViewSpec {
  ViewKind kind = ViewKind::Whole;
  stablehlo::DType dtype = stablehlo::DType::F32;
  stablehlo::Dims sizes, strides;
  bool conj = false, neg = false;  // lazy conjugation and negation bits
};

/// Number of run-time starts of a view of this kind and geometry.
int num_starts(const ViewSpec& view);

/// The view's elements in logical shape. `starts` are 0-d integers of one dtype.
stablehlo::Value read_view(stablehlo::Value base, const ViewSpec& view,
                           std::span<const stablehlo::Value> starts);

/// The new base after writing `value` (of the view's shape and dtype) through the view. `base` may
/// be null for a Whole view: `base_type` is then the type of the result.
stablehlo::Value write_view(stablehlo::Value base, const stablehlo::Type& base_type,
                            const ViewSpec& view, std::span<const stablehlo::Value> starts,
                            stablehlo::Value value);

/// The whole flat base seen in another dtype, as Tensor.view(dtype) sees memory; 1-D.
stablehlo::Value reinterpret(stablehlo::Value flat, stablehlo::DType dtype);

/// Sizes in memory order (strides descending): the base shape of a dense tensor.
stablehlo::Dims memory_order_dims(std::span<const int64_t> sizes, std::span<const int64_t> strides);

}  // namespace torch_tpu::lowering
