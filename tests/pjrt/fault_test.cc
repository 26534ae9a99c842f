// Injected failures: each becomes an exception with the right code, leaks nothing, and leaves the
// process usable.

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <future>

#include "fault_api.h"
#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

using testing::download;
using testing::expect_error;
using testing::Slot;
using Values = std::vector<float>;

constexpr std::array<int64_t, 1> four = {4};

/// The functions of the fault plugin, over the plugin under test.
class FaultPlugin {
 public:
  FaultPlugin() {
    ::setenv("FAULT_TARGET", testing::plugin_path().c_str(), 1);
    plugin = Plugin::load(FAULT_PLUGIN);
    void* library = ::dlopen(FAULT_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    set = reinterpret_cast<FaultSet*>(::dlsym(library, "fault_set"));
    clear = reinterpret_cast<FaultClear*>(::dlsym(library, "fault_clear"));
    live = reinterpret_cast<FaultLive*>(::dlsym(library, "fault_live"));
    calls = reinterpret_cast<FaultCalls*>(::dlsym(library, "fault_calls"));
  }

  std::shared_ptr<const Plugin> plugin;
  FaultSet* set = nullptr;
  FaultClear* clear = nullptr;
  FaultLive* live = nullptr;
  FaultCalls* calls = nullptr;
};

const FaultPlugin& fault() {
  static const FaultPlugin& instance = *new FaultPlugin;
  return instance;
}

class Faults : public ::testing::Test {
 protected:
  void SetUp() override {
    client = Client::create(fault().plugin, {{"cpu_device_count", int64_t{2}}});
    program = client->compile(testing::add_program, testing::portable());
    a = make_buffer();
    before = count_live();
  }

  void TearDown() override {
    fault().clear();
    // Usable: the same objects still work, after whatever failed.
    EXPECT_EQ(download<float>(execute()), (Values{2, 4, 6, 8}));
    EXPECT_EQ(count_live(), before);
    a.reset();
    program = LoadedExecutable();
    client.reset();
    EXPECT_EQ(count_live(), (std::array<int64_t, 6>{}));
  }

  static std::array<int64_t, 6> count_live() {
    return {fault().live("clients"),
            fault().live("buffers"),
            fault().live("events"),
            fault().live("executables"),
            fault().live("loaded_executables"),
            fault().live("errors")};
  }

  Buffer make_buffer() const {
    const Values values = {1, 2, 3, 4};
    return client->buffer_from_host(values.data(), PJRT_Buffer_Type_F32, four, {}, device(),
                                    HostBufferSemantics::ImmutableOnlyDuringCall);
  }

  Buffer execute(Event* done = nullptr) const {
    const std::array<PJRT_Buffer*, 2> args = {a.raw(), a.raw()};
    PJRT_Buffer* out = nullptr;
    PJRT_Event* event = nullptr;
    program.execute(args.data(), args.size(), &out, device().raw(), {},
                    done != nullptr ? &event : nullptr);
    if (done != nullptr) {
      *done = Event(client->api(), event);
    }
    return {client->api(), out};
  }

  const Device& device(size_t index = 0) const { return client->addressable_devices()[index]; }

  std::shared_ptr<Client> client;
  LoadedExecutable program;
  Buffer a;
  std::array<int64_t, 6> before{};
};

struct Failure {
  const char* point;
  PJRT_Error_Code code;
};

class FailingCall : public Faults, public ::testing::WithParamInterface<Failure> {
 protected:
  /// Does something that calls `point` once.
  void call(const std::string& point) {
    if (point == "client_create") {
      Client::create(fault().plugin);
    } else if (point == "compile" || point == "get_executable" || point == "num_outputs") {
      client->compile(testing::add_program, testing::portable());
    } else if (point == "serialize") {
      program.serialize();
    } else if (point == "deserialize") {
      client->load(serialized);
    } else if (point == "execute") {
      Event done;
      execute(&done);
    } else if (point == "buffer_from_host") {
      make_buffer();
    } else if (point == "view") {
      client->view_of_device_memory(slot.values.data(), PJRT_Buffer_Type_F32, four, device(),
                                    [this] { ++deletions; });
      --deletions;
    } else if (point == "copy_to_device") {
      a.copy_to_device(device(1));
    } else if (point == "to_host" || point == "event_await") {
      download<float>(a);
    } else if (point == "ready_event") {
      a.is_ready();
    } else if (point == "event_on_ready") {
      a.ready_event().on_ready([this](const Error*) { ++callbacks; });
      --callbacks;
    } else {
      FAIL() << point;
    }
  }

  std::string serialized;
  Slot slot;
  int deletions = 0;
  int callbacks = 0;
};

TEST_P(FailingCall, BecomesAnException) {
  const char* point = GetParam().point;
  const PJRT_Error_Code code = GetParam().code;
  serialized = program.serialize();
  for (int64_t nth : {0, 1}) {
    ASSERT_TRUE(fault().set(point, nth, FAULT_FAIL, code));
    for (int64_t i = 0; i < nth; ++i) {
      call(point);
    }
    const int64_t calls = fault().calls(point);
    const Error error = expect_error([&] { call(point); });
    EXPECT_EQ(fault().calls(point), calls + 1);
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code));
    EXPECT_EQ(std::string(error.what()).rfind("injected fault", 0), 0u) << error.what();
    EXPECT_NE(error.details().find("source lines"), std::string::npos);
    call(point);
  }
  EXPECT_EQ(deletions, 0) << "a callback ran for a view that was not made";
  EXPECT_EQ(callbacks, 0) << "a callback ran that was not registered";
}

INSTANTIATE_TEST_SUITE_P(
    Points, FailingCall,
    ::testing::Values(Failure{"client_create", PJRT_Error_Code_UNAVAILABLE},
                      Failure{"compile", PJRT_Error_Code_INTERNAL},
                      Failure{"get_executable", PJRT_Error_Code_INTERNAL},
                      Failure{"num_outputs", PJRT_Error_Code_UNKNOWN},
                      Failure{"serialize", PJRT_Error_Code_UNIMPLEMENTED},
                      Failure{"deserialize", PJRT_Error_Code_DATA_LOSS},
                      Failure{"execute", PJRT_Error_Code_RESOURCE_EXHAUSTED},
                      Failure{"buffer_from_host", PJRT_Error_Code_RESOURCE_EXHAUSTED},
                      Failure{"view", PJRT_Error_Code_INVALID_ARGUMENT},
                      Failure{"copy_to_device", PJRT_Error_Code_RESOURCE_EXHAUSTED},
                      Failure{"to_host", PJRT_Error_Code_ABORTED},
                      Failure{"event_await", PJRT_Error_Code_DEADLINE_EXCEEDED},
                      Failure{"ready_event", PJRT_Error_Code_INTERNAL},
                      Failure{"event_on_ready", PJRT_Error_Code_CANCELLED}),
    [](const auto& info) { return info.param.point; });

TEST_F(Faults, AnExecutionThatFailsLater) {
  fault().set("execute", 0, FAULT_FAIL_LATER, PJRT_Error_Code_DATA_LOSS);
  Event done;
  const Buffer result = execute(&done);
  const Error error = expect_error([&] { done.await(); });
  EXPECT_EQ(error.code(), Code::DataLoss);
  EXPECT_TRUE(done.is_ready());
  expect_error([&] { done.await(); });
}

TEST_F(Faults, ABufferThatBecomesReadyWithAnError) {
  fault().set("ready_event", 0, FAULT_FAIL_LATER, PJRT_Error_Code_RESOURCE_EXHAUSTED);
  const Error error = expect_error([&] { a.await(); });
  EXPECT_EQ(error.code(), Code::ResourceExhausted);
  a.await();
}

TEST_F(Faults, ACopyToTheHostThatFailsLater) {
  fault().set("to_host", 0, FAULT_FAIL_LATER, PJRT_Error_Code_INTERNAL);
  Values values(4);
  const Event copied = a.to_host(values.data(), 16);
  EXPECT_EQ(expect_error([&] { copied.await(); }).code(), Code::Internal);
}

TEST_F(Faults, ATransferThatFailsLater) {
  fault().set("buffer_from_host", 0, FAULT_FAIL_LATER, PJRT_Error_Code_UNAVAILABLE);
  const Values values = {1, 2, 3, 4};
  Event done;
  const Buffer buffer =
      client->buffer_from_host(values.data(), PJRT_Buffer_Type_F32, four, {}, device(),
                               HostBufferSemantics::ImmutableUntilTransferCompletes, &done);
  EXPECT_EQ(expect_error([&] { done.await(); }).code(), Code::Unavailable);
}

TEST_F(Faults, ACallbackGetsTheLateError) {
  fault().set("ready_event", 0, FAULT_FAIL_LATER, PJRT_Error_Code_ABORTED);
  std::promise<Code> code;
  a.ready_event().on_ready(
      [&](const Error* error) { code.set_value(error != nullptr ? error->code() : Code::Ok); });
  EXPECT_EQ(code.get_future().get(), Code::Aborted);
}

TEST_F(Faults, ADelayIsOnlyADelay) {
  constexpr auto delay = std::chrono::milliseconds(50);
  fault().set("execute", 0, FAULT_DELAY, delay.count());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(download<float>(execute()), (Values{2, 4, 6, 8}));
  EXPECT_GE(std::chrono::steady_clock::now() - start, delay);
}

TEST_F(Faults, EachCallMayFail) {
  fault().set("execute", -1, FAULT_FAIL, PJRT_Error_Code_RESOURCE_EXHAUSTED);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(expect_error([&] { execute(); }).code(), Code::ResourceExhausted);
  }
}

TEST_F(Faults, AMissingFeatureIsNotAFailure) {
  EXPECT_FALSE(fault().set("no_such_point", 0, FAULT_FAIL, 1));
  EXPECT_EQ(fault().live("no_such_kind"), -1);
}

}  // namespace
}  // namespace torch_tpu::pjrt
