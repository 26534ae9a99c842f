// Histograms of one and several dimensions, composed of searches and sums. The numbers of bins are
// known to the host; so are the outer edges, which PyTorch takes from the values.
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cmath>
#include <utility>
#include <vector>

namespace torch_tpu::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Range = std::optional<c10::ArrayRef<double>>;
using Edges = std::vector<at::Tensor>;

/// Points as rows [points, dims].
at::Tensor rows(const at::Tensor& self) {
  return self.reshape({self.size(-1) == 0 ? 0 : self.numel() / self.size(-1), self.size(-1)});
}

void check_rank(const at::Tensor& self) {
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions");
}

void check_dims(const at::Tensor& self, size_t dims) {
  check_rank(self);
  TORCH_CHECK(static_cast<int64_t>(dims) == self.size(-1), "torch.histogramdd: expected ",
              self.size(-1), " sequences of bin edges for a ", self.size(-1),
              "-dimensional histogram but got ", dims);
}

void check_weight(const at::Tensor& self, const OptionalTensor& weight) {
  if (!weight || !weight->defined()) return;
  TORCH_CHECK(weight->scalar_type() == self.scalar_type(),
              "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
              "should have the same dtype, but got input(",
              self.dtype(), "), and weight(", weight->dtype(), ")");
  TORCH_CHECK(weight->sizes() == self.sizes().slice(0, self.dim() - 1),
              "torch.histogramdd: if weight tensor is provided it should have the same shape as "
              "the input tensor excluding its innermost dimension, but got input with shape ",
              self.sizes(), " and weight with shape ", weight->sizes());
}

void check_edges(const at::Tensor& self, const at::Tensor& edges, size_t dim) {
  TORCH_CHECK(edges.scalar_type() == self.scalar_type(),
              "torch.histogramdd: input tensor and bins tensors should have the same dtype, but "
              "got input with dtype ",
              self.dtype(), " and bins for dimension ", dim, " with dtype ", edges.dtype());
  TORCH_CHECK(edges.dim() == 1,
              "torch.histogramdd: bins tensor should have one dimension, but got ", edges.dim(),
              " dimensions in the bins tensor for dimension ", dim);
  TORCH_CHECK(edges.numel() > 0,
              "torch.histogramdd: bins tensor should have at least 1 element, but got ",
              edges.numel(), " elements in the bins tensor for dimension ", dim);
}

void check_count(int64_t bins, size_t dim) {
  TORCH_CHECK(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins, " for dimension ",
              dim);
}

/// The first and the last edge of each dimension.
std::vector<std::pair<double, double>> outer_edges(const at::Tensor& points, const Range& range) {
  const int64_t dims = points.size(1);
  std::vector<std::pair<double, double>> out(dims, {0.0, 1.0});
  if (range) {
    TORCH_CHECK(static_cast<int64_t>(range->size()) == 2 * dims, "torch.histogramdd: for a ", dims,
                "-dimensional histogram range should have ", 2 * dims, " elements, but got ",
                range->size());
    for (int64_t d = 0; d < dims; ++d) out[d] = {(*range)[2 * d], (*range)[2 * d + 1]};
  } else if (points.numel() > 0) {
    const c10::ScalarType type = points.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat || type == at::kDouble,
                                "\"histogramdd\" not implemented for '", type, "'");
    const auto [least, greatest] = at::aminmax(points, 0);
    const at::Tensor both = at::stack({least, greatest}).to(at::kDouble).cpu();
    const auto values = both.accessor<double, 2>();
    for (int64_t d = 0; d < dims; ++d) out[d] = {values[0][d], values[1][d]};
  }
  for (int64_t d = 0; d < dims; ++d) {
    auto& [first, last] = out[d];
    TORCH_CHECK(std::isfinite(first) && std::isfinite(last), "torch.histogramdd: dimension ", d,
                "'s range [", first, ", ", last, "] is not finite");
    TORCH_CHECK(first <= last, "torch.histogramdd: min should not exceed max, but got min ", first,
                " max ", last, " for dimension ", d);
    if (first == last) {
      first -= 0.5;
      last += 0.5;
    }
  }
  return out;
}

Edges spaced_edges(const at::Tensor& self, c10::IntArrayRef bins, const Range& range) {
  const auto outer = outer_edges(rows(self), range);
  Edges edges;
  for (size_t d = 0; d < bins.size(); ++d) {
    check_count(bins[d], d);
    edges.push_back(at::linspace(outer[d].first, outer[d].second, bins[d] + 1, self.options()));
  }
  return edges;
}

/// Sums of the weights of the points between the edges; the last bin has its upper edge too.
at::Tensor count_points(const at::Tensor& self, const Edges& edges, const OptionalTensor& weight) {
  const at::Tensor points = rows(self);
  std::vector<int64_t> sizes;
  int64_t total = 1;
  for (const at::Tensor& edge : edges) {
    sizes.push_back(edge.numel() - 1);
    total *= sizes.back();
  }
  const at::Tensor none = at::zeros(sizes, self.options());
  if (points.numel() == 0) return none;
  at::Tensor place = at::zeros({points.size(0)}, self.options().dtype(at::kLong));
  at::Tensor inside = at::ones({points.size(0)}, self.options().dtype(at::kBool));
  for (size_t d = 0; d < edges.size(); ++d) {
    const at::Tensor x = points.select(1, static_cast<int64_t>(d)).contiguous();
    const at::Tensor& edge = edges[d];
    const at::Tensor last = edge.select(0, sizes[d]);
    const at::Tensor bin = at::searchsorted(edge, x, /*out_int32=*/false, /*right=*/true).sub_(1);
    inside = inside.logical_and_(x.ge(edge.select(0, 0)).logical_and_(x.le(last)));
    place = place.mul_(sizes[d]).add_(bin.clamp_(0, sizes[d] - 1));
  }
  const at::Tensor each = weight && weight->defined() ? weight->reshape({-1})
                                                      : at::ones({points.size(0)}, self.options());
  // Where a NaN is the weight of a point outside, nothing of it may be added.
  const at::Tensor added = at::where(inside, each, at::zeros({}, each.options()));
  return none.reshape({total}).index_add_(0, place, added).view(sizes);
}

/// Divided by the sum and by the sizes of the bins.
at::Tensor as_density(at::Tensor counts, const Edges& edges) {
  const at::Tensor sum = counts.sum();
  for (size_t d = 0; d < edges.size(); ++d) {
    std::vector<int64_t> along(edges.size(), 1);
    along[d] = -1;
    counts = counts.div(edges[d].diff().reshape(along));
  }
  return counts.div(sum);
}

at::Tensor histogram_of(const at::Tensor& self, const Edges& edges, const OptionalTensor& weight,
                        bool density) {
  check_dims(self, edges.size());
  for (size_t d = 0; d < edges.size(); ++d) check_edges(self, edges[d], d);
  check_weight(self, weight);
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()),
                              "\"histogram_cpu\" not implemented for '", self.scalar_type(), "'");
  for (size_t d = 0; d < edges.size(); ++d) check_count(edges[d].numel() - 1, d);
  const at::Tensor counts = count_points(self, edges, weight);
  return density ? as_density(counts, edges) : counts;
}

// ---- several dimensions

Edges histogramdd_edges(const at::Tensor& self, c10::IntArrayRef bins, Range range,
                        const OptionalTensor& weight, bool) {
  check_rank(self);
  TORCH_CHECK(
      static_cast<int64_t>(bins.size()) == self.size(-1),
      "histogramdd: The size of bins must be equal to the innermost dimension of the input.");
  check_dims(self, bins.size());
  check_weight(self, weight);
  return spaced_edges(self, bins, range);
}

at::Tensor histogramdd_counts(const at::Tensor& self, c10::IntArrayRef bins, Range range,
                              const OptionalTensor& weight, bool density) {
  return histogram_of(self, histogramdd_edges(self, bins, range, weight, density), weight, density);
}

at::Tensor histogramdd_tensors(const at::Tensor& self, at::TensorList bins,
                               const OptionalTensor& weight, bool density) {
  return histogram_of(self, bins.vec(), weight, density);
}

// ---- one dimension: of all values

using Histogram = std::tuple<at::Tensor, at::Tensor>;

OptionalTensor flat(const OptionalTensor& weight) {
  if (!weight || !weight->defined()) return weight;
  return weight->reshape({weight->numel()});
}

Histogram histogram_tensor(const at::Tensor& self, const at::Tensor& bins,
                           const OptionalTensor& weight, bool density) {
  const at::Tensor values = self.reshape({self.numel(), 1});
  return {histogram_of(values, {bins}, flat(weight), density), bins.clone()};
}

Histogram histogram_count(const at::Tensor& self, int64_t bins, Range range,
                          const OptionalTensor& weight, bool density) {
  const at::Tensor values = self.reshape({self.numel(), 1});
  const Edges edges = histogramdd_edges(values, {bins}, range, flat(weight), density);
  return {histogram_of(values, edges, flat(weight), density), edges[0]};
}

std::tuple<at::Tensor&, at::Tensor&> write(const Histogram& result, at::Tensor& hist,
                                           at::Tensor& edges) {
  at::native::resize_output(hist, std::get<0>(result).sizes());
  at::native::resize_output(edges, std::get<1>(result).sizes());
  return {hist.copy_(std::get<0>(result)), edges.copy_(std::get<1>(result))};
}

void check_outs(const at::Tensor& self, const at::Tensor& hist, const at::Tensor& edges) {
  TORCH_CHECK(self.scalar_type() == hist.scalar_type(),
              "torch.histogram: input tensor and hist tensor should have the same dtype, but got "
              "input ",
              self.dtype(), " and hist ", hist.dtype());
  TORCH_CHECK(self.scalar_type() == edges.scalar_type(),
              "torch.histogram: input tensor and bin_edges tensor should have the same dtype, but "
              "got input ",
              self.dtype(), " and bin_edges ", edges.dtype());
}

std::tuple<at::Tensor&, at::Tensor&> histogram_tensor_out(const at::Tensor& self,
                                                          const at::Tensor& bins,
                                                          const OptionalTensor& weight,
                                                          bool density, at::Tensor& hist,
                                                          at::Tensor& edges) {
  check_outs(self, hist, edges);
  return write(histogram_tensor(self, bins, weight, density), hist, edges);
}

std::tuple<at::Tensor&, at::Tensor&> histogram_count_out(const at::Tensor& self, int64_t bins,
                                                         Range range, const OptionalTensor& weight,
                                                         bool density, at::Tensor& hist,
                                                         at::Tensor& edges) {
  check_outs(self, hist, edges);
  return write(histogram_count(self, bins, range, weight, density), hist, edges);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("histogram.bins_tensor", histogram_tensor);
  m.impl("histogram.bins_tensor_out", histogram_tensor_out);
  m.impl("histogram.bin_ct", histogram_count);
  m.impl("histogram.bin_ct_out", histogram_count_out);
  m.impl("_histogramdd_bin_edges", histogramdd_edges);
  m.impl("_histogramdd_from_bin_cts", histogramdd_counts);
  m.impl("_histogramdd_from_bin_tensors", histogramdd_tensors);
}

}  // namespace
}  // namespace torch_tpu::aten
