"""Programs that are compiled with dynamic dimensions: what they are traced with, and for which sizes their
code holds.

Inductor decides some things by the sizes that the program was traced with (whether a dimension is 1,
whether products fit 32 bits) and notes each decision as a guard, which code compiled ahead of time never
checks. So the guards become ranges that the daemon keeps to; a guard that doesn't follow from ranges
refuses the program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from compiler.guards.refused import Refused

if TYPE_CHECKING:
    import sympy
    import torch
    from torch.utils._sympy.value_ranges import ValueRanges

NO_LIMIT = 2**63 - 1
# As much as a dimension without an upper bound is taken for, when a size is needed.
UNLIMITED = 1024
# So many sizes are tried one by one.
MANY_SIZES = 4096
PRIMES = [n for n in range(11, 1024) if all(n % divisor for divisor in range(2, n))]


def set_hints(inputs: Iterable[torch.Tensor], sizes: dict[str, int]) -> None:
    """Has the program traced, along dimensions that `sizes` leaves open, with sizes from the geometric middle
    of their range that nothing else is likely to have. Two sizes that are equal by chance, as an example's
    batch and the number of heads, would be taken for one."""
    import sympy

    hints: dict[sympy.Symbol, int] = {}
    for size in (size for value in inputs for size in value.shape if not isinstance(size, int)):
        environment = size.node.shape_env
        for symbol in sorted(size.node.expr.free_symbols - hints.keys(), key=str):
            if str(symbol) in sizes:
                continue
            limits = environment.var_to_range[symbol]
            low, high = max(1, _number(limits.lower)), min(_number(limits.upper), UNLIMITED)
            middle = math.isqrt(low * high)
            free = [n for n in PRIMES if middle <= n <= high and n not in hints.values()]
            hints[symbol] = free[0] if free else middle
            environment.backed_var_to_val[symbol] = sympy.Integer(hints[symbol])


def hint(size: int | torch.SymInt, sizes: dict[str, int]) -> int:
    """The size in the bucket; where it stays dynamic, the one that it is traced with."""
    if isinstance(size, int):
        return size
    expression: sympy.Expr = size.node.expr
    traced = size.node.shape_env.backed_var_to_val
    return int(expression.subs({s: sizes.get(str(s), traced[s]) for s in expression.free_symbols}))


def as_traced(fakes: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The same with all dimensions fixed, at what they are traced with: running operators on symbols can
    fix those."""
    import torch

    fixed = []
    for fake in fakes:
        with fake.fake_mode:
            shape = [hint(size, {}) for size in fake.shape]
            fixed.append(torch.empty(shape, dtype=fake.dtype, device=fake.device))
    return fixed


def ranges(fakes: Iterable[torch.Tensor]) -> list[list[list[int]] | None]:
    """Least and most of each dimension of the inputs that the graph was compiled with, None for an input
    whose dimensions are all fixed.

    Raises Refused where the code holds for one size only, or for sizes that are no range.
    """
    fakes = list(fakes)
    symbolic = [size.node for fake in fakes for size in fake.shape if not isinstance(size, int)]
    for node in symbolic:
        _check_free(node)
    for environment in {id(node.shape_env): node.shape_env for node in symbolic}.values():
        _check_guards(environment)
    return [
        [_range(size) for size in fake.shape] if any(not isinstance(n, int) for n in fake.shape) else None
        for fake in fakes
    ]


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
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    conditions = [(guard.expr, str(guard.sloc).splitlines()[0].strip()) for guard in environment.guards]
    for deferred in environment.deferred_runtime_asserts.values():
        # Of sizes that depend on values the compiled code asserts it itself.
        conditions += [(check.expr, check.msg) for check in deferred if not free_unbacked_symbols(check.expr)]
    for condition, where in conditions:
        known = environment.replace(condition)
        found = _bounds(known, environment.var_to_range)
        if found.is_singleton() and bool(found.lower):
            continue
        if not _hold_from_some_size_on(known, environment):
            raise Refused(f"the compiled code holds only where {known} {where}")


def _hold_from_some_size_on(
    condition: sympy.Expr, environment: torch.fx.experimental.symbolic_shapes.ShapeEnv
) -> bool:
    """Whether a condition on one symbol holds from some size on, and for the size that was traced; its range
    begins there then. So do conditions that mean "more than 1" in words that bounds don't tell."""
    from torch.utils._sympy.value_ranges import ValueRanges

    if len(condition.free_symbols) != 1:
        return False
    (symbol,) = condition.free_symbols
    limits = environment.var_to_range[symbol]
    low, high = _number(limits.lower), _number(limits.upper)
    if high - low > MANY_SIZES:
        return False
    fails = (n for n in range(high, low - 1, -1) if not bool(condition.subs(symbol, n)))
    least = next(fails, low - 1) + 1
    if least > environment.backed_var_to_val[symbol]:
        return False
    environment.var_to_range[symbol] = ValueRanges(least, high)
    return True


def _bounds(
    expression: sympy.Expr, limits: dict[sympy.Symbol, ValueRanges[sympy.Expr]]
) -> ValueRanges[sympy.Expr]:
    from torch.utils._sympy.value_ranges import bound_sympy

    return bound_sympy(expression, limits)


def _number(bound: sympy.Expr) -> int:
    return int(bound) if bound.is_Integer and abs(bound) < NO_LIMIT else NO_LIMIT
