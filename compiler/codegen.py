"""Makes Inductor's C++ safe: what it emits is mended where it can be, and refused where it can't.

torch 2.11's generator ignores the error codes of some fallback calls and writes index checks that
throw inside an OpenMP region, which ends the process. `installed` hooks in between Inductor's
generator and its C++ build.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compiler.refused import Refused

STATEMENT = re.compile(r"^[ \t]*(aoti_torch_\w+)\(", re.MULTILINE)
CHECKED = "AOTI_TORCH_ERROR_CODE_CHECK"
ORIGINAL_NAME = re.compile(r'constants_info_\[\d+\]\.original_fqn = "((?:[^"\\]|\\.)*)";')


@dataclass
class Generated:
    """What was seen of the generated code."""

    constants: list[str] = field(default_factory=list)


@contextlib.contextmanager
def installed(before_build: Callable[[], None]) -> Iterator[Generated]:
    """Within, every artifact that Inductor generates is mended and inspected before it is built;
    Refused comes out of the compile for one that stays unsafe. `before_build` is called when the
    C++ compilers are about to start."""
    from torch._inductor.codecache import AotCodeCompiler

    original = AotCodeCompiler.__dict__["compile"]
    generated = Generated()

    def compile_checked(
        cls: type, graph: Any, wrapper_code: str, kernel_code: str, *rest: Any, **options: Any
    ) -> Any:
        wrapper_code = check_error_codes(wrapper_code)
        generated.constants = ORIGINAL_NAME.findall(wrapper_code)
        before_build()
        return original.__func__(cls, graph, wrapper_code, kernel_code, *rest, **options)

    AotCodeCompiler.compile = classmethod(compile_checked)
    try:
        yield generated
    finally:
        AotCodeCompiler.compile = original


def check_error_codes(wrapper_code: str) -> str:
    """Wraps the calls whose error code the wrapper drops."""
    pieces = []
    done = 0
    for match in STATEMENT.finditer(wrapper_code):
        if match.group(1) not in functions_with_error_code():
            continue
        begin, end = match.start(1), _closing_parenthesis(wrapper_code, match.end() - 1) + 1
        pieces += [wrapper_code[done:begin], f"{CHECKED}({wrapper_code[begin:end]})"]
        done = end
    return "".join(pieces) + wrapper_code[done:]


def _closing_parenthesis(code: str, opening: int) -> int:
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
