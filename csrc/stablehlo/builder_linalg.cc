// Linear algebra, FFT, custom calls.
#include "stablehlo/op.h"

namespace torch_tpu::stablehlo {
namespace {

void require_matrices(const Op& op, Value x) {
  bool inexact = is_float(x.dtype()) || is_complex(x.dtype());
  op.require(inexact && x.rank() >= 2, "matrices of a floating or complex dtype are needed");
}

/// A string attribute in quotes, with MLIR's escapes.
std::string quoted(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte <= '~' && c != '"' && c != '\\') {
      out += c;
    } else {
      out += '\\';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  out += '"';
  return out;
}

}  // namespace

Value Builder::cholesky(Value x, bool lower) {
  Op op(*this, "stablehlo.cholesky", {x});
  require_matrices(op, x);
  op.require(x.dim(x.rank() - 1) == x.dim(x.rank() - 2), "the matrices must be square");
  op.attribute_bool("lower", lower);
  return op.result(x.type());
}

Value Builder::triangular_solve(Value a, Value b, bool left_side, bool lower, bool unit_diagonal,
                                std::string_view transpose) {
  Op op(*this, "stablehlo.triangular_solve", {a, b});
  require_matrices(op, a);
  op.require(a.dtype() == b.dtype() && a.rank() == b.rank(),
             "operands must agree in dtype and rank");
  int64_t rank = a.rank();
  int64_t n = a.dim(rank - 1);
  bool fits = a.dim(rank - 2) == n && b.dim(left_side ? rank - 2 : rank - 1) == n;
  for (int64_t i = 0; i < rank - 2; ++i) fits = fits && a.dim(i) == b.dim(i);
  op.require(fits, "shapes do not fit");
  op.require(transpose == "NO_TRANSPOSE" || transpose == "TRANSPOSE" || transpose == "ADJOINT",
             "transpose must be NO_TRANSPOSE, TRANSPOSE or ADJOINT");
  op.attribute_bool("left_side", left_side);
  op.attribute_bool("lower", lower);
  op.attribute_bool("unit_diagonal", unit_diagonal);
  std::string text = "#stablehlo<transpose ";
  text += transpose;
  op.attribute("transpose_a", text + ">");
  return op.result(b.type());
}

Value Builder::fft(Value x, std::string_view kind, const Dims& length) {
  Op op(*this, "stablehlo.fft", {x});
  bool from_real = kind == "RFFT";
  bool to_real = kind == "IRFFT";
  op.require(from_real || to_real || kind == "FFT" || kind == "IFFT",
             "the kind must be FFT, IFFT, RFFT or IRFFT");
  if (from_real) {
    op.require(x.dtype() == DType::F32 || x.dtype() == DType::F64, "RFFT is for f32 and f64");
  } else {
    op.require(is_complex(x.dtype()), "the operand must be complex");
  }
  size_t count = length.size();
  op.require(count >= 1 && count <= 3 && x.dims().size() >= count, "1 to 3 lengths are needed");
  Type result{from_real ? complex_dtype(x.dtype()) : x.dtype(), x.dims()};
  if (to_real) result.dtype = real_dtype(x.dtype());
  size_t first = x.dims().size() - count;
  for (size_t i = 0; i < count; ++i) {
    bool last = i + 1 == count;
    int64_t half = length[i] / 2 + 1;
    int64_t in = last && to_real && length[i] != 0 ? half : length[i];
    if (x.dims()[first + i] != in) op.fail("lengths " + to_string(length) + " do not fit");
    result.dims[first + i] = last && from_real && length[i] != 0 ? half : length[i];
  }
  std::string text = "#stablehlo<fft_type ";
  text += kind;
  op.attribute("fft_type", text + ">");
  op.attribute("fft_length", length);
  return op.result(result);
}

Values Builder::custom_call(std::string_view target, std::span<const Value> xs,
                            std::span<const Type> results, std::string_view backend_config,
                            int api_version) {
  Op op(*this, "stablehlo.custom_call", xs);
  op.attribute("call_target_name", quoted(target));
  op.attribute("api_version", std::to_string(api_version) + " : i32");
  constexpr int kTypedFfi = 4;  // its configuration is a dictionary, not a string
  if (api_version == kTypedFfi) {
    op.attribute("backend_config", backend_config.empty() ? "{}" : backend_config);
  } else {
    op.attribute("backend_config", quoted(backend_config));
  }
  op.attribute_bool("has_side_effect", false);
  return op.results(results);
}

Value Builder::optimization_barrier(Value x) {
  return Op(*this, "stablehlo.optimization_barrier", {x}).result(x.type());
}

}  // namespace torch_tpu::stablehlo
