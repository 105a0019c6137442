"""For which sizes the code of a program with dynamic dimensions holds.

Inductor decides some things by the sizes that the program was traced with (whether a dimension is 1,
whether products fit 32 bits) and notes each decision as a guard, which code compiled ahead of time never
checks. So the guards become ranges that the daemon keeps to; a guard that doesn't follow from ranges
refuses the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from compiler.refused import Refused

if TYPE_CHECKING:
    import sympy
    import torch
    from torch.utils._sympy.value_ranges import ValueRanges

NO_LIMIT = 2**63 - 1


def ranges(fakes: Iterable[torch.Tensor]) -> list[list[list[int]] | None]:
    """Least and most of each dimension of the inputs that the graph was compiled with, None for an input
    whose dimensions are all fixed.

    Raises Refused where the code holds for one size only, or for sizes that are no range.
    """
    fakes = list(fakes)
    held = [
        [_range(size) for size in fake.shape] if any(not isinstance(n, int) for n in fake.shape) else None
        for fake in fakes
    ]
    symbolic = [size.node for fake in fakes for size in fake.shape if not isinstance(size, int)]
    for node in symbolic:
        _check_free(node)
    for environment in {id(node.shape_env): node.shape_env for node in symbolic}.values():
        _check_guards(environment)
    return held


def _check_free(node: torch.fx.experimental.sym_node.SymNode) -> None:
    """Refuses a size that was found to follow from others."""
    for symbol in node._expr.free_symbols:  # before what is known of them is put in
        found = node.shape_env.replace(symbol)
        if found != symbol:
            raise Refused(f"the compiled code holds only where {symbol} = {found}")


def _range(size: int | torch.SymInt) -> list[int]:
    if isinstance(size, int):
        return [size, size]
    node = size.node
    found = _bounds(node.expr, node.shape_env.var_to_range)  # of what is known by now
    return [_number(found.lower), _number(found.upper)]


def _check_guards(environment: torch.fx.experimental.symbolic_shapes.ShapeEnv) -> None:
    conditions = [(guard.expr, str(guard.sloc).splitlines()[0].strip()) for guard in environment.guards]
    for deferred in environment.deferred_runtime_asserts.values():
        conditions += [(check.expr, check.msg) for check in deferred]
    for condition, where in conditions:
        known = environment.replace(condition)
        found = _bounds(known, environment.var_to_range)
        if not (found.is_singleton() and bool(found.lower)):
            raise Refused(f"the compiled code holds only where {known} {where}")


def _bounds(
    expression: sympy.Expr, limits: dict[sympy.Symbol, ValueRanges[sympy.Expr]]
) -> ValueRanges[sympy.Expr]:
    from torch.utils._sympy.value_ranges import bound_sympy

    return bound_sympy(expression, limits)


def _number(bound: sympy.Expr) -> int:
    return int(bound) if bound.is_Integer and abs(bound) < NO_LIMIT else NO_LIMIT
