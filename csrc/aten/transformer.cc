// The fast paths that nn.MultiheadAttention and nn.TransformerEncoderLayer take in eval mode.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

namespace torch_tpu::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

enum MaskType : int64_t { kSource = 0, kKeyPadding = 1, kGeneric = 2 };

/// The mask as [B or 1, H or 1, T or 1, S], true where a key is left out.
OptionalTensor excluded(const OptionalTensor& mask, std::optional<int64_t> type) {
  if (!mask || !mask->defined()) return std::nullopt;
  const at::Tensor bools = mask->scalar_type() == at::kBool ? *mask : mask->ne(0);
  if (type == kKeyPadding && bools.dim() == 2) return bools.unsqueeze(1).unsqueeze(1);
  return bools;
}

struct Projection {
  const at::Tensor& weight;
  const at::Tensor& bias;

  /// The rows for the part-th of query, key and value.
  at::Tensor apply(const at::Tensor& input, int64_t part, int64_t parts, int64_t size) const {
    return at::linear(input, weight.narrow(0, part * size, parts * size),
                      bias.narrow(0, part * size, parts * size));
  }
};

/// [B, T, H * E] -> [B, H, T, E]
at::Tensor split_heads(const at::Tensor& x, int64_t heads) {
  return x.unflatten(-1, {heads, x.size(-1) / heads}).transpose(1, 2);
}

at::Tensor join_heads(const at::Tensor& x) { return x.transpose(1, 2).flatten(2); }

std::array<at::Tensor, 3> project(const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, int64_t size, int64_t heads,
                                  const Projection& projection) {
  std::array<at::Tensor, 3> parts;
  if (query.is_same(key) && key.is_same(value)) {
    const auto chunks = projection.apply(query, 0, 3, size).chunk(3, -1);
    std::copy(chunks.begin(), chunks.end(), parts.begin());
  } else {
    parts = {projection.apply(query, 0, 1, size), projection.apply(key, 1, 1, size),
             projection.apply(value, 2, 1, size)};
  }
  for (at::Tensor& part : parts) part = split_heads(part, heads);
  return parts;
}

std::tuple<at::Tensor, at::Tensor> multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t size,
    int64_t heads, const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
    const at::Tensor& proj_weight, const at::Tensor& proj_bias, const OptionalTensor& mask,
    bool need_weights, bool average_weights, std::optional<int64_t> mask_type) {
  TORCH_CHECK(query.dim() == 3 && key.dim() == 3 && value.dim() == 3,
              "expected 3-D `query`, `key` and `value`");
  TORCH_CHECK(query.size(2) == size, "passed-in embed_dim ", size,
              " didn't match last dim of query ", query.size(2));
  const auto [q, k, v] = project(query, key, value, size, heads, {qkv_weight, qkv_bias});
  const OptionalTensor left_out = excluded(mask, mask_type);
  if (!need_weights) {
    const OptionalTensor kept = left_out ? OptionalTensor(left_out->logical_not()) : std::nullopt;
    const at::Tensor context = at::scaled_dot_product_attention(q, k, v, kept);
    return {at::linear(join_heads(context), proj_weight, proj_bias), at::Tensor()};
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(size / heads));
  at::Tensor scores = at::matmul(q.mul(scale), k.transpose(-2, -1));
  if (left_out) {
    scores = scores.masked_fill(*left_out, -std::numeric_limits<double>::infinity());
  }
  const at::Tensor weights = at::softmax(scores, -1);
  const at::Tensor context = at::matmul(weights, v);
  return {at::linear(join_heads(context), proj_weight, proj_bias),
          average_weights ? weights.mean(1) : weights};
}

at::Tensor encoder_layer(const at::Tensor& src, int64_t size, int64_t heads,
                         const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                         const at::Tensor& proj_weight, const at::Tensor& proj_bias, bool use_gelu,
                         bool norm_first, double eps, const at::Tensor& norm1_weight,
                         const at::Tensor& norm1_bias, const at::Tensor& norm2_weight,
                         const at::Tensor& norm2_bias, const at::Tensor& ffn1_weight,
                         const at::Tensor& ffn1_bias, const at::Tensor& ffn2_weight,
                         const at::Tensor& ffn2_bias, const OptionalTensor& mask,
                         std::optional<int64_t> mask_type) {
  if (src.numel() == 0) return src.clone();
  const auto norm1 = [&](const at::Tensor& x) {
    return at::layer_norm(x, {size}, norm1_weight, norm1_bias, eps);
  };
  const auto norm2 = [&](const at::Tensor& x) {
    return at::layer_norm(x, {size}, norm2_weight, norm2_bias, eps);
  };
  const auto attend = [&](const at::Tensor& x) {
    return std::get<0>(multi_head_attention(x, x, x, size, heads, qkv_weight, qkv_bias, proj_weight,
                                            proj_bias, mask, /*need_weights=*/false,
                                            /*average_weights=*/true, mask_type));
  };
  const auto feed_forward = [&](const at::Tensor& x) {
    const at::Tensor hidden = at::linear(x, ffn1_weight, ffn1_bias);
    return at::linear(use_gelu ? at::gelu(hidden) : at::relu(hidden), ffn2_weight, ffn2_bias);
  };
  if (norm_first) {
    const at::Tensor x = src.add(attend(norm1(src)));
    return x.add(feed_forward(norm2(x)));
  }
  const at::Tensor x = norm1(src.add(attend(src)));
  return norm2(x.add(feed_forward(x)));
}

/// nn.TransformerEncoder asks before it makes nested tensors, which only pay off where programs of
/// changing shapes are cheap.
bool nested_tensor_would_fit(const at::Tensor&, const at::Tensor&) { return false; }

/// [B, T, 3 * H * E] with its bias as three of [B, H, T, E], the query scaled.
std::tuple<at::Tensor, at::Tensor, at::Tensor> transform_bias_rescale_qkv(const at::Tensor& qkv,
                                                                          const at::Tensor& bias,
                                                                          int64_t heads) {
  TORCH_CHECK(qkv.dim() == 3, "expected 3D `qkv`, got ", qkv.dim());
  const int64_t size = qkv.size(2) / 3;
  TORCH_CHECK(qkv.size(2) % 3 == 0 && size % heads == 0, "`qkv` of size ", qkv.size(2),
              " does not split into three times ", heads, " heads");
  const auto parts = qkv.add(bias).chunk(3, -1);
  const double scale = 1.0 / std::sqrt(static_cast<double>(size / heads));
  return {split_heads(parts[0].mul(scale), heads).contiguous(),
          split_heads(parts[1], heads).contiguous(), split_heads(parts[2], heads).contiguous()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_transform_bias_rescale_qkv", transform_bias_rescale_qkv);
  m.impl("_native_multi_head_attention", multi_head_attention);
  m.impl("_transformer_encoder_layer_fwd", encoder_layer);
  m.impl("_nested_tensor_from_mask_left_aligned", nested_tensor_would_fit);
}

}  // namespace
}  // namespace torch_tpu::aten
