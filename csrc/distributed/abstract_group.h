// A process group of devices that are not there: collectives become operators of a captured
// program.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace torch_tpu::distributed {

/// What one collective asks for.
struct Collective {
  std::string kind;   // "all_gather", "all_reduce", "reduce_scatter" or "all_to_all"
  std::string group;  // the group's description, such as "mesh_dp"
  int64_t group_size;
  int64_t bytes;  // of its operand or its result, whichever is bigger
};

/// The group of `rank`, which is one of several of the same size: `devices` are the global numbers
/// of all devices, group after group. Its collectives can only be recorded, within a capture.
c10::intrusive_ptr<c10d::Backend> make_abstract_group(int rank, int size,
                                                      std::vector<int64_t> devices);

/// The collectives that were recorded since the last call, in order.
std::vector<Collective> take_collectives();

}  // namespace torch_tpu::distributed
