// Gather and scatter.
#include "runner.h"

namespace torch_tpu::stablehlo {
namespace {

Values add(Builder&, std::span<const Value> a) { return {a[0] + a[1]}; }
Values replace(Builder&, std::span<const Value> a) { return {a[1]}; }

GatherDims rows(int64_t width) {
  GatherDims d;
  d.offset_dims = {1};
  d.collapsed_slice_dims = {0};
  d.start_index_map = {0};
  d.index_vector_dim = 1;
  d.slice_sizes = {1, width};
  return d;
}

ScatterDims scatter_rows() {
  ScatterDims d;
  d.update_window_dims = {1};
  d.inserted_window_dims = {0};
  d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  return d;
}

TEST(Gather, Rows) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F32, DType::BF16, DType::S8, DType::Pred, DType::F64}) {
    for (DType index : {DType::S32, DType::S64}) {
      Program p;
      Numbers table = t == DType::Pred ? Numbers{0, 1, 1, 0, 1, 1} : Numbers{1, 2, 3, 4, 5, 6};
      Value x = p.in(t, {3, 2}, table);
      // Out of range is clamped.
      Value taken = p.b.gather(x, p.in_ints(index, {2, 0, 2, 7, -1}), rows(2));
      EXPECT_EQ(taken.dims(), (Dims{5, 2}));
      Numbers first(table.begin(), table.begin() + 2);
      Numbers last(table.begin() + 4, table.end());
      Numbers expected;
      for (const Numbers* row : {&last, &first, &last, &last, &first}) {
        expected.insert(expected.end(), row->begin(), row->end());
      }
      p.expect(taken, expected);
      p.run();
    }
  }
}

TEST(Gather, PointsWindowsAndBatches) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  GatherDims points;
  points.collapsed_slice_dims = {0, 1};
  points.start_index_map = {0, 1};
  points.index_vector_dim = 1;
  points.slice_sizes = {1, 1};
  p.expect(p.b.gather(x, p.in(DType::S32, {2, 2}, {0, 2, 1, 0}), points), {3, 4});
  // A window of 2x2, its dimensions before the batch.
  GatherDims windows;
  windows.offset_dims = {0, 1};
  windows.start_index_map = {1};
  windows.index_vector_dim = 1;
  windows.slice_sizes = {2, 2};
  Value taken = p.b.gather(x, p.in(DType::S32, {2, 1}, {0, 1}), windows);
  EXPECT_EQ(taken.dims(), (Dims{2, 2, 2}));
  p.expect(taken, {1, 2, 2, 3, 4, 5, 5, 6});
  // take_along_dim: a batch in both.
  GatherDims along;
  along.collapsed_slice_dims = {1};
  along.operand_batching_dims = {0};
  along.start_indices_batching_dims = {0};
  along.start_index_map = {1};
  along.index_vector_dim = 2;
  along.slice_sizes = {1, 1};
  p.expect(p.b.gather(x, p.in(DType::S32, {2, 2}, {2, 0, 1, 1}), along), {3, 1, 5, 5});
  p.run();
}

TEST(Scatter, Rows) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F32, DType::BF16, DType::S32, DType::F64, DType::S64}) {
    SCOPED_TRACE(name(t));
    Program p;
    Value x = p.in(t, {3, 2}, {1, 2, 3, 4, 5, 6});
    // Out of range is dropped; the same row twice adds up.
    Value i = p.in_ints(DType::S32, {2, 0, 2, 3, -1});
    Value updates = p.in(t, {5, 2}, {10, 20, 1, 1, 30, 40, 9, 9, 9, 9});
    p.expect(p.b.scatter(x, i, updates, scatter_rows(), add), {2, 3, 3, 4, 45, 66});
    ScatterDims unique = scatter_rows();
    unique.unique_indices = true;
    unique.indices_are_sorted = true;
    p.expect(p.b.scatter(x, p.in_ints(DType::S64, {0, 1}), p.in(t, {2, 2}, {7, 8, 9, 0}), unique,
                         replace),
             {7, 8, 9, 0, 5, 6});
    p.run();
  }
}

TEST(Scatter, PointsWindowsAndBatches) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  DType t = DType::F32;
  Value x = p.in(t, {2, 3}, {1, 2, 3, 4, 5, 6});
  ScatterDims points;
  points.inserted_window_dims = {0, 1};
  points.scatter_dims_to_operand_dims = {0, 1};
  points.index_vector_dim = 1;
  p.expect(p.b.scatter(x, p.in(DType::S32, {2, 2}, {0, 2, 1, 0}), p.in(t, {10, 20}), points, add),
           {1, 2, 13, 24, 5, 6});
  // A window narrower than the operand.
  ScatterDims window;
  window.update_window_dims = {0, 1};
  window.scatter_dims_to_operand_dims = {1};
  window.index_vector_dim = 0;
  p.expect(p.b.scatter(x, p.in(DType::S32, {1}, {1}), p.in(t, {2, 2}, {1, 1, 1, 1}), window, add),
           {1, 3, 4, 4, 6, 7});
  ScatterDims along;
  along.inserted_window_dims = {1};
  along.input_batching_dims = {0};
  along.scatter_indices_batching_dims = {0};
  along.scatter_dims_to_operand_dims = {1};
  along.index_vector_dim = 2;
  p.expect(p.b.scatter(x, p.in(DType::S32, {2, 1}, {2, 0}), p.in(t, {2, 1}, {10, 20}), along, add),
           {1, 2, 13, 24, 5, 6});
  p.run();
}

TEST(Scatter, MaximumAndPred) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::F32, {2, 1}, {3, 4});
  auto larger = [](Builder&, std::span<const Value> a) -> Values { return {maximum(a[0], a[1])}; };
  p.expect(p.b.scatter(x, p.in_ints(DType::S32, {0, 0, 1}), p.in(DType::F32, {3, 1}, {1, 7, kNan}),
                       scatter_rows(), larger),
           {7, kNan});
  Value flags = p.in(DType::Pred, {3, 1}, {0, 1, 0});
  p.expect(p.b.scatter(flags, p.in_ints(DType::S32, {0}), p.in(DType::Pred, {1, 1}, {1}),
                       scatter_rows(), replace),
           {1, 1, 0});
  p.run();
}

}  // namespace
}  // namespace torch_tpu::stablehlo
