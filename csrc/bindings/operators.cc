// The table of operators, for tests and for the list of operators.
#include "aten/form.h"
#include "bindings/module.h"

namespace torch_tpu::bindings {
namespace {

/// ``{name of a row: the overloads that it serves}``; none if this PyTorch lacks the operator.
py::dict operator_table() {
  py::dict table;
  for (const lowering::Op& op : lowering::all_ops()) {
    py::list overloads;
    for (const aten::Form& form : aten::forms_of(op)) {
      overloads.append(toString(form.handle.operator_name()));
    }
    table[py::str(std::string(op.name))] = overloads;
  }
  return table;
}

}  // namespace

void bind_operators(py::module_& m) { m.def("operator_table", &operator_table); }

}  // namespace torch_tpu::bindings
