#include <algorithm>

#include "stablehlo/op.h"

namespace torch_tpu::stablehlo {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

void require_starts(const Op& op, Value x, std::span<const Value> starts) {
  op.require(static_cast<int64_t>(starts.size()) == x.rank(), "one start per dimension is needed");
  for (Value start : starts) {
    op.require(start.rank() == 0 && is_int(start.dtype()) && start.dtype() == starts[0].dtype(),
               "starts must be 0-d integers of one dtype");
  }
}

Values operands(std::initializer_list<Value> first, std::span<const Value> rest) {
  Values out(first);
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

}  // namespace

Value Builder::reshape(Value x, const Dims& dims) {
  if (x.dims() == dims) return x;
  Op op(*this, "stablehlo.reshape", {x});
  bool negative = std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; });
  if (negative || stablehlo::numel(dims) != x.numel()) {
    op.fail_plain("the elements of " + to_string(x.type()) + " do not fit " +
                  to_string(Type{x.dtype(), dims}));
  }
  return op.result({x.dtype(), dims});
}

Value Builder::broadcast_in_dim(Value x, const Dims& dims, const Dims& broadcast_dims) {
  Op op(*this, "stablehlo.broadcast_in_dim", {x});
  op.require(static_cast<int64_t>(broadcast_dims.size()) == x.rank(),
             "one broadcast dimension per dimension of the operand is needed");
  op.require_distinct(broadcast_dims, static_cast<int64_t>(dims.size()), "broadcast dimensions");
  for (int64_t i = 0; i < x.rank(); ++i) {
    int64_t to = dims[at(broadcast_dims[at(i)])];
    if (x.dim(i) != 1 && x.dim(i) != to) {
      op.fail("dimension " + std::to_string(i) + " does not broadcast to " + to_string(dims));
    }
  }
  op.attribute("broadcast_dimensions", broadcast_dims);
  return op.result({x.dtype(), dims});
}

Value Builder::transpose(Value x, const Dims& permutation) {
  Op op(*this, "stablehlo.transpose", {x});
  op.require(static_cast<int64_t>(permutation.size()) == x.rank(), "not a permutation");
  op.require_distinct(permutation, x.rank(), "permutation");
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  Type result{x.dtype(), {}};
  for (int64_t d : permutation) result.dims.push_back(x.dim(d));
  op.attribute("permutation", permutation);
  const Value made = op.result(result);
  impl_->transposes.emplace(made.id(), std::pair{x, permutation});
  return made;
}

Value Builder::reverse(Value x, const Dims& dims) {
  if (dims.empty()) return x;
  Op op(*this, "stablehlo.reverse", {x});
  op.require_distinct(dims, x.rank(), "dimensions");
  op.attribute("dimensions", dims);
  return op.result(x.type());
}

Value Builder::slice(Value x, const Dims& start, const Dims& limit, const Dims& strides) {
  Op op(*this, "stablehlo.slice", {x});
  auto rank = at(x.rank());
  Dims steps = strides.empty() ? Dims(rank, 1) : strides;
  op.require(start.size() == rank && limit.size() == rank && steps.size() == rank,
             "one start, limit and stride per dimension are needed");
  Type result{x.dtype(), {}};
  bool whole = true;
  for (size_t i = 0; i < rank; ++i) {
    if (start[i] < 0 || start[i] > limit[i] || limit[i] > x.dims()[i] || steps[i] < 1) {
      op.fail("dimension " + std::to_string(i) + " has no slice " + std::to_string(start[i]) + ":" +
              std::to_string(limit[i]) + ":" + std::to_string(steps[i]));
    }
    result.dims.push_back((limit[i] - start[i] + steps[i] - 1) / steps[i]);
    whole = whole && result.dims[i] == x.dims()[i];
  }
  if (whole) return x;
  op.attribute("start_indices", start);
  op.attribute("limit_indices", limit);
  op.attribute("strides", steps);
  return op.result(result);
}

Value Builder::dynamic_slice(Value x, std::span<const Value> starts, const Dims& sizes) {
  Op op(*this, "stablehlo.dynamic_slice", operands({x}, starts));
  require_starts(op, x, starts);
  op.require(static_cast<int64_t>(sizes.size()) == x.rank(), "one size per dimension is needed");
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (sizes[at(i)] < 0 || sizes[at(i)] > x.dim(i)) {
      op.fail("sizes " + to_string(sizes) + " do not fit");
    }
  }
  op.attribute("slice_sizes", sizes);
  return op.result({x.dtype(), sizes});
}

Value Builder::dynamic_update_slice(Value x, Value update, std::span<const Value> starts) {
  Op op(*this, "stablehlo.dynamic_update_slice", operands({x, update}, starts));
  require_starts(op, x, starts);
  bool fits = update.dtype() == x.dtype() && update.rank() == x.rank();
  for (int64_t i = 0; fits && i < x.rank(); ++i) fits = update.dim(i) <= x.dim(i);
  op.require(fits, "the update does not fit in the operand");
  return op.result(x.type());
}

Value Builder::pad(Value x, Value padding_value, const Dims& low, const Dims& high,
                   const Dims& interior) {
  Op op(*this, "stablehlo.pad", {x, padding_value});
  auto rank = at(x.rank());
  Dims inner = interior.empty() ? Dims(rank, 0) : interior;
  op.require(low.size() == rank && high.size() == rank && inner.size() == rank,
             "one low, high and interior padding per dimension are needed");
  op.require(padding_value.type() == Type{x.dtype(), {}},
             "the padding value must be 0-d and of the operand's dtype");
  Type result{x.dtype(), {}};
  bool nothing = true;
  for (size_t i = 0; i < rank; ++i) {
    int64_t size = x.dims()[i];
    int64_t grown = low[i] + size + std::max<int64_t>(size - 1, 0) * inner[i] + high[i];
    if (inner[i] < 0 || grown < 0) op.fail("dimension " + std::to_string(i) + " gets no size");
    result.dims.push_back(grown);
    nothing = nothing && low[i] == 0 && high[i] == 0 && inner[i] == 0;
  }
  if (nothing) return x;
  op.attribute("edge_padding_low", low);
  op.attribute("edge_padding_high", high);
  op.attribute("interior_padding", inner);
  return op.result(result);
}

Value Builder::concatenate(std::span<const Value> xs, int64_t dim) {
  Op op(*this, "stablehlo.concatenate", xs);
  op.require(!xs.empty(), "no operands");
  op.require(dim >= 0 && dim < xs[0].rank(), "no such dimension");
  Type result = xs[0].type();
  for (Value x : xs.subspan(1)) {
    Type other = x.type();
    bool fits = other.rank() == result.rank();
    if (fits) {
      int64_t joined = result.dims[at(dim)] + other.dims[at(dim)];
      result.dims[at(dim)] = other.dims[at(dim)];
      fits = other == result;
      result.dims[at(dim)] = joined;
    }
    if (!fits) op.fail("operands must agree but for dimension " + std::to_string(dim));
  }
  if (xs.size() == 1) return xs[0];
  op.attribute("dimension", dim);
  return op.result(result);
}

}  // namespace torch_tpu::stablehlo
