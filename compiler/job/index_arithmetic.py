"""How Inductor works out what an index does along a loop: by expanding it.

torch 2.11 asks sympy.simplify, which tries every form that there is, for each index of each kernel and each way to
tile it: most of what lowering takes where images are cut into windows (Swin: 37 s of CPU time, 18 s so; the seven
other programs that were compared lose a sixth to two thirds). What is asked is whether a difference is a number, and
of sums of products expanding tells; the kernels of the eight are the same.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator

from compiler.job.replaced import replaced


@contextlib.contextmanager
def installed() -> Iterator[None]:
    import sympy
    from torch._inductor.codegen import cpp

    expanding = types.ModuleType("sympy")
    expanding.__dict__.update(sympy.__dict__, simplify=sympy.expand)
    for cached in (cpp.stride_at, cpp.simplify_index_in_vec_range, cpp.stride_at_vec_range):
        cached.cache_clear()
    with replaced(cpp, "sympy", expanding):
        yield
