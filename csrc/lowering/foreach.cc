// Operators on lists of tensors: each applies the lowering of the operator on one tensor.
#include <string>
#include <unordered_map>

#include "lowering/families.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {

namespace {

const Op& find(std::string_view name) {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, const Op*>;
    for (const Op& op : all_ops()) map->emplace(op.name, &op);
    return map;
  }();
  const auto it = index->find(name);
  if (it == index->end()) throw stablehlo::BuildError("no lowering of " + std::string(name));
  return *it->second;
}

Argument argument(Value x) { return {x, {}}; }

Argument argument(double number, ScalarKind kind) {
  return {Scalar{kind, /*is_static=*/true, number, static_cast<int64_t>(number)}, {}};
}

/// Result k by the operator `name` on these arguments.
Value apply(const Context& ctx, std::string_view name, std::vector<Argument> args, size_t k,
            DType common) {
  Context one(ctx.state(), find(name), std::move(args), {ctx.out(k)}, common);
  return one.op.lower(one).at(0);
}

/// "aten::_foreach_add.List" -> "add".
std::string_view base_name(const Context& ctx) {
  std::string_view name = ctx.op.name;
  name.remove_prefix(std::string_view("aten::_foreach_").size());
  return name.substr(0, name.find('.'));
}

using Each = Value (*)(const Context& ctx, size_t k);

/// One result for each tensor of argument `list`.
template <Each f, size_t list = 0>
Values each(Context& ctx) {
  Values out;
  for (size_t k = 0; k < ctx.tensors(list).size(); ++k) out.push_back(f(ctx, k));
  return out;
}

Value unary(const Context& ctx, size_t k) {
  const Value x = ctx.tensors(0)[k];
  return apply(ctx, "aten::" + std::string(base_name(ctx)), {argument(x)}, k, x.dtype());
}

Value identity(const Context& ctx, size_t k) { return ctx.tensors(0)[k]; }

Value zero(const Context& ctx, size_t k) { return stablehlo::zeros_like(ctx.tensors(0)[k]); }

Value copy(const Context& ctx, size_t k) {
  const Value self = ctx.tensors(0)[k];
  return stablehlo::broadcast_to(cast(ctx.tensors(1)[k], self.dtype()), self.dims());
}

/// The second operand of a binary operator: of a list of tensors or Scalars, or one for all.
Value second(const Context& ctx, size_t k) {
  const std::string_view name = ctx.op.name;
  const DType dtype = Context::compute_dtype(ctx.out(k).dtype);
  if (name.ends_with(".List")) return ctx.tensors(1)[k];
  if (name.ends_with(".ScalarList")) return ctx.scalar_at(1, k, dtype);
  return name.ends_with(".Tensor") ? ctx.tensor(1) : ctx.scalar(1, dtype);
}

/// The operator on tensors that a binary operator on lists repeats.
std::string binary_name(std::string_view base) {
  if (base == "clamp_min" || base == "maximum") return "aten::maximum";
  if (base == "clamp_max" || base == "minimum") return "aten::minimum";
  if (base == "pow") return "aten::pow.Tensor_Tensor";
  return "aten::" + std::string(base) + ".Tensor";
}

Value binary(const Context& ctx, size_t k) {
  const DType common = ctx.out(k).dtype;
  std::vector<Argument> args{argument(ctx.tensors(0)[k]), argument(second(ctx, k))};
  const std::string_view base = base_name(ctx);
  if (base == "add" || base == "sub") {
    args.push_back(ctx.has(2) ? argument(ctx.scalar(2, Context::compute_dtype(common)))
                              : argument(1.0, ScalarKind::Int));
  }
  return apply(ctx, binary_name(base), std::move(args), k, common);
}

/// (self, Scalar exponent): a special exponent keeps its own program.
Value pow_scalar(const Context& ctx, size_t k) {
  const std::optional<double> special = ctx.special(1);
  if (!special) return binary(ctx, k);
  return apply(ctx, "aten::pow.Tensor_Scalar",
               {argument(ctx.tensors(0)[k]), argument(*special, ctx.scalar_kind(1))}, k,
               ctx.out(k).dtype);
}

/// (Scalar self, exponents).
Value scalar_pow(const Context& ctx, size_t k) {
  const DType common = ctx.out(k).dtype;
  return apply(ctx, "aten::pow.Tensor_Tensor",
               {argument(ctx.scalar(0, common)), argument(ctx.tensors(1)[k])}, k, common);
}

/// addcmul, addcdiv: (self, tensor1, tensor2, value or values).
Value add_combined(const Context& ctx, size_t k) {
  const DType common = ctx.out(k).dtype, wide = Context::compute_dtype(common);
  const bool list = ctx.op.name.ends_with(".ScalarList");
  const Value factor = list ? ctx.scalar_at(3, k, wide) : ctx.scalar(3, wide);
  return apply(ctx, "aten::" + std::string(base_name(ctx)),
               {argument(ctx.tensors(0)[k]), argument(ctx.tensors(1)[k]),
                argument(ctx.tensors(2)[k]), argument(factor)},
               k, common);
}

/// (self, ends, weight or weights).
Value lerp(const Context& ctx, size_t k) {
  const DType common = ctx.out(k).dtype, wide = Context::compute_dtype(common);
  const std::string_view name = ctx.op.name;
  const Value weight = name.ends_with(".List")         ? ctx.tensors(2)[k]
                       : name.ends_with(".ScalarList") ? ctx.scalar_at(2, k, wide)
                                                       : ctx.scalar(2, wide);
  return apply(ctx, "aten::lerp.Tensor",
               {argument(ctx.tensors(0)[k]), argument(ctx.tensors(1)[k]), argument(weight)}, k,
               common);
}

Value max(const Context& ctx, size_t k) {
  const Value x = ctx.tensors(0)[k];
  return apply(ctx, "aten::max", {argument(x)}, k, x.dtype());
}

/// (self, ord, dtype) of a list -> (self, ord, dim, keepdim, dtype) of tensor k.
std::vector<Argument> norm_arguments(const Context& ctx, size_t k) {
  std::vector<Argument> args{
      argument(ctx.tensors(0)[k]), argument(ctx.number(1), ScalarKind::Float), {}, {}, {}};
  if (ctx.has(2)) args[4].data = *ctx.dtype(2);
  return args;
}

Value norm(const Context& ctx, size_t k) {
  return apply(ctx, "aten::linalg_vector_norm", norm_arguments(ctx, k), k, ctx.out(k).dtype);
}

Value powsum(const Context& ctx, size_t k) {
  return apply(ctx, "aten::linalg__powsum", norm_arguments(ctx, k), k, ctx.out(k).dtype);
}

Value matrix_product(const Context& ctx, size_t k) {
  const Value a = ctx.tensors(0)[k];
  return apply(ctx, "aten::mm", {argument(a), argument(ctx.tensors(1)[k])}, k, a.dtype());
}

}  // namespace

Table foreach_table() {
  Table table{
      {"aten::_foreach_clone", each<identity>},
      {"aten::_foreach_zero", each<zero>},
      {"aten::_foreach_copy", each<copy>},
      {"aten::_foreach_add.Tensor", each<binary>},
      {"aten::_foreach_mul.Tensor", each<binary>},
      {"aten::_foreach_div.Tensor", each<binary>},
      {"aten::_foreach_pow.List", each<binary>},
      {"aten::_foreach_pow.ScalarList", each<binary>},
      {.name = "aten::_foreach_pow.Scalar",
       .lower = each<pow_scalar>,
       .special_values = {0.0, 1.0, 2.0, 3.0, 0.5, -0.5, -1.0, -2.0}},
      {"aten::_foreach_pow.ScalarAndTensor", each<scalar_pow, 1>},
      {"aten::_foreach_addcmul.Scalar", each<add_combined>},
      {"aten::_foreach_addcmul.ScalarList", each<add_combined>},
      {"aten::_foreach_addcdiv.Scalar", each<add_combined>},
      {"aten::_foreach_addcdiv.ScalarList", each<add_combined>},
      {"aten::_foreach_lerp.List", each<lerp>},
      {"aten::_foreach_lerp.Scalar", each<lerp>},
      {"aten::_foreach_lerp.ScalarList", each<lerp>},
      {"aten::_foreach_max", each<max>},
      {.name = "aten::_foreach_norm.Scalar", .lower = each<norm>, .static_args = {1}},
      {.name = "aten::_foreach_powsum.Scalar", .lower = each<powsum>, .static_args = {1}},
      {"aten::_foreach_mm", each<matrix_product>},
  };
  for (std::string_view name :
       {"aten::_foreach_abs",   "aten::_foreach_acos",       "aten::_foreach_asin",
        "aten::_foreach_atan",  "aten::_foreach_ceil",       "aten::_foreach_cos",
        "aten::_foreach_cosh",  "aten::_foreach_erf",        "aten::_foreach_erfc",
        "aten::_foreach_exp",   "aten::_foreach_expm1",      "aten::_foreach_floor",
        "aten::_foreach_frac",  "aten::_foreach_lgamma",     "aten::_foreach_log",
        "aten::_foreach_log10", "aten::_foreach_log1p",      "aten::_foreach_log2",
        "aten::_foreach_neg",   "aten::_foreach_reciprocal", "aten::_foreach_round",
        "aten::_foreach_rsqrt", "aten::_foreach_sigmoid",    "aten::_foreach_sign",
        "aten::_foreach_sin",   "aten::_foreach_sinh",       "aten::_foreach_sqrt",
        "aten::_foreach_tan",   "aten::_foreach_tanh",       "aten::_foreach_trunc"}) {
    table.push_back({name, each<unary>});
  }
  for (std::string_view name : {"aten::_foreach_add.List",
                                "aten::_foreach_add.Scalar",
                                "aten::_foreach_add.ScalarList",
                                "aten::_foreach_sub.List",
                                "aten::_foreach_sub.Scalar",
                                "aten::_foreach_sub.ScalarList",
                                "aten::_foreach_mul.List",
                                "aten::_foreach_mul.Scalar",
                                "aten::_foreach_mul.ScalarList",
                                "aten::_foreach_div.List",
                                "aten::_foreach_div.Scalar",
                                "aten::_foreach_div.ScalarList",
                                "aten::_foreach_clamp_min.List",
                                "aten::_foreach_clamp_min.Scalar",
                                "aten::_foreach_clamp_min.ScalarList",
                                "aten::_foreach_clamp_max.List",
                                "aten::_foreach_clamp_max.Scalar",
                                "aten::_foreach_clamp_max.ScalarList",
                                "aten::_foreach_maximum.List",
                                "aten::_foreach_maximum.Scalar",
                                "aten::_foreach_maximum.ScalarList",
                                "aten::_foreach_minimum.List",
                                "aten::_foreach_minimum.Scalar",
                                "aten::_foreach_minimum.ScalarList"}) {
    table.push_back({name, each<binary>});
  }
  return table;
}

}  // namespace torch_tpu::lowering
