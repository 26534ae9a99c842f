#include "runner.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "pjrt/client.h"
#include "pjrt/compile_options.h"
#include "pjrt/topology.h"
#include "stablehlo/literal.h"

namespace torch_tpu::stablehlo {
namespace {

/// A variable's value, or null if it is unset or empty.
const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

const char* plugin_path() { return variable("TORCH_TPU_TEST_PLUGIN"); }
const char* topology_name() { return variable("TORCH_TPU_TEST_TOPOLOGY"); }

// Client and topology are never destroyed: a plugin's threads may outlive main.
const pjrt::Client& client() {
  static const auto* made =
      new std::shared_ptr<pjrt::Client>(pjrt::Client::create(pjrt::Plugin::load(plugin_path())));
  return **made;
}

const pjrt::Topology& topology() {
  // Without these libtpu waits for minutes for the machine that it would be on.
  constexpr int kKeep = 0;
  setenv("TPU_SKIP_MDS_QUERY", "1", kKeep);
  setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4", kKeep);
  setenv("TPU_WORKER_HOSTNAMES", "localhost", kKeep);
  setenv("TPU_WORKER_ID", "0", kKeep);
  setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", kKeep);
  static const auto* made = new pjrt::Topology(
      pjrt::Topology::create(pjrt::Plugin::load(plugin_path()), topology_name()));
  return *made;
}

PJRT_Buffer_Type buffer_type(DType dtype) {
  switch (dtype) {
    case DType::Pred:
      return PJRT_Buffer_Type_PRED;
    case DType::S8:
      return PJRT_Buffer_Type_S8;
    case DType::S16:
      return PJRT_Buffer_Type_S16;
    case DType::S32:
      return PJRT_Buffer_Type_S32;
    case DType::S64:
      return PJRT_Buffer_Type_S64;
    case DType::U8:
      return PJRT_Buffer_Type_U8;
    case DType::U16:
      return PJRT_Buffer_Type_U16;
    case DType::U32:
      return PJRT_Buffer_Type_U32;
    case DType::U64:
      return PJRT_Buffer_Type_U64;
    case DType::F8E4M3FN:
      return PJRT_Buffer_Type_F8E4M3FN;
    case DType::F8E5M2:
      return PJRT_Buffer_Type_F8E5M2;
    case DType::F8E4M3FNUZ:
      return PJRT_Buffer_Type_F8E4M3FNUZ;
    case DType::F8E5M2FNUZ:
      return PJRT_Buffer_Type_F8E5M2FNUZ;
    case DType::F8E8M0FNU:
      return PJRT_Buffer_Type_F8E8M0FNU;
    case DType::F16:
      return PJRT_Buffer_Type_F16;
    case DType::BF16:
      return PJRT_Buffer_Type_BF16;
    case DType::F32:
      return PJRT_Buffer_Type_F32;
    case DType::F64:
      return PJRT_Buffer_Type_F64;
    case DType::C64:
      return PJRT_Buffer_Type_C64;
    case DType::C128:
      return PJRT_Buffer_Type_C128;
  }
  return PJRT_Buffer_Type_INVALID;
}

std::string compile_options() {
  pjrt::CompileOptions options;
  options.portable = !compile_only();
  // As the backend compiles: bf16 rounds where the program says, and NaN wins in maxima and minima
  // (XLA's CPU backend returns the first operand if either is NaN, unless told not to).
  options.overrides["xla_allow_excess_precision"] = false;
  options.overrides["xla_cpu_enable_fast_min_max"] = false;
  return options.serialize();
}

constexpr size_t kLongestText = 8000;  // of a program in a message

size_t element_size(DType dtype) { return static_cast<size_t>(byte_size(real_dtype(dtype))); }

/// The bits of the i-th element (or part of a complex one).
uint64_t load(const std::vector<uint8_t>& bytes, DType dtype, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * element_size(dtype), element_size(dtype));
  return bits;
}

int64_t to_int(DType dtype, uint64_t bits) {
  auto unused = static_cast<int>(64 - 8 * byte_size(dtype));
  if (is_signed_int(dtype)) return static_cast<int64_t>(bits << unused) >> unused;
  return static_cast<int64_t>(bits);
}

double to_double(DType dtype, uint64_t bits) {
  if (is_float(dtype)) return decode_float(dtype, bits);
  if (dtype == DType::U64) return static_cast<double>(bits);
  return static_cast<double>(to_int(dtype, bits));
}

std::vector<int64_t> to_ints(const std::vector<uint8_t>& bytes, DType dtype) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < bytes.size() / element_size(dtype); ++i) {
    out.push_back(to_int(dtype, load(bytes, dtype, i)));
  }
  return out;
}

Numbers to_numbers(const std::vector<uint8_t>& bytes, DType dtype) {
  Numbers out;
  for (size_t i = 0; i < bytes.size() / element_size(dtype); ++i) {
    out.push_back(to_double(real_dtype(dtype), load(bytes, real_dtype(dtype), i)));
  }
  return out;
}

bool close(double got, double wanted, double tolerance) {
  if (std::isnan(wanted) || std::isnan(got)) return std::isnan(wanted) && std::isnan(got);
  if (tolerance == 0) return got == wanted && std::signbit(got) == std::signbit(wanted);
  if (got == wanted) return true;
  return std::fabs(got - wanted) <= tolerance * std::max(1.0, std::fabs(wanted));
}

}  // namespace

bool have_plugin() { return plugin_path() != nullptr; }

bool compile_only() { return topology_name() != nullptr; }

bool lacks_operations(DType dtype) { return compile_only() && byte_size(real_dtype(dtype)) == 8; }

std::string compile_error(const std::string& program) {
  try {
    if (compile_only()) {
      topology().compile(program, compile_options());
    } else {
      client().compile(program, compile_options());
    }
    return {};
  } catch (const pjrt::Error& error) {
    return error.details();
  }
}

double tolerance(DType dtype) {
  switch (real_dtype(dtype)) {
    case DType::F64:
      return 1e-14;
    case DType::F32:
      return 1e-6;
    case DType::F16:
      return 2e-3;
    case DType::BF16:
      return 1.6e-2;
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
      return 0.15;
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ:
      return 0.3;
    default:
      return 0;
  }
}

Value Program::add_input(const Type& type, const std::vector<uint64_t>& elements) {
  Input input{type, {}};
  size_t size = element_size(type.dtype);
  for (uint64_t bits : elements) {
    auto* bytes = reinterpret_cast<const uint8_t*>(&bits);
    input.bytes.insert(input.bytes.end(), bytes, bytes + size);
  }
  EXPECT_EQ(static_cast<int64_t>(input.bytes.size()), type.numel() * byte_size(type.dtype));
  inputs_.push_back(std::move(input));
  return b.parameter(type);
}

Value Program::in(DType dtype, const Dims& dims, const Numbers& numbers) {
  std::vector<uint64_t> elements;
  for (double number : numbers) elements.push_back(encode(real_dtype(dtype), number));
  return add_input({dtype, dims}, elements);
}

Value Program::in(DType dtype, const Numbers& numbers) {
  auto count = static_cast<int64_t>(numbers.size());
  return in(dtype, {is_complex(dtype) ? count / 2 : count}, numbers);
}

Value Program::in_ints(DType dtype, const std::vector<int64_t>& numbers) {
  std::vector<uint64_t> elements;
  for (int64_t number : numbers) elements.push_back(encode_int(dtype, number));
  return add_input({dtype, {static_cast<int64_t>(numbers.size())}}, elements);
}

void Program::expect(Value result, const Numbers& numbers, double tolerance, Where where) {
  checks_.push_back({result, numbers, {}, false, tolerance, where});
}

void Program::expect_ints(Value result, const std::vector<int64_t>& numbers, Where where) {
  checks_.push_back({result, {}, numbers, true, 0, where});
}

std::vector<std::vector<uint8_t>> Program::execute() {
  Values results;
  for (const Check& check : checks_) results.push_back(check.result);
  std::string text = b.finish(results, "test");
  if (compile_only()) {
    EXPECT_EQ(compile_error(text), "") << text.substr(0, kLongestText);
    return {};
  }
  pjrt::LoadedExecutable executable;
  try {
    executable = client().compile(text, compile_options());
  } catch (const pjrt::Error& error) {
    ADD_FAILURE() << error.details() << "\n" << text.substr(0, kLongestText);
    return {};
  }

  const pjrt::Device& device = client().addressable_devices()[0];
  std::vector<pjrt::Buffer> arguments;
  std::vector<PJRT_Buffer*> raw;
  for (const Input& input : inputs_) {
    arguments.push_back(client().buffer_from_host(
        input.bytes.data(), buffer_type(input.type.dtype), input.type.dims, {}, device,
        pjrt::HostBufferSemantics::ImmutableOnlyDuringCall));
    raw.push_back(arguments.back().raw());
  }
  std::vector<PJRT_Buffer*> made(results.size());
  executable.execute(raw.data(), raw.size(), made.data(), device.raw());

  std::vector<std::vector<uint8_t>> out;
  for (size_t i = 0; i < results.size(); ++i) {
    pjrt::Buffer buffer(client().api(), made[i]);
    const Type& type = results[i].type();
    EXPECT_EQ(buffer.element_type(), buffer_type(type.dtype));
    EXPECT_EQ(Dims(buffer.dims().begin(), buffer.dims().end()), type.dims);
    std::vector<uint8_t> bytes(static_cast<size_t>(type.numel() * byte_size(type.dtype)));
    EXPECT_EQ(buffer.to_host_size(), bytes.size());
    buffer.to_host(bytes.data(), bytes.size()).await();
    out.push_back(std::move(bytes));
  }
  return out;
}

std::vector<Numbers> Program::evaluate() {
  std::vector<std::vector<uint8_t>> all = execute();
  std::vector<Numbers> out;
  for (size_t i = 0; i < all.size(); ++i) {
    out.push_back(to_numbers(all[i], checks_[i].result.dtype()));
  }
  return out;
}

void Program::run() {
  std::vector<std::vector<uint8_t>> all = execute();
  for (size_t i = 0; i < all.size(); ++i) {
    const Check& check = checks_[i];
    const Type& type = check.result.type();
    testing::ScopedTrace trace(check.where.file_name(), static_cast<int>(check.where.line()),
                               "result " + std::to_string(i) + ": " + to_string(type));
    if (check.as_ints) {
      EXPECT_EQ(to_ints(all[i], type.dtype), check.ints);
      continue;
    }
    Numbers got = to_numbers(all[i], type.dtype);
    ASSERT_EQ(got.size(), check.numbers.size());
    for (size_t j = 0; j < got.size(); ++j) {
      EXPECT_TRUE(close(got[j], check.numbers[j], check.tolerance))
          << "element " << j << " is " << got[j] << ", not " << check.numbers[j];
    }
  }
}

}  // namespace torch_tpu::stablehlo
