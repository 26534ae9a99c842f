// Clients, devices and topologies.

#include <set>

#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

using testing::client;
using testing::device;
using testing::expect_error;
using testing::plugin;

TEST(Client, SaysWhatItIs) {
  EXPECT_FALSE(client().platform_name().empty());
  EXPECT_FALSE(client().platform_version().empty());
  EXPECT_EQ(client().process_index(), 0);
  EXPECT_EQ(&client().plugin(), plugin().get());
}

TEST(Client, HasTheDevicesAskedFor) { EXPECT_EQ(client().addressable_devices().size(), 4u); }

TEST(Client, SeveralMayLiveInOneProcess) {
  const auto second = Client::create(plugin(), {{"cpu_device_count", int64_t{1}}});
  EXPECT_EQ(second->addressable_devices().size(), 1u);
  const auto& on = second->addressable_devices()[0];
  const Buffer buffer = testing::upload<float>(*second, {1, 2}, {2}, on);
  EXPECT_EQ(testing::download<float>(buffer), (std::vector<float>{1, 2}));
}

TEST(Device, HasIdentity) {
  std::set<int> ids;
  for (const Device& each : client().addressable_devices()) {
    ids.insert(each.id());
    EXPECT_FALSE(each.kind().empty());
    EXPECT_FALSE(each.to_string().empty());
    EXPECT_GE(each.local_hardware_id(), -1);
    EXPECT_EQ(each.description().process_index(), 0);
    each.attributes();
  }
  EXPECT_EQ(ids.size(), 4u);
}

TEST(Device, MemoryStatsAreOptional) {
  if (const auto stats = device().memory_stats()) {
    EXPECT_GE(stats->bytes_in_use, 0);
  }
}

TEST(Topology, OfAClientListsItsDevices) {
  const Topology topology = client().topology();
  EXPECT_EQ(topology.platform_name(), client().platform_name());
  EXPECT_EQ(topology.devices().size(), 4u);
  topology.platform_version();
  topology.attributes();
}

TEST(Topology, CompilesWithoutAClient) {
  const Topology topology = client().topology();
  try {
    const Executable executable =
        topology.compile(testing::add_program, CompileOptions{.portable = false}.serialize());
    EXPECT_EQ(executable.num_outputs(), 1u);
    EXPECT_FALSE(executable.serialize().empty());
  } catch (const Error& error) {
    // The CPU plugins have no compiler that works without a client.
    EXPECT_TRUE(error.code() == Code::Unimplemented || error.code() == Code::NotFound)
        << error.what();
  }
}

TEST(Topology, ByAnUnknownNameIsAnError) {
  expect_error([] { Topology::create(plugin(), "no such topology"); });
}

TEST(Topology, MovesItsOwnership) {
  Topology first = client().topology();
  Topology second = std::move(first);
  EXPECT_EQ(first.raw(), nullptr);
  first = std::move(second);
  EXPECT_EQ(first.devices().size(), 4u);
}

TEST(NamedValue, HasText) {
  EXPECT_EQ(to_string(Value(std::string("a"))), "a");
  EXPECT_EQ(to_string(Value(int64_t{-3})), "-3");
  EXPECT_EQ(to_string(Value(std::vector<int64_t>{1, 13, 3})), "1.13.3");
  EXPECT_EQ(to_string(Value(1.5f)), "1.5");
  EXPECT_EQ(to_string(Value(true)), "true");
}

TEST(NamedValue, SurvivesTheCForm) {
  const std::vector<NamedValue> options = {{"s", std::string("text")},
                                           {"i", int64_t{7}},
                                           {"l", std::vector<int64_t>{1, 2}},
                                           {"f", 0.5f},
                                           {"b", true}};
  const auto c_options = to_c(options);
  const Attributes back = to_attributes(c_options.data(), c_options.size());
  ASSERT_EQ(back.size(), options.size());
  for (const NamedValue& option : options) {
    EXPECT_EQ(back.at(option.name), option.value) << option.name;
  }
}

}  // namespace
}  // namespace torch_tpu::pjrt
