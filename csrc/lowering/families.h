// The tables of all operator families: one function for each family file.
#pragma once

#include "lowering/op.h"

namespace torch_tpu::lowering {

// pointwise
Table unary_table();
Table binary_table();
Table ternary_table();
Table special_function_table();
Table activation_table();
Table activation_backward_table();
Table fill_table();
Table loss_table();
// reductions, normalization, optimizers
Table reduction_table();
Table statistics_table();
Table order_statistics_table();
Table scan_table();
Table softmax_table();
Table normalization_table();
Table batch_norm_table();
Table nll_loss_table();
Table ctc_loss_table();
Table foreach_table();
Table optimizer_table();
Table amp_table();
Table fake_quantize_table();
// contraction
Table matmul_table();
Table grouped_mm_table();
Table linalg_table();
Table lu_table();
Table householder_table();
Table jacobi_table();
Table eig_table();
Table ldl_table();
Table matrix_exp_table();
Table distance_table();
Table fft_table();
Table convolution_table();
Table pooling_table();
Table fractional_pooling_table();
Table resize_table();
Table padding_table();
Table unfold_table();
Table grid_sample_table();
Table attention_table();
Table rnn_table();
// indexing, shape, random
Table indexing_table();
Table compaction_table();
Table scatter_table();
Table segment_reduce_table();
Table embedding_table();
Table sort_table();
Table shape_table();
Table factory_table();
Table random_table();
Table rejection_table();
Table gamma_gradient_table();
// copies, collectives
Table copy_table();
Table collective_table();

}  // namespace torch_tpu::lowering
