"""What each kernel in generated code was made from, and marks that its calls are timed by.

Inductor's own profile option names what it records after the function that is called: the layers of an
encoder, which share one kernel and call one function of a library, would all look the same. So here each
place where a kernel is called is recorded under a number of its own.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from compiler.job.codegen import CHECKED, closing_parenthesis
from compiler.job.replaced import replaced

if TYPE_CHECKING:
    from torch.fx import Node

FUSED = "fused"  # a kernel that Inductor wrote
LIBRARY = "library"  # a call that it chose: a product of matrices, a convolution
FALLBACK = "fallback"  # an operator that it has no code for, run by libtorch as in eager

# The functions of libtorch that compute something; the others make, free and describe tensors.
COMPUTES = (
    r"aoti_torch_(?:cpu_\w+|proxy_executor_call_function|call_dispatcher|index_put_out|scatter_out"
    r"|scatter_reduce_out|_mm_plus_mm_out|\w*copy_|clone\w*)"
)
PROXY = "aoti_torch_proxy_executor_call_function"
MARK = re.compile(r"^[ \t]*// kernel call (\d+)$", re.MULTILINE)


@dataclass
class Call:
    """A place in the generated code where a kernel is called."""

    number: int
    kind: str
    # Of the graph that code was generated from; of a library call first the one that it was chosen for.
    nodes: list[Node] = field(default_factory=list)
    function: str = ""  # as called; empty: nothing is, such as where a branch begins

    @property
    def record(self) -> str:
        """The name under which the profiler knows it."""
        return f"kernel call {self.number}"


@contextlib.contextmanager
def marked() -> Iterator[list[Call]]:
    """Within, the places of an artifact where kernels are called are listed, and recorded whenever it
    runs under a profiler."""
    from torch._inductor.codecache import AotCodeCompiler
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.scheduler import Scheduler
    from torch._inductor.virtualized import V

    calls: list[Call] = []
    comment = CppScheduling.__dict__["codegen_comment"]
    call_extern = Scheduler.__dict__["codegen_extern_call"]
    compile_code = AotCodeCompiler.__dict__["compile"]

    def note(kind: str, nodes: list[Node]) -> None:
        single = dict.fromkeys(part for node in nodes for part in _parts(node))
        calls.append(Call(len(calls), kind, [node for node in single if node.op == "call_function"]))
        V.graph.wrapper_code.writeline(f"// {calls[-1].record}")

    def noting_comment(self: Any, node_schedule: Any, kernel_name: str | None = None) -> None:
        parts = [part.node for step in node_schedule for part in step.get_nodes()]
        note(FUSED, [origin for part in parts if part is not None for origin in part.get_origins()])
        comment(self, node_schedule, kernel_name)

    def noting_extern(self: Any, scheduler_node: Any) -> None:
        node = scheduler_node.node
        # Its origins hold those of its operands too, which kernels of their own compute.
        of = [] if node.fx_node is None else [node.fx_node]  # none: an assertion about sizes
        note(FALLBACK if "Fallback" in type(node).__name__ else LIBRARY, of)
        call_extern(self, scheduler_node)

    def compile_marked(cls: type, graph: Any, wrapper_code: str, *rest: Any, **options: Any) -> Any:
        return compile_code.__func__(cls, graph, mark(wrapper_code, calls), *rest, **options)

    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(CppScheduling, "codegen_comment", noting_comment))
        stack.enter_context(replaced(Scheduler, "codegen_extern_call", noting_extern))
        stack.enter_context(replaced(AotCodeCompiler, "compile", classmethod(compile_marked)))
        yield calls


def _parts(node: Node) -> list[Node]:
    """The nodes that a match of Inductor's patterns was put in place of, operands first; else the node."""
    if isinstance(node.target, functools.partial) and node.target.args:
        return list(getattr(node.target.args[0], "nodes", [node]))
    return [node]


def mark(wrapper_code: str, calls: list[Call]) -> str:
    """Puts a record around the first kernel call after each mark, and notes its function in `calls`."""
    statement = re.compile(rf"^[ \t]*(?:{CHECKED}\()?({COMPUTES}|cpp_\w+)\(", re.MULTILINE)
    pieces = []
    done = 0
    marks = list(MARK.finditer(wrapper_code))
    ends = [following.start() for following in marks[1:]] + [len(wrapper_code)]
    for this, end in zip(marks, ends, strict=True):
        found = statement.search(wrapper_code, this.end(), end)
        if found is None:
            continue
        call = calls[int(this.group(1))]
        call.function = found.group(1)
        closing = closing_parenthesis(wrapper_code, wrapper_code.index("(", found.start()))
        after = wrapper_code.index(";", closing) + 1
        record = f'{{ torch::aot_inductor::RAIIAtenRecordFunctionHandle record("{call.record}", nullptr);\n'
        pieces += [wrapper_code[done : found.start()], record, wrapper_code[found.start() : after], " }"]
        done = after
    return "".join(pieces) + wrapper_code[done:]
