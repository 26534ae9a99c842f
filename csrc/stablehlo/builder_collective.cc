// Collectives: operations between the replicas of a program.
#include "stablehlo/op.h"

namespace torch_tpu::stablehlo {
namespace {

/// Checks the groups, which are of one size, and writes them. Gives that size.
int64_t write_groups(Op& op, std::span<const Dims> groups) {
  op.require(!groups.empty() && !groups[0].empty(), "no groups of replicas");
  const auto size = static_cast<int64_t>(groups[0].size());
  Dims all;
  std::string text = "dense<[";
  for (const Dims& group : groups) {
    op.require(static_cast<int64_t>(group.size()) == size, "the groups must be of one size");
    all.insert(all.end(), group.begin(), group.end());
    text += all.size() == group.size() ? "" : ", ";
    text += to_string(group);
  }
  op.require_distinct(all, static_cast<int64_t>(all.size()), "the groups");
  text += "]> : ";
  append_type(text, {DType::S64, {static_cast<int64_t>(groups.size()), size}});
  op.attribute("replica_groups", text);
  return size;
}

void write_combiner(Op& op, DType dtype, std::string_view name) {
  const Types arguments(2, Type{dtype, {}});
  Types results(1, Type{dtype, {}});
  const Body combine = [name](Builder& b, std::span<const Value> v) -> Values {
    return {b.binary(name, v[0], v[1])};
  };
  op.region(arguments, Capture::No, combine, "the combiner", &results);
}

/// The type with this dimension `times` as long.
Type longer(Type type, int64_t dim, int64_t times) {
  type.dims[static_cast<size_t>(dim)] *= times;
  return type;
}

/// The type with this dimension cut into `parts`.
Type part_of(const Op& op, Type type, int64_t dim, int64_t parts) {
  op.require(type.dims[static_cast<size_t>(dim)] % parts == 0,
             "the dimension does not divide by the size of the groups");
  type.dims[static_cast<size_t>(dim)] /= parts;
  return type;
}

}  // namespace

Value Builder::all_gather(Value x, int64_t dim, std::span<const Dims> groups) {
  Op op(*this, "stablehlo.all_gather", {x});
  op.require(dim >= 0 && dim < x.rank(), "no such dimension");
  op.attribute("all_gather_dim", dim);
  return op.result(longer(x.type(), dim, write_groups(op, groups)));
}

Value Builder::all_reduce(Value x, std::string_view combiner, std::span<const Dims> groups) {
  Op op(*this, "stablehlo.all_reduce", {x});
  write_groups(op, groups);
  write_combiner(op, x.dtype(), combiner);
  return op.result(x.type());
}

Value Builder::reduce_scatter(Value x, int64_t dim, std::string_view combiner,
                              std::span<const Dims> groups) {
  Op op(*this, "stablehlo.reduce_scatter", {x});
  op.require(dim >= 0 && dim < x.rank(), "no such dimension");
  op.attribute("scatter_dimension", dim);
  const Type type = part_of(op, x.type(), dim, write_groups(op, groups));
  write_combiner(op, x.dtype(), combiner);
  return op.result(type);
}

Value Builder::all_to_all(Value x, int64_t split_dim, int64_t concat_dim,
                          std::span<const Dims> groups) {
  Op op(*this, "stablehlo.all_to_all", {x});
  op.require(split_dim >= 0 && split_dim < x.rank() && concat_dim >= 0 && concat_dim < x.rank(),
             "no such dimension");
  op.attribute("split_dimension", split_dim);
  op.attribute("concat_dimension", concat_dim);
  const int64_t size = write_groups(op, groups);
  op.attribute("split_count", size);
  return op.result(longer(part_of(op, x.type(), split_dim, size), concat_dim, size));
}

}  // namespace torch_tpu::stablehlo
