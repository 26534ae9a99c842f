#include "lowering/families.h"

namespace torch_tpu::lowering {
namespace {

Table collect() {
  Table all;
  for (const auto& family : {
           unary_table,
           binary_table,
           ternary_table,
           special_function_table,
           activation_table,
           activation_backward_table,
           fill_table,
           loss_table,
           reduction_table,
           statistics_table,
           order_statistics_table,
           batch_norm_table,
           scan_table,
           softmax_table,
           normalization_table,
           nll_loss_table,
           ctc_loss_table,
           foreach_table,
           optimizer_table,
           amp_table,
           fake_quantize_table,
           matmul_table,
           grouped_mm_table,
           linalg_table,
           lu_table,
           householder_table,
           jacobi_table,
           eig_table,
           ldl_table,
           matrix_exp_table,
           distance_table,
           fft_table,
           convolution_table,
           pooling_table,
           fractional_pooling_table,
           resize_table,
           padding_table,
           unfold_table,
           grid_sample_table,
           attention_table,
           rnn_table,
           indexing_table,
           compaction_table,
           scatter_table,
           segment_reduce_table,
           embedding_table,
           sort_table,
           shape_table,
           factory_table,
           random_table,
           rejection_table,
           gamma_gradient_table,
           copy_table,
           collective_table,
       }) {
    Table table = family();
    all.insert(all.end(), table.begin(), table.end());
  }
  return all;
}

}  // namespace

std::span<const Op> all_ops() {
  static const Table table = collect();
  return table;
}

}  // namespace torch_tpu::lowering
