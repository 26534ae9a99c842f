#include "lowering/context.h"

#include <algorithm>
#include <cstring>

#include "lowering/cast.h"
#include "lowering/philox.h"

namespace torch_tpu::lowering {

using stablehlo::BuildError;

namespace {

int32_t words_of(DType dtype) {
  return static_cast<int32_t>((stablehlo::byte_size(dtype) + 3) / 4);
}

Value constant_of(Builder& b, const Scalar& scalar, DType dtype) {
  if (stablehlo::is_complex(dtype)) return b.constant_complex(dtype, scalar.number);
  if (scalar.kind == ScalarKind::Bool || scalar.kind == ScalarKind::Int) {
    if (stablehlo::is_float(dtype)) return b.constant(dtype, static_cast<double>(scalar.integer));
    if (dtype == DType::Pred) return b.constant_int(dtype, scalar.integer != 0);
    return b.constant_int(dtype, scalar.integer);
  }
  if (dtype == DType::Pred) return b.constant_int(dtype, scalar.number != 0.0);
  if (stablehlo::is_int(dtype))
    return b.constant_int(dtype, static_cast<int64_t>(scalar.number.real()));
  return b.constant(dtype, scalar.number.real());
}

/// Bits of a parameter: 32-bit words, least significant first.
Value from_words(Builder& b, Value words, DType dtype) {
  if (stablehlo::is_complex(dtype)) {
    const DType real = stablehlo::real_dtype(dtype);
    const int64_t half = words.numel() / 2;
    return b.complex(from_words(b, b.slice(words, {0}, {half}), real),
                     from_words(b, b.slice(words, {half}, {2 * half}), real));
  }
  if (words.numel() == 1) words = b.reshape(words, {});
  return b.bitcast_convert(words, dtype);
}

template <class T>
T number_at(const uint32_t* words) {
  T value;
  std::memcpy(reinterpret_cast<void*>(&value), words, sizeof value);
  return value;
}

/// The constant that the words of a parameter are.
Value constant_words(Builder& b, const uint32_t* words, DType dtype) {
  switch (dtype) {
    case DType::F32:
      return b.constant(dtype, number_at<float>(words));
    case DType::F64:
      return b.constant(dtype, number_at<double>(words));
    case DType::C64:
      return b.constant_complex(dtype, number_at<std::complex<float>>(words));
    case DType::C128:
      return b.constant_complex(dtype, number_at<std::complex<double>>(words));
    case DType::S32:
      return b.constant_int(dtype, number_at<int32_t>(words));
    case DType::U32:
      return b.constant_int(dtype, number_at<uint32_t>(words));
    default:  // 64-bit integers
      return b.constant_int(dtype, number_at<int64_t>(words));
  }
}

}  // namespace

DType carrier(DType dtype) {
  switch (dtype) {
    case DType::F16:
    case DType::BF16:
    case DType::F8E4M3FN:
    case DType::F8E5M2:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2FNUZ:
    case DType::F8E8M0FNU:
      return DType::F32;
    case DType::Pred:
    case DType::S8:
    case DType::S16:
      return DType::S32;
    case DType::U8:
    case DType::U16:
      return DType::U32;
    default:
      return dtype;
  }
}

Value ParamPack::value_of(Builder& builder, const Param& param) {
  if (param.is_constant) {
    const DType dtype = carrier(param.dtype);
    return cast(constant_words(builder, constants_.data() + param.word, dtype), param.dtype);
  }
  if (!operand_) operand_ = builder.parameter({DType::U32, {capacity_}});
  const int32_t count = words_of(carrier(param.dtype));
  const Value words = builder.slice(operand_, {param.word}, {param.word + count});
  return cast(from_words(builder, words, carrier(param.dtype)), param.dtype);
}

Value ParamPack::get(Builder& builder, Param param) {
  const auto first = std::ranges::lower_bound(params_, param.call, {}, &Param::call);
  for (auto p = first; p != params_.end() && p->call == param.call; ++p) {
    if (p->source != param.source || p->a != param.a || p->b != param.b ||
        p->dtype != param.dtype) {
      continue;
    }
    Value& value = values_[static_cast<size_t>(p - params_.begin())];
    if (!value) value = value_of(builder, *p);
    return value;
  }
  param.word = words_;
  words_ += words_of(carrier(param.dtype));
  if (words_ > capacity_) throw BuildError("too many run-time scalars in one program");
  params_.push_back(param);
  values_.push_back(value_of(builder, param));
  return values_.back();
}

Context::Context(ProgramState& state, const Op& op_, std::vector<Argument> args,
                 std::vector<Type> outs, std::optional<DType> common)
    : b(*state.builder),
      op(op_),
      state_(state),
      args_(std::move(args)),
      outs_(std::move(outs)),
      common_(common) {}

void Context::fail(size_t i, std::string_view expected) const {
  throw BuildError(std::string(op.name) + ": argument " + std::to_string(i) + " is not " +
                   std::string(expected));
}

const Argument& Context::arg(size_t i) const {
  if (i >= args_.size()) fail(i, "there");
  return args_[i];
}

bool Context::has(size_t i) const {
  return i < args_.size() &&
         (args_[i].host_tensor || !std::holds_alternative<std::monostate>(args_[i].data));
}

Value Context::tensor(size_t i) const {
  const Argument& a = arg(i);
  if (a.host_tensor) {
    const Param::Source source = Param::Source::HostTensor;
    return cast(state_.params.get(b, {.source = source,
                                      .call = state_.call,
                                      .a = static_cast<int32_t>(i),
                                      .dtype = *a.host_tensor}),
                *a.host_tensor);
  }
  const Value* v = std::get_if<Value>(&a.data);
  if (!v) fail(i, "a tensor");
  return *v;
}

Value Context::tensor_or(size_t i, Value otherwise) const { return has(i) ? tensor(i) : otherwise; }

const Values& Context::tensors(size_t i) const {
  const Values* v = std::get_if<Values>(&arg(i).data);
  if (!v) fail(i, "a list of tensors");
  return *v;
}

int64_t Context::integer(size_t i) const {
  const int64_t* v = std::get_if<int64_t>(&arg(i).data);
  if (!v) fail(i, "an int");
  return *v;
}

int64_t Context::integer_or(size_t i, int64_t otherwise) const {
  return has(i) ? integer(i) : otherwise;
}

bool Context::flag(size_t i) const {
  const bool* v = std::get_if<bool>(&arg(i).data);
  if (!v) fail(i, "a bool");
  return *v;
}

bool Context::flag_or(size_t i, bool otherwise) const { return has(i) ? flag(i) : otherwise; }

const Dims& Context::ints(size_t i) const {
  const Dims* v = std::get_if<Dims>(&arg(i).data);
  if (!v) fail(i, "a list of ints");
  return *v;
}

const std::vector<bool>& Context::flags(size_t i) const {
  const auto* v = std::get_if<std::vector<bool>>(&arg(i).data);
  if (!v) fail(i, "a list of bools");
  return *v;
}

std::string_view Context::text(size_t i) const {
  const auto* v = std::get_if<std::string>(&arg(i).data);
  if (!v) fail(i, "a string");
  return *v;
}

std::string_view Context::text_or(size_t i, std::string_view otherwise) const {
  return has(i) ? text(i) : otherwise;
}

std::optional<DType> Context::dtype(size_t i) const {
  if (!has(i)) return std::nullopt;
  const DType* v = std::get_if<DType>(&arg(i).data);
  if (!v) fail(i, "a dtype");
  return *v;
}

Value Context::scalar(size_t i, DType dtype) const {
  const Argument& a = arg(i);
  if (a.host_tensor) return cast(tensor(i), dtype);
  if (const Value* v = std::get_if<Value>(&a.data)) return cast(*v, dtype);
  const Scalar* s = std::get_if<Scalar>(&a.data);
  if (!s) fail(i, "a number");
  if (s->is_static) return constant_of(b, *s, dtype);
  return cast(state_.params.get(b, {.source = Param::Source::Scalar,
                                    .call = state_.call,
                                    .a = static_cast<int32_t>(i),
                                    .dtype = dtype}),
              dtype);
}

Value Context::scalar_or(size_t i, DType dtype, double otherwise) const {
  return has(i) ? scalar(i, dtype) : b.constant(dtype, otherwise);
}

Value Context::scalar_at(size_t i, size_t element, DType dtype) const {
  if (const auto* list = std::get_if<Values>(&arg(i).data)) return cast(list->at(element), dtype);
  const auto* list = std::get_if<std::vector<Scalar>>(&arg(i).data);
  if (!list) fail(i, "a list of numbers");
  if (list->at(element).is_static) return constant_of(b, list->at(element), dtype);
  return cast(state_.params.get(b, {.source = Param::Source::Scalar,
                                    .call = state_.call,
                                    .a = static_cast<int32_t>(i),
                                    .b = static_cast<int32_t>(element),
                                    .dtype = dtype}),
              dtype);
}

size_t Context::list_size(size_t i) const {
  const Argument& a = arg(i);
  if (const auto* v = std::get_if<Values>(&a.data)) return v->size();
  if (const auto* v = std::get_if<std::vector<Scalar>>(&a.data)) return v->size();
  if (const auto* v = std::get_if<Dims>(&a.data)) return v->size();
  fail(i, "a list");
}

ScalarKind Context::scalar_kind(size_t i) const {
  const Scalar* s = std::get_if<Scalar>(&arg(i).data);
  if (!s) fail(i, "a Scalar");
  return s->kind;
}

double Context::number(size_t i) const {
  const std::optional<double> value = special(i);
  if (!value) fail(i, "a static number (see Op::static_args)");
  return *value;
}

std::optional<double> Context::special(size_t i) const {
  const Scalar* s = std::get_if<Scalar>(&arg(i).data);
  if (!s || !s->is_static) return std::nullopt;
  const bool integral = s->kind == ScalarKind::Int || s->kind == ScalarKind::Bool;
  return integral ? static_cast<double>(s->integer) : s->number.real();
}

DType Context::common() const {
  if (!common_) throw BuildError(std::string(op.name) + ": no arguments to promote");
  return *common_;
}

stablehlo::Precision Context::precision(DType dtype) const {
  if (!op.uses_precision) throw BuildError(std::string(op.name) + " must declare uses_precision");
  const bool is_single = dtype == DType::F32 || dtype == DType::C64;
  return is_single ? state_.precision : stablehlo::Precision::Highest;
}

DType Context::compute_dtype(DType dtype) {
  const DType wide = carrier(dtype);
  return stablehlo::is_float(dtype) ? wide : dtype;
}

Value Context::random_words(int64_t count) const {
  Value seed = state_.params.get(
      b, {.source = Param::Source::Seed, .call = state_.call, .dtype = DType::U64});
  Value offset = state_.params.get(
      b, {.source = Param::Source::Offset, .call = state_.call, .dtype = DType::U64});
  const uint64_t first = state_.random_blocks;
  state_.random_blocks += static_cast<uint64_t>((count + 3) / 4);
  return philox_words(seed, offset, first, count);
}

Value Context::checked_index(Value index, int64_t size, int64_t dim, bool allow_negative,
                             Value valid) const {
  const Value wide = stablehlo::convert(index, DType::S64);
  const Value zero = stablehlo::constant_int_like(wide, 0);
  const Value limit = stablehlo::constant_int_like(wide, size);
  const Value lowest = allow_negative ? stablehlo::constant_int_like(wide, -size) : zero;
  Value bad = stablehlo::logical_or(stablehlo::lt(wide, lowest), stablehlo::ge(wide, limit));
  if (valid) bad = stablehlo::logical_and(bad, stablehlo::broadcast_to(valid, bad.dims()));
  if (index.numel() > 0) note_error(bad, wide, size, dim);
  Value wrapped = wide;
  if (allow_negative) wrapped = stablehlo::where(stablehlo::lt(wide, zero), wide + limit, wide);
  const Value last = stablehlo::constant_int_like(wide, size > 0 ? size - 1 : 0);
  return b.clamp(zero, wrapped, last);
}

void Context::note_error(Value bad, Value index, int64_t size, int64_t dim) const {
  ErrorWord& error = state_.error;
  if (!error.incoming) {
    error.incoming = b.parameter({DType::S64, {4}});
    error.current = error.incoming;
  }
  // Any one of the bad values serves the message: the greatest distance from a valid index is not
  // needed, so the extremum is cheap and does not depend on the order of evaluation.
  const Value none = b.lowest(DType::S64);
  const Value picked = stablehlo::where(bad, index, stablehlo::broadcast_to(none, index.dims()));
  const Dims all = stablehlo::all_dims(index);
  const Value value = b.reshape(stablehlo::reduce_max(picked, all), {1});
  const Value any = stablehlo::reduce_or(bad, all);
  // The site is a run-time operand: programs on disk outlive the process that numbered its
  // operators.
  const Value site =
      b.reshape(state_.params.get(
                    b, {.source = Param::Source::Site, .call = state_.call, .dtype = DType::S64}),
                {1});
  const std::array<int64_t, 2> place{size, dim};
  const std::array<Value, 3> parts{site, value, b.constant_ints(DType::S64, place)};
  const Value found = b.concatenate(parts, 0);
  const Value first = b.reshape(b.slice(error.current, {0}, {1}), {});
  const Value keep = stablehlo::logical_or(stablehlo::ne(first, 0.0), stablehlo::logical_not(any));
  error.current = b.select(keep, error.current, found);
}

}  // namespace torch_tpu::lowering
