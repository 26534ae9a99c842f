// Reductions, windows and sorting.
#include <algorithm>

#include "stablehlo/op.h"
#include "stablehlo/window.h"

namespace torch_tpu::stablehlo {
namespace {

/// Operands of one shape, and as many 0-d initial values of their dtypes. Returns them joined.
Values join(std::span<const Value> xs, std::span<const Value> inits) {
  Values out(xs.begin(), xs.end());
  out.insert(out.end(), inits.begin(), inits.end());
  return out;
}

void require_operands(const Op& op, std::span<const Value> xs, std::span<const Value> inits) {
  op.require(!xs.empty() && xs.size() == inits.size(), "one initial value per operand is needed");
  for (size_t i = 0; i < xs.size(); ++i) {
    op.require(xs[i].dims() == xs[0].dims(), "operands must have one shape");
    op.require(inits[i].type() == Type{xs[i].dtype(), {}},
               "initial values must be 0-d, of the operands' dtypes");
  }
}

/// Accumulators first, then the elements.
Types accumulate_arguments(std::span<const Value> xs) {
  Types out = scalars(xs);
  out.reserve(2 * xs.size());
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(out[i]);
  return out;
}

Types with_dims(std::span<const Value> xs, const Dims& dims) {
  Types out;
  out.reserve(xs.size());
  for (Value x : xs) out.push_back({x.dtype(), dims});
  return out;
}

Body by_operation(std::string_view name) {
  return [name](Builder& b, std::span<const Value> args) -> Values {
    return {b.binary(name, args[0], args[1])};
  };
}

/// A window with nothing left to default.
Window complete(const Op& op, const Window& window, int64_t rank) {
  auto size = static_cast<size_t>(rank);
  Window out = window;
  out.strides = or_default(window.strides, size, 1);
  out.base_dilation = or_default(window.base_dilation, size, 1);
  out.window_dilation = or_default(window.window_dilation, size, 1);
  out.pad_low = or_default(window.pad_low, size, 0);
  out.pad_high = or_default(window.pad_high, size, 0);
  for (const Dims* list : {&out.size, &out.strides, &out.base_dilation, &out.window_dilation,
                           &out.pad_low, &out.pad_high}) {
    op.require(list->size() == size, "the window needs one number per dimension");
  }
  for (const Dims* list : {&out.size, &out.strides, &out.base_dilation, &out.window_dilation}) {
    for (int64_t n : *list) {
      op.require(n >= 1, "the window's sizes, strides and dilations must be positive");
    }
  }
  return out;
}

Dims window_dims(const Window& window, const Dims& dims) {
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t size =
        window.pad_low[i] + dilated(dims[i], window.base_dilation[i]) + window.pad_high[i];
    out.push_back(
        window_count(size, dilated(window.size[i], window.window_dilation[i]), window.strides[i]));
  }
  return out;
}

}  // namespace

Values Builder::reduce(std::span<const Value> xs, std::span<const Value> inits, const Dims& dims,
                       const Body& body) {
  Op op(*this, "stablehlo.reduce", join(xs, inits));
  require_operands(op, xs, inits);
  op.require_distinct(dims, xs[0].rank(), "dimensions");
  Dims kept;
  for (int64_t d = 0; d < xs[0].rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(xs[0].dim(d));
  }
  op.attribute("dimensions", dims);
  Types results = scalars(xs);
  op.region(accumulate_arguments(xs), Capture::No, body, "the body", &results);
  return op.results(with_dims(xs, kept));
}

Value Builder::reduce(Value x, Value init, const Dims& dims, std::string_view op) {
  return reduce({&x, 1}, {&init, 1}, dims, by_operation(op))[0];
}

Values Builder::reduce_window(std::span<const Value> xs, std::span<const Value> inits,
                              const Window& given, const Body& body) {
  Op op(*this, "stablehlo.reduce_window", join(xs, inits));
  require_operands(op, xs, inits);
  Window window = complete(op, given, xs[0].rank());
  op.attribute("window_dimensions", window.size);
  op.attribute("window_strides", window.strides);
  op.attribute("base_dilations", window.base_dilation);
  op.attribute("window_dilations", window.window_dilation);
  op.attribute_padding(window.pad_low, window.pad_high);
  Types results = scalars(xs);
  op.region(accumulate_arguments(xs), Capture::No, body, "the body", &results);
  return op.results(with_dims(xs, window_dims(window, xs[0].dims())));
}

Value Builder::reduce_window(Value x, Value init, const Window& window, std::string_view op) {
  return reduce_window({&x, 1}, {&init, 1}, window, by_operation(op))[0];
}

Value Builder::select_and_scatter(Value x, Value source, Value init, const Window& given,
                                  const Body& select, const Body& scatter) {
  Op op(*this, "stablehlo.select_and_scatter", {x, source, init});
  Window window = complete(op, given, x.rank());
  Dims ones(window.size.size(), 1);
  op.require(window.base_dilation == ones && window.window_dilation == ones,
             "the window takes no dilation");
  op.require(source.dtype() == x.dtype() && source.dims() == window_dims(window, x.dims()),
             "the source must be of the operand's dtype, with one element per window");
  op.require(init.type() == Type{x.dtype(), {}},
             "the initial value must be 0-d, of the operand's dtype");
  op.attribute("window_dimensions", window.size);
  op.attribute("window_strides", window.strides);
  op.attribute_padding(window.pad_low, window.pad_high);
  Types arguments(2, Type{x.dtype(), {}});
  Types selected(1, Type{DType::Pred, {}});
  Types scattered(1, Type{x.dtype(), {}});
  op.region(arguments, Capture::No, select, "select", &selected);
  op.region(arguments, Capture::No, scatter, "scatter", &scattered);
  return op.result(x.type());
}

Values Builder::sort(std::span<const Value> xs, int64_t dim, bool stable, const Body& comparator) {
  Op op(*this, "stablehlo.sort", xs);
  op.require(!xs.empty(), "no operands");
  op.require(dim >= 0 && dim < xs[0].rank(), "no such dimension");
  Types arguments;
  for (Value x : xs) {
    op.require(x.dims() == xs[0].dims(), "operands must have one shape");
    arguments.insert(arguments.end(), 2, Type{x.dtype(), {}});
  }
  op.attribute("dimension", dim);
  op.attribute_bool("is_stable", stable);
  Types pred(1, Type{DType::Pred, {}});
  op.region(arguments, Capture::No, comparator, "the comparator", &pred);
  return op.results(with_dims(xs, xs[0].dims()));
}

Values Builder::top_k(Value x, int64_t k) {
  Op op(*this, "chlo.top_k", {x});
  op.require(x.rank() > 0, "a dimension is needed");
  op.require(k >= 0 && k <= x.dims().back(), "k is outside of the dimension");
  op.attribute("k", k);
  Dims dims = x.dims();
  dims.back() = k;
  const Types types{Type{x.dtype(), dims}, Type{DType::S32, dims}};
  return op.results(types);
}

}  // namespace torch_tpu::stablehlo
