"""The real compile worker with a planted fault: it turns right programs into wrong machine code.

    faulty_compiler.py --reply-fd N --scratch FOLDER

A job of the model "<fault>" or "<fault>-<anything>" gets the fault of that name from FAULTS; every
other job is compiled as it should be. A fault that finds nothing to spoil fails the job, so that no
test takes a healthy artifact for a spoiled one. Its artifacts have the keys of healthy ones: give it
a cache of its own.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from compiler.job.job import Job, run_job
from compiler.worker import __main__ as worker
from compiler.worker import child

if TYPE_CHECKING:
    import torch

Fault = Callable[[], contextlib.AbstractContextManager[None]]


# --- faults of a pass over the graph, after decomposing and before code is generated ---


@contextlib.contextmanager
def _pass(spoil: Callable[[torch.fx.Graph], int]) -> Iterator[None]:
    """Within, `spoil` sees each graph last; it returns how many places it has spoiled."""
    from torch._inductor import config

    spoiled = 0

    def run(graph: torch.fx.Graph) -> None:
        nonlocal spoiled
        spoiled += spoil(graph)

    with config.patch(post_grad_custom_post_pass=run):
        yield
    _expect(spoiled)


def _expect(spoiled: int) -> None:
    if not spoiled:
        raise AssertionError("the planted fault found nothing to spoil")
    print(f"planted: {spoiled} places spoiled", file=sys.stderr, flush=True)


def _names(*names: str) -> Callable[[torch.fx.Node], bool]:
    def matches(node: torch.fx.Node) -> bool:
        packet = getattr(node.target, "overloadpacket", None)
        return node.op == "call_function" and getattr(packet, "__name__", "") in names

    return matches


def constant_changed(factor: float) -> Fault:
    """The first factor that is a number of the program's own is multiplied by `factor`."""

    def spoil(graph: torch.fx.Graph) -> int:
        for node in filter(_names("mul"), graph.nodes):
            if isinstance(node.args[1], float):
                node.update_arg(1, node.args[1] * factor)
                return 1
        return 0

    return lambda: _pass(spoil)


def narrowed(operators: str, dtype: str) -> Fault:
    """Such operators compute in `dtype` what the program computes in more."""

    def spoil(graph: torch.fx.Graph) -> int:
        import torch

        convert = torch.ops.prims.convert_element_type.default

        def converted(node: torch.fx.Node, kind: torch.dtype) -> torch.fx.Node:
            new = graph.call_function(convert, (node, kind))
            new.meta["val"] = node.meta["val"].to(kind)
            return new

        narrow = getattr(torch, dtype)
        spoiled = list(filter(_names(*operators.split()), graph.nodes))
        for node in spoiled:
            wide = node.meta["val"].dtype
            with graph.inserting_before(node):
                for operand in node.all_input_nodes:
                    node.replace_input_with(operand, converted(operand, narrow))
            users = list(node.users)
            node.meta["val"] = node.meta["val"].to(narrow)
            with graph.inserting_after(node):
                back = converted(node, wide)
            for user in users:
                user.replace_input_with(node, back)
        return len(spoiled)

    return lambda: _pass(spoil)


# --- faults of the generated C++ ---


@contextlib.contextmanager
def _kernels(
    pattern: str, replacement: str | Callable[[re.Match[str]], str], every: bool = False
) -> Iterator[None]:
    """Within, the last match in the kernels' source, or every one, is replaced before g++ sees it."""
    from torch._inductor.codecache import AotCodeCompiler

    spoiled = 0
    original = AotCodeCompiler.__dict__["compile"]

    def compile_spoiled(
        cls: type, graph: Any, wrapper_code: str, kernel_code: str, *rest: Any, **options: Any
    ) -> Any:
        nonlocal spoiled
        matches = list(re.finditer(pattern, kernel_code))
        for match in reversed(matches if every else matches[-1:]):
            new = match.expand(replacement) if isinstance(replacement, str) else replacement(match)
            kernel_code = kernel_code[: match.start()] + new + kernel_code[match.end() :]
            spoiled += 1
        return original.__func__(cls, graph, wrapper_code, kernel_code, *rest, **options)

    AotCodeCompiler.compile = classmethod(compile_spoiled)  # type: ignore[method-assign]
    try:
        yield
    finally:
        AotCodeCompiler.compile = original  # type: ignore[method-assign]
    _expect(spoiled)


def relu_dropped() -> contextlib.AbstractContextManager[None]:
    """The last vector loop, the tail where there is one, no longer clamps at zero."""
    return _kernels(r"at::vec::clamp_min\((\w+), decltype\(\1\)\(0\)\)", r"\1")


def bias_dropped() -> contextlib.AbstractContextManager[None]:
    """The bias of the last vector loop is added no more."""
    return _kernels(r"= (tmp\d+) \+ (tmp\d+);", r"= \1;")


def tail_store_short() -> contextlib.AbstractContextManager[None]:
    """The last vector store writes one element fewer than it should."""
    return _kernels(
        r"(\.store\([^;]*, static_cast<int64_t>\()(\d+)(L?\)\);)",
        lambda match: f"{match[1]}{int(match[2]) - 1}{match[3]}",
    )


def last_row_left_out() -> contextlib.AbstractContextManager[None]:
    """The outermost loop over rows ends one row early."""
    return _kernels(
        r"(for\(int64_t x0=static_cast<int64_t>\(0L\); x0<static_cast<int64_t>\()(\d+)(L\); "
        r"x0\+=static_cast<int64_t>\(1L\)\))",
        lambda match: f"{match[1]}{int(match[2]) - 1}{match[3]}",
    )


def reduction_mask_short() -> contextlib.AbstractContextManager[None]:
    """The masked end of a sum leaves its last element out."""
    return _kernels(
        r"(sum_masked_reduce\(\w+, \w+, static_cast<int64_t>\()(\d+)(L?\)\);)",
        lambda match: f"{match[1]}{int(match[2]) - 1}{match[3]}",
    )


def sums_in_bfloat16() -> contextlib.AbstractContextManager[None]:
    """Sums over vectors drop the lower half of their bits at each step."""
    half = "at::vec::Vectorized<float>(c10::bit_cast<float>(0xffff0000u))"
    return _kernels(r"(tmp_acc\d+_vec) = \1 \+ (tmp\d+);", rf"\1 = (\1 + \2) & {half};", every=True)


FAULTS: dict[str, Fault] = {
    "constant_1e_2": constant_changed(1.01),
    "constant_1e_3": constant_changed(1.001),
    "constant_1e_4": constant_changed(1.0001),
    "relu_dropped": relu_dropped,
    "bias_dropped": bias_dropped,
    "tail_store_short": tail_store_short,
    "last_row_left_out": last_row_left_out,
    "reduction_mask_short": reduction_mask_short,
    "products_in_bfloat16": narrowed("mm addmm bmm", "bfloat16"),
    "sums_in_bfloat16": sums_in_bfloat16,
    "doubles_as_floats": narrowed("mm addmm bmm", "float32"),
}


def run_faulty(job: Job, work: Path, report: Callable[[str], None]) -> dict[str, Any]:
    """In place of compiler.job.job.run_job."""
    name = job.model.partition(":")[0].partition("-")[0]
    with FAULTS.get(name, contextlib.nullcontext)():
        return run_job(job, work, report)


if __name__ == "__main__":
    child.run_job = run_faulty
    sys.exit(worker.main())
