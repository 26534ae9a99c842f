// Operators between devices: the program runs on all of them, as replicas.
#include "lowering/context.h"
#include "lowering/families.h"

namespace torch_tpu::lowering {
namespace {

/// Argument `i`: all devices, group after group; argument i + 1: the size of a group.
std::vector<Dims> groups_of(const Context& ctx, size_t i) {
  const Dims& devices = ctx.ints(i);
  const auto size = static_cast<ptrdiff_t>(ctx.integer(i + 1));
  std::vector<Dims> groups;
  for (auto first = devices.begin(); first < devices.end(); first += size) {
    groups.emplace_back(first, first + size);
  }
  return groups;
}

/// The name of the binary operation; that of "avg" is "add".
std::string_view combiner(std::string_view reduction) {
  if (reduction == "sum" || reduction == "avg") return "add";
  if (reduction == "product") return "multiply";
  if (reduction == "min") return "minimum";
  if (reduction == "max") return "maximum";
  return reduction == "band" ? "and" : reduction == "bor" ? "or" : "xor";
}

/// The sum becomes the mean, if it is that which is wanted.
Value finished(Value sum, std::string_view reduction, int64_t group_size) {
  return reduction == "avg" ? sum / static_cast<double>(group_size) : sum;
}

/// (x, devices, group_size): along the first dimension.
Values all_gather(Context& ctx) { return {ctx.b.all_gather(ctx.tensor(0), 0, groups_of(ctx, 1))}; }

/// (x, reduction, devices, group_size).
Values all_reduce(Context& ctx) {
  const Value reduced = ctx.b.all_reduce(ctx.tensor(0), combiner(ctx.text(1)), groups_of(ctx, 2));
  return {finished(reduced, ctx.text(1), ctx.integer(3))};
}

/// (x, reduction, devices, group_size): along the first dimension.
Values reduce_scatter(Context& ctx) {
  const Value reduced =
      ctx.b.reduce_scatter(ctx.tensor(0), 0, combiner(ctx.text(1)), groups_of(ctx, 2));
  return {finished(reduced, ctx.text(1), ctx.integer(3))};
}

/// (x, devices, group_size): along the first dimension.
Values all_to_all(Context& ctx) {
  return {ctx.b.all_to_all(ctx.tensor(0), 0, 0, groups_of(ctx, 1))};
}

}  // namespace

Table collective_table() {
  return {
      {.name = "torch_tpu::all_gather", .lower = all_gather},
      {.name = "torch_tpu::all_reduce", .lower = all_reduce},
      {.name = "torch_tpu::reduce_scatter", .lower = reduce_scatter},
      {.name = "torch_tpu::all_to_all", .lower = all_to_all},
  };
}

}  // namespace torch_tpu::lowering
