"""Makes compiled code look at what it is given by operators that it calls by their names.

Code around such an operator is made for results of the shape, layout and type that the operator was said to have. Eager
takes whatever comes; compiled code would read beyond a result that is smaller. So each is compared when it comes, and
the run fails where it is another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from compiler.guards.refused import Refused

if TYPE_CHECKING:
    from torch._inductor.ir import FallbackKernel

FUNCTION = "stoker_check_result"
# Behind the headers, which end where the first namespace or declaration of the wrapper's own begins.
BEGIN = "namespace torch::aot_inductor {"
DEFINITION = f"""#include <initializer_list>
#include <stdexcept>
#include <string>

static void {FUNCTION}(AtenTensorHandle result, const char* what, int32_t type,
                       std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides) {{
  int64_t rank = 0, *size = nullptr, *stride = nullptr;
  int32_t dtype = 0;
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(result, &rank));
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(result, &dtype));
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(result, &size));
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(result, &stride));
  bool same = dtype == type && rank == static_cast<int64_t>(sizes.size()), empty = false;
  for (int64_t d = 0; same && d < rank; ++d) {{
    same = size[d] == sizes.begin()[d];
    empty = empty || size[d] == 0;
  }}
  for (int64_t d = 0; same && !empty && d < rank; ++d) {{
    same = size[d] == 1 || stride[d] == strides.begin()[d];
  }}
  if (!same) {{
    throw std::runtime_error(std::string(what) + ": its result has another shape, layout or type than was declared");
  }}
}}

"""


def define(wrapper_code: str) -> str:
    """With the function that the checks call, where there are any."""
    if FUNCTION not in wrapper_code:
        return wrapper_code
    head, begin, rest = wrapper_code.partition(BEGIN)
    if not begin:
        raise Refused("generated wrapper: no place for the checks of results")
    return head + DEFINITION + begin + rest


def checking(original: Callable[[FallbackKernel, Any], None]) -> Callable[[FallbackKernel, Any], None]:
    """FallbackKernel.codegen, which then writes a check for each result of an operator called by its name."""
    from torch._inductor import ir

    def codegen(self: FallbackKernel, wrapper: Any) -> None:
        original(self, wrapper)
        if not self.use_runtime_dispatch:
            return
        for output in self.outputs:
            if not isinstance(output, ir.MultiOutput) or not isinstance(output.layout, ir.Layout):
                raise Refused(f"{self.op_overload}: it returns something other than tensors")
            sizes, strides = (
                ", ".join(f"int64_t({wrapper.codegen_cpp_sizevar(size)})" for size in values)
                for values in (output.get_size(), output.get_stride())
            )
            dtype = wrapper.codegen_dtype(output.get_dtype())
            name = self.op_overload.name()
            wrapper.writeline(f'{FUNCTION}({output.get_name()}, "{name}", {dtype}, {{{sizes}}}, {{{strides}}});')

    return codegen
