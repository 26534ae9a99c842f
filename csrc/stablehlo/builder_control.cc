// Control flow.
#include "stablehlo/op.h"

namespace torch_tpu::stablehlo {

Values Builder::while_loop(std::span<const Value> inits, const Body& condition, const Body& body) {
  Op op(*this, "stablehlo.while", inits);
  op.require(!inits.empty(), "a loop needs a value to carry");
  Types types;
  for (Value v : inits) types.push_back(v.type());
  Types pred(1, Type{DType::Pred, {}});
  op.region(types, Capture::Yes, condition, "the condition", &pred);
  op.region(types, Capture::Yes, body, "the body", &types);
  return op.results(types);
}

Values Builder::if_else(Value pred, const Body& then_body, const Body& else_body) {
  Op op(*this, "stablehlo.if", {pred});
  op.require(pred.type() == Type{DType::Pred, {}}, "the condition must be tensor<i1>");
  Types types = op.region({}, Capture::Yes, then_body, "the first branch", nullptr);
  op.region({}, Capture::Yes, else_body, "the second branch", &types);
  return op.results(types);
}

}  // namespace torch_tpu::stablehlo
