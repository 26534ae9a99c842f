// Gather and scatter.
#include <algorithm>

#include "stablehlo/op.h"

namespace torch_tpu::stablehlo {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

bool contains(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

Dims joined(const Dims& a, const Dims& b) {
  Dims out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

void append_field(std::string& out, std::string_view name, const Dims& values) {
  if (values.empty()) return;
  out += name;
  out += " = [";
  append_list(out, values);
  out += "], ";
}

/// The indices' dimensions that count positions: all but the one that holds the index vectors.
Dims batch_dims(Value indices, int64_t index_vector_dim) {
  Dims out = indices.dims();
  if (index_vector_dim < indices.rank()) out.erase(out.begin() + index_vector_dim);
  return out;
}

/// What gathers and scatters ask of their indices alike.
void require_indices(const Op& op, Value operand, Value indices, int64_t index_vector_dim,
                     const Dims& index_map, const Dims& operand_batching,
                     const Dims& indices_batching) {
  op.require(is_int(indices.dtype()), "indices must be integers");
  op.require(index_vector_dim >= 0 && index_vector_dim <= indices.rank(),
             "index_vector_dim is out of range");
  int64_t length = index_vector_dim == indices.rank() ? 1 : indices.dim(index_vector_dim);
  op.require(length == static_cast<int64_t>(index_map.size()),
             "index vectors do not fit the map to the operand's dimensions");
  op.require_distinct(joined(index_map, operand_batching), operand.rank(),
                      "indexed and batching dimensions of the operand");
  op.require(operand_batching.size() == indices_batching.size(),
             "operand and indices need as many batching dimensions");
  op.require_distinct(indices_batching, indices.rank(), "batching dimensions of the indices");
  for (size_t i = 0; i < indices_batching.size(); ++i) {
    op.require(indices_batching[i] != index_vector_dim, "index_vector_dim is a batching dimension");
    op.require(operand.dim(operand_batching[i]) == indices.dim(indices_batching[i]),
               "sizes of batching dimensions differ");
  }
}

}  // namespace

Value Builder::gather(Value operand, Value start_indices, const GatherDims& d) {
  Op op(*this, "stablehlo.gather", {operand, start_indices});
  require_indices(op, operand, start_indices, d.index_vector_dim, d.start_index_map,
                  d.operand_batching_dims, d.start_indices_batching_dims);
  Dims dropped = joined(d.collapsed_slice_dims, d.operand_batching_dims);
  op.require_distinct(dropped, operand.rank(), "collapsed and batching dimensions");
  op.require_sorted(d.collapsed_slice_dims, "collapsed dimensions");
  op.require_sorted(d.operand_batching_dims, "batching dimensions");
  op.require(static_cast<int64_t>(d.slice_sizes.size()) == operand.rank(),
             "one slice size per dimension is needed");

  Dims batch = batch_dims(start_indices, d.index_vector_dim);
  Dims offset;
  for (int64_t i = 0; i < operand.rank(); ++i) {
    if (!contains(dropped, i)) offset.push_back(d.slice_sizes[at(i)]);
    op.require(d.slice_sizes[at(i)] >= 0, "slice sizes must not be negative");
  }
  op.require(offset.size() == d.offset_dims.size(), "offset dimensions do not fit the slices");
  auto rank = static_cast<int64_t>(batch.size() + offset.size());
  op.require_distinct(d.offset_dims, rank, "offset dimensions");
  op.require_sorted(d.offset_dims, "offset dimensions");
  Type result{operand.dtype(), {}};
  auto next_batch = batch.begin();
  auto next_offset = offset.begin();
  for (int64_t i = 0; i < rank; ++i) {
    result.dims.push_back(contains(d.offset_dims, i) ? *next_offset++ : *next_batch++);
  }
  // No index is read, so it does not matter that an empty operand has no slice of size 1.
  if (result.numel() == 0) return zeros(result);
  for (int64_t i = 0; i < operand.rank(); ++i) {
    int64_t limit = contains(dropped, i) ? 1 : operand.dim(i);
    if (d.slice_sizes[at(i)] > std::min(limit, operand.dim(i))) {
      op.fail("slice sizes " + to_string(d.slice_sizes) + " do not fit the operand");
    }
  }

  std::string numbers = "#stablehlo.gather<";
  append_field(numbers, "offset_dims", d.offset_dims);
  append_field(numbers, "collapsed_slice_dims", d.collapsed_slice_dims);
  append_field(numbers, "operand_batching_dims", d.operand_batching_dims);
  append_field(numbers, "start_indices_batching_dims", d.start_indices_batching_dims);
  append_field(numbers, "start_index_map", d.start_index_map);
  numbers += "index_vector_dim = ";
  append_int(numbers, d.index_vector_dim);
  numbers += '>';
  op.attribute("dimension_numbers", numbers);
  op.attribute("slice_sizes", d.slice_sizes);
  op.attribute_bool("indices_are_sorted", d.indices_are_sorted);
  return op.result(result);
}

Value Builder::scatter(Value operand, Value indices, Value updates, const ScatterDims& d,
                       const Body& body) {
  Op op(*this, "stablehlo.scatter", {operand, indices, updates});
  op.require(updates.dtype() == operand.dtype(), "updates must be of the operand's dtype");
  require_indices(op, operand, indices, d.index_vector_dim, d.scatter_dims_to_operand_dims,
                  d.input_batching_dims, d.scatter_indices_batching_dims);
  Dims dropped = joined(d.inserted_window_dims, d.input_batching_dims);
  op.require_distinct(dropped, operand.rank(), "inserted and batching dimensions");
  op.require_sorted(d.inserted_window_dims, "inserted dimensions");
  op.require_sorted(d.input_batching_dims, "batching dimensions");
  op.require_distinct(d.update_window_dims, updates.rank(), "window dimensions of the updates");
  op.require_sorted(d.update_window_dims, "window dimensions of the updates");

  Dims batch = batch_dims(indices, d.index_vector_dim);
  Dims window;  // upper bounds
  for (int64_t i = 0; i < operand.rank(); ++i) {
    if (!contains(dropped, i)) window.push_back(operand.dim(i));
  }
  bool fits = window.size() == d.update_window_dims.size() &&
              updates.rank() == static_cast<int64_t>(batch.size() + window.size());
  op.require(fits, "the updates' rank does not fit the indices and the window");
  auto next_batch = batch.begin();
  auto next_window = window.begin();
  for (int64_t i = 0; i < updates.rank(); ++i) {
    bool in_window = contains(d.update_window_dims, i);
    bool ok = in_window ? updates.dim(i) <= *next_window++ : updates.dim(i) == *next_batch++;
    if (!ok) op.fail("dimension " + std::to_string(i) + " of the updates does not fit");
  }

  std::string numbers = "#stablehlo.scatter<";
  append_field(numbers, "update_window_dims", d.update_window_dims);
  append_field(numbers, "inserted_window_dims", d.inserted_window_dims);
  append_field(numbers, "input_batching_dims", d.input_batching_dims);
  append_field(numbers, "scatter_indices_batching_dims", d.scatter_indices_batching_dims);
  append_field(numbers, "scatter_dims_to_operand_dims", d.scatter_dims_to_operand_dims);
  numbers += "index_vector_dim = ";
  append_int(numbers, d.index_vector_dim);
  numbers += '>';
  op.attribute("scatter_dimension_numbers", numbers);
  op.attribute_bool("indices_are_sorted", d.indices_are_sorted);
  op.attribute_bool("unique_indices", d.unique_indices);
  Types arguments(2, Type{operand.dtype(), {}});
  Types scalar(1, Type{operand.dtype(), {}});
  op.region(arguments, Capture::No, body, "the body", &scalar);
  return op.result(operand.type());
}

}  // namespace torch_tpu::stablehlo
