"""Makes Inductor's C++ safe: what it emits is mended where it can be, and refused where it can't.

torch 2.11's generator ignores the error codes of some fallback calls, and checks indices where it
can't see that they are in range, by throwing inside an OpenMP region, which ends the process.
guards/proof.py shows for the whole graph that no such check can fail; so they are left out, which also
costs nothing at run time. Only a check or an integer division in a kernel that no proved operator
is part of means that something was overlooked: such an artifact is refused, and so is one whose
finished text still holds what should not be there.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compiler.guards import known, proof
from compiler.guards.refused import Refused
from compiler.job import capturable, results
from compiler.job.replaced import replaced

STATEMENT = re.compile(r"^[ \t]*(aoti_torch_\w+)\(", re.MULTILINE)
CHECKED = "AOTI_TORCH_ERROR_CODE_CHECK"
ORIGINAL_NAME = re.compile(r'constants_info_\[\d+\]\.original_fqn = "((?:[^"\\]|\\.)*)";')


@dataclass
class Generated:
    """What was seen of the generated code."""

    constants: list[str] = field(default_factory=list)
    unproved: list[str] = field(default_factory=list)  # checks and divisions of unknown origin
    not_capturable: str | None = None  # why it can't become a CUDA graph; meaningless for CPUs


@contextlib.contextmanager
def installed(
    calls: Counter[str], before_build: Callable[[], None], own_part: Callable[[str], str] | None = None
) -> Iterator[Generated]:
    """Within, every artifact that Inductor generates is mended and inspected before it is built;
    Refused comes out of the compile for one that stays unsafe. `calls` are those that the program makes of operators
    that aren't torch's; `before_build` is called when the C++ compilers are about to start; `own_part` takes from a
    wrapper what is built elsewhere."""
    from torch._inductor import ir
    from torch._inductor.codecache import AotCodeCompiler

    generated = Generated()
    original = AotCodeCompiler.__dict__["compile"]

    def compile_checked(
        cls: type, graph: Any, wrapper_code: str, kernel_code: str, *rest: Any, **options: Any
    ) -> Any:
        proof.prove(graph.module.graph)
        known.check_calls(graph.module.graph, calls)
        generated.not_capturable = capturable.reason_against(graph.module.graph)
        if generated.unproved:
            raise Refused("generated code: " + "; ".join(generated.unproved))
        wrapper_code = results.define(check_error_codes(wrapper_code))
        scan(wrapper_code, "wrapper")
        if own_part is not None:
            wrapper_code = own_part(wrapper_code)
        scan(kernel_code, "kernel")
        generated.constants = ORIGINAL_NAME.findall(wrapper_code)
        before_build()
        return original.__func__(cls, graph, wrapper_code, kernel_code, *rest, **options)

    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(AotCodeCompiler, "compile", classmethod(compile_checked)))
        _watch_kernels(stack, generated)
        stack.enter_context(replaced(ir.FallbackKernel, "codegen", results.checking(ir.FallbackKernel.codegen)))
        stack.enter_context(replaced(ir.DynamicSliceSize, "get_free_symbol_uses", _all_uses))
        yield generated


def _all_uses(node: Any, unbacked_only: bool = False) -> Any:
    """What the size of a slice is computed from. torch 2.11 forgets the sliced one's own size, and may compute it
    before that is known."""
    from torch._inductor.ir import get_free_symbols

    sizes = (node.start, node.end, node.step, node.size)
    return get_free_symbols(sizes[0], unbacked_only).union(*(get_free_symbols(s, unbacked_only) for s in sizes[1:]))


def _watch_kernels(stack: contextlib.ExitStack, generated: Generated) -> None:
    """Has kernels tell of their index checks, instead of writing them, and of integer divisions."""
    from torch._inductor.codegen import cpp, triton
    from torch._inductor.virtualized import V

    def origins() -> list[Any]:
        node = getattr(V.kernel.current_node, "node", None)
        return [] if node is None else [o for o in node.get_origins() if o.op == "call_function"]

    def note(what: str, belongs: Callable[[Any], bool]) -> None:
        found = origins()
        if not any(belongs(origin) for origin in found):
            names = ", ".join(sorted(str(origin.target) for origin in found)) or "an unknown operator"
            generated.unproved.append(f"{what} in a kernel of {names}")

    def check_bounds(self: Any, expr: Any, size: Any, lower: bool, upper: bool) -> None:
        if lower or upper:
            note(f"an index check against {size}", proof.is_lookup)

    stack.enter_context(replaced(cpp.CppKernel, "check_bounds", check_bounds))
    # On a GPU a failed check ends the context, and with it all that the process serves. Divisions don't trap.
    stack.enter_context(replaced(triton.TritonKernel, "check_bounds", check_bounds))
    for overrides in (cpp.CppOverrides, cpp.CppVecOverrides):
        for name in ("floordiv", "truncdiv", "mod"):
            if name in overrides.__dict__:
                stack.enter_context(replaced(overrides, name, _noting(overrides, name, note)))


def _noting(overrides: type, name: str, note: Callable[[str, Callable[[Any], bool]], None]) -> Any:
    original = overrides.__dict__[name].__func__

    # The vector form, given scalars only, looks up the scalar form by its own name.
    @functools.wraps(original)
    def noting(a: Any, b: Any) -> Any:
        if not (b.dtype is not None and b.dtype.is_floating_point):
            note(f"an integer {name}", proof.is_division)
        return original(a, b)

    return staticmethod(noting)


def scan(code: str, what: str) -> None:
    """Refuses code that would end the process, or drop an error, in spite of everything before."""
    for number, line in enumerate(code.splitlines(), 1):
        text = line.strip()
        if what == "kernel" and ("AOTI_TORCH_CHECK" in text or "TORCH_CHECK" in text):
            raise Refused(f"generated {what}, line {number}: an unguarded check: {text[:200]}")
        # Triton's kernels stand in the wrapper as comments.
        if "tl.device_assert" in text:
            raise Refused(f"generated {what}, line {number}: an unguarded check: {text[:200]}")
        call = STATEMENT.match(line)
        if call and call.group(1) in functions_with_error_code():
            raise Refused(f"generated {what}, line {number}: an error code is dropped: {text[:200]}")


def check_error_codes(wrapper_code: str) -> str:
    """Wraps the calls whose error code the wrapper drops."""
    pieces = []
    done = 0
    for match in STATEMENT.finditer(wrapper_code):
        if match.group(1) not in functions_with_error_code():
            continue
        begin, end = match.start(1), closing_parenthesis(wrapper_code, match.end() - 1) + 1
        pieces += [wrapper_code[done:begin], f"{CHECKED}({wrapper_code[begin:end]})"]
        done = end
    return "".join(pieces) + wrapper_code[done:]


def closing_parenthesis(code: str, opening: int) -> int:
    """The position of the parenthesis that closes the one at `opening`."""
    depth = 0
    for match in re.compile(r'"(?:[^"\\]|\\.)*"|\(|\)').finditer(code, opening):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        if depth == 0:
            return match.start()
    raise Refused(f"generated wrapper: no end to the call {code[opening - 60 : opening + 60]!r}")


@functools.cache
def functions_with_error_code() -> frozenset[str]:
    """The C functions of libtorch that report their failure by their result only."""
    import torch

    folder = Path(torch.__file__).parent / "include/torch/csrc/inductor/aoti_torch"
    text = "\n".join(header.read_text() for header in sorted(folder.rglob("*.h")))
    declared = re.findall(r"\bAOTITorchError\s+(aoti_torch_\w+)\(", text)
    return frozenset(declared)
