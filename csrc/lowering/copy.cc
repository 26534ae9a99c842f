// Copies between tensors of one device, with conversion and broadcasting.
#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"

namespace torch_tpu::lowering {
namespace {

Values copy(Context& c) {
  return {stablehlo::broadcast_to(cast(c.tensor(1), c.out().dtype), c.out().dims)};
}

}  // namespace

Table copy_table() {
  return {{.name = "aten::copy_", .lower = copy, .promoted_args = {0}, .overwrites = true}};
}

}  // namespace torch_tpu::lowering
