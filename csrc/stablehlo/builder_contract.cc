// Dots and convolutions.
#include <algorithm>

#include "stablehlo/op.h"
#include "stablehlo/window.h"

namespace torch_tpu::stablehlo {
namespace {

std::string precision_config(Precision precision) {
  std::string_view one = precision == Precision::Default ? "#stablehlo<precision DEFAULT>"
                         : precision == Precision::High  ? "#stablehlo<precision HIGH>"
                                                         : "#stablehlo<precision HIGHEST>";
  std::string out = "[";
  out += one;
  out += ", ";
  out += one;
  out += ']';
  return out;
}

bool contains(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

void append_field(std::string& out, std::string_view name, const Dims& values) {
  if (values.empty()) return;
  if (out.back() != '<') out += ", ";
  out += name;
  out += " = [";
  append_list(out, values);
  out += ']';
}

/// One group of a convolution's dimension numbers: each position's letter, or its spatial number.
std::string layout(const Op& op, std::string_view what, char first_letter, int64_t first,
                   char second_letter, int64_t second, const Dims& spatial) {
  size_t rank = spatial.size() + 2;
  Dims all = spatial;
  all.push_back(first);
  all.push_back(second);
  op.require_distinct(all, static_cast<int64_t>(rank), what);
  std::string out = "[";
  for (int64_t i = 0; i < static_cast<int64_t>(rank); ++i) {
    if (i != 0) out += ", ";
    if (i == first) {
      out += first_letter;
    } else if (i == second) {
      out += second_letter;
    } else {
      append_int(out, std::find(spatial.begin(), spatial.end(), i) - spatial.begin());
    }
  }
  out += ']';
  return out;
}

}  // namespace

Value Builder::dot_general(Value a, Value b, const DotDims& dims, Precision precision,
                           DType result) {
  Op op(*this, "stablehlo.dot_general", {a, b});
  if (a.dtype() != b.dtype()) {
    op.fail_plain("operands' dtypes differ: " + to_string(a.type()) + " and " +
                  to_string(b.type()));
  }
  op.require(dims.lhs_batch.size() == dims.rhs_batch.size() &&
                 dims.lhs_contract.size() == dims.rhs_contract.size(),
             "the operands need as many batching and contracting dimensions");
  Dims lhs = dims.lhs_batch;
  lhs.insert(lhs.end(), dims.lhs_contract.begin(), dims.lhs_contract.end());
  Dims rhs = dims.rhs_batch;
  rhs.insert(rhs.end(), dims.rhs_contract.begin(), dims.rhs_contract.end());
  op.require_distinct(lhs, a.rank(), "batching and contracting dimensions of the left");
  op.require_distinct(rhs, b.rank(), "batching and contracting dimensions of the right");
  for (size_t i = 0; i < lhs.size(); ++i) {
    if (a.dim(lhs[i]) != b.dim(rhs[i])) {
      op.fail("sizes of dimensions " + std::to_string(lhs[i]) + " and " + std::to_string(rhs[i]) +
              " differ");
    }
  }
  Type type{result, {}};
  for (int64_t d : dims.lhs_batch) type.dims.push_back(a.dim(d));
  for (int64_t d = 0; d < a.rank(); ++d) {
    if (!contains(lhs, d)) type.dims.push_back(a.dim(d));
  }
  for (int64_t d = 0; d < b.rank(); ++d) {
    if (!contains(rhs, d)) type.dims.push_back(b.dim(d));
  }
  std::string numbers = "#stablehlo.dot<";
  append_field(numbers, "lhs_batching_dimensions", dims.lhs_batch);
  append_field(numbers, "rhs_batching_dimensions", dims.rhs_batch);
  append_field(numbers, "lhs_contracting_dimensions", dims.lhs_contract);
  append_field(numbers, "rhs_contracting_dimensions", dims.rhs_contract);
  op.attribute("dot_dimension_numbers", numbers + ">");
  op.attribute("precision_config", precision_config(precision));
  return op.result(type);
}

Value Builder::convolution(Value x, Value kernel, const ConvConfig& config, DType result) {
  Op op(*this, "stablehlo.convolution", {x, kernel});
  const ConvDims& d = config.dims;
  size_t spatial = d.input_spatial.size();
  auto rank = static_cast<int64_t>(spatial) + 2;
  if (x.dtype() != kernel.dtype()) {
    op.fail_plain("operands' dtypes differ: " + to_string(x.type()) + " and " +
                  to_string(kernel.type()));
  }
  op.require(x.rank() == rank && kernel.rank() == rank && d.kernel_spatial.size() == spatial &&
                 d.output_spatial.size() == spatial,
             "ranks and numbers of spatial dimensions differ");
  std::string numbers = "#stablehlo.conv<";
  numbers +=
      layout(op, "input dimensions", 'b', d.input_batch, 'f', d.input_feature, d.input_spatial);
  numbers += 'x';
  numbers +=
      layout(op, "kernel dimensions", 'i', d.kernel_input, 'o', d.kernel_output, d.kernel_spatial);
  numbers += "->";
  numbers +=
      layout(op, "output dimensions", 'b', d.output_batch, 'f', d.output_feature, d.output_spatial);
  numbers += '>';

  Dims strides = or_default(config.strides, spatial, 1);
  Dims low = or_default(config.pad_low, spatial, 0);
  Dims high = or_default(config.pad_high, spatial, 0);
  Dims lhs_dilation = or_default(config.lhs_dilation, spatial, 1);
  Dims rhs_dilation = or_default(config.rhs_dilation, spatial, 1);
  std::vector<bool> reversal = or_default(config.window_reversal, spatial, false);
  for (const Dims* list : {&strides, &low, &high, &lhs_dilation, &rhs_dilation}) {
    op.require(list->size() == spatial, "one number per spatial dimension is needed");
  }
  op.require(reversal.size() == spatial, "one reversal per spatial dimension is needed");

  int64_t batch = x.dim(d.input_batch);
  int64_t features = x.dim(d.input_feature);
  int64_t outputs = kernel.dim(d.kernel_output);
  int64_t groups = config.feature_groups;
  int64_t batch_groups = config.batch_groups;
  op.require(groups >= 1 && batch_groups >= 1 && (groups == 1 || batch_groups == 1),
             "of feature and batch groups at most one may pass 1");
  op.require(features % groups == 0 && features / groups == kernel.dim(d.kernel_input),
             "input features do not fit the kernel and the groups");
  op.require(outputs % groups == 0 && outputs % batch_groups == 0 && batch % batch_groups == 0,
             "the groups do not divide the outputs or the batch");

  Type type{result, Dims(static_cast<size_t>(rank))};
  type.dims[static_cast<size_t>(d.output_batch)] = batch / batch_groups;
  type.dims[static_cast<size_t>(d.output_feature)] = outputs;
  for (size_t i = 0; i < spatial; ++i) {
    op.require(strides[i] >= 1 && lhs_dilation[i] >= 1 && rhs_dilation[i] >= 1,
               "strides and dilations must be positive");
    int64_t size = low[i] + dilated(x.dim(d.input_spatial[i]), lhs_dilation[i]) + high[i];
    op.require(kernel.dim(d.kernel_spatial[i]) >= 1, "the kernel's window must not be empty");
    int64_t window = dilated(kernel.dim(d.kernel_spatial[i]), rhs_dilation[i]);
    type.dims[static_cast<size_t>(d.output_spatial[i])] = window_count(size, window, strides[i]);
  }

  op.attribute("window_strides", strides);
  op.attribute_padding(low, high);
  op.attribute("lhs_dilation", lhs_dilation);
  op.attribute("rhs_dilation", rhs_dilation);
  std::string flags = spatial == 0 ? "array<i1" : "array<i1: ";
  for (size_t i = 0; i < spatial; ++i) {
    if (i != 0) flags += ", ";
    flags += reversal[i] ? "true" : "false";
  }
  op.attribute("window_reversal", flags + ">");
  op.attribute("dimension_numbers", numbers);
  op.attribute("feature_group_count", groups);
  op.attribute("batch_group_count", batch_groups);
  op.attribute("precision_config", precision_config(config.precision));
  return op.result(type);
}

}  // namespace torch_tpu::stablehlo
