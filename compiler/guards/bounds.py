"""What can be known about the integers in a graph without running it.

Used twice: to skip guards on indices that are in range whatever the inputs and the weights hold,
and to prove, on the graph that Inductor generates code from, that every index was guarded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from compiler.program.operators import is_of_a_library

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

# A size or a bound: a number, or a symbol's expression where a dimension is dynamic.
Size: TypeAlias = "int | torch.SymInt"
# Lowest and highest value; None where unknown.
Range: TypeAlias = "tuple[Size | None, Size | None]"
UNKNOWN: Range = (None, None)

# Operators whose result holds nothing but elements of their first operand.
SAME_VALUES = frozenset(
    "alias clone contiguous detach diagonal expand flip lift_fresh_copy permute repeat reshape roll "
    "select slice split split_with_sizes squeeze t transpose unbind unfold unsqueeze view _reshape_alias "
    "_unsafe_view gather index index_select embedding take sort cummax cummin amax amin".split()
)
# Results that are positions along a dimension: operator → index of that result, None for the only one.
POSITIONS = {"argmax": None, "argmin": None, "argsort": None, "sort": 1, "topk": 1, "max": 1, "min": 1}
# Operators that take shapes and types, but no values, from their tensor operands.
VALUE_FREE = frozenset(
    "full_like zeros_like ones_like empty_like new_full new_zeros new_ones new_empty sym_size sym_numel "
    "sym_stride size".split()
)


def operator_name(target: Any) -> str:
    """The name of an operator without its overload; of a Python function, its name. An operator of a library that isn't
    torch's has its library's in front, so that no rule for torch's is taken for one of its own."""
    packet = getattr(target, "overloadpacket", None)
    if is_of_a_library(target):
        return f"{target.namespace}::{target._opname}"
    return getattr(packet or target, "__name__", str(target)).removeprefix("aten::")


def value(argument: Any) -> Any:
    """What an argument of a node stands for: the fake tensor or size of a node, or itself."""
    import torch

    return argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument


def at_most(low: Size | None, high: Size | None) -> bool:
    """Whether low <= high for every size that the graph may meet."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return low is not None and high is not None and statically_known_true(low <= high)


def within(range_: Range, low: Size, high: Size) -> bool:
    """Whether everything in the range lies in low..high."""
    return at_most(low, range_[0]) and at_most(range_[1], high)


class Bounds:
    """The ranges of a graph's integer tensors, computed as they are asked for."""

    def __init__(self) -> None:
        self._ranges: dict[Node, Range] = {}
        self._value_free: dict[Node, bool] = {}

    def of(self, argument: Any) -> Range:
        """The range of a node's elements, or of a plain number."""
        import torch

        if not isinstance(argument, torch.fx.Node):
            known = isinstance(argument, (int, torch.SymInt)) and not isinstance(argument, bool)
            return (argument, argument) if known else UNKNOWN
        pending = [argument]
        while pending:  # no recursion: graphs are deep
            node = pending[-1]
            missing = [n for n in node.all_input_nodes if n not in self._ranges]
            if node in self._ranges or not missing:
                pending.pop()
                self._ranges.setdefault(node, self._compute(node))
            else:
                pending += missing
        return self._ranges[argument]

    def is_value_free(self, node: Node) -> bool:
        """Whether the node's elements follow from the sizes alone, not from inputs or weights."""
        pending = [node]
        while pending:
            current = pending[-1]
            if current in self._value_free:
                pending.pop()
                continue
            if current.op != "call_function" or operator_name(current.target) in VALUE_FREE:
                self._value_free[current] = current.op == "call_function"
                continue
            missing = [n for n in current.all_input_nodes if n not in self._value_free]
            if missing:
                pending += missing
            else:
                self._value_free[current] = all(self._value_free[n] for n in current.all_input_nodes)
        return self._value_free[node]

    def _compute(self, node: Node) -> Range:
        import torch

        result = value(node)
        if isinstance(result, (int, torch.SymInt)):
            return (result, result)
        if not isinstance(result, torch.Tensor):
            return UNKNOWN
        if result.dtype.is_floating_point or result.dtype.is_complex:
            return UNKNOWN
        # An input may be called like an operator.
        rule = _RULES.get(operator_name(node.target), _no_rule) if node.op == "call_function" else _no_rule
        found = rule(self, node)
        return _within_dtype(found, result.dtype)

    def union(self, arguments: list[Any]) -> Range:
        ranges = [self.of(argument) for argument in arguments]
        low = _extreme([r[0] for r in ranges], at_most)
        high = _extreme([r[1] for r in ranges], lambda a, b: at_most(b, a))
        return (low, high)


def _extreme(bounds: list[Size | None], no_worse: Any) -> Size | None:
    """The bound that is no worse than any other, if there is one that can be told."""
    return next((b for b in bounds if all(no_worse(b, other) for other in bounds)), None)


def _within_dtype(found: Range, dtype: torch.dtype) -> Range:
    """Narrow types bound their values by themselves; a range that the type can't hold wraps around."""
    import torch

    if dtype == torch.bool:
        return (0, 1)
    info = torch.iinfo(dtype)
    own: Range = (info.min, info.max) if info.bits <= 16 else (0 if info.min == 0 else None, None)
    if any(isinstance(bound, int) and not info.min <= bound <= info.max for bound in found):
        return own
    low, high = found
    return (own[0] if low is None else low, own[1] if high is None else high)


def _no_rule(bounds: Bounds, node: Node) -> Range:
    name = operator_name(node.target) if node.op == "call_function" else ""
    if name == "getitem":
        return _getitem(bounds, node)
    if name in POSITIONS and POSITIONS[name] is None:
        return _positions(node)
    if name in SAME_VALUES and value(node.args[0]).dtype == value(node).dtype:  # view() may reinterpret
        return bounds.of(node.args[0])
    return UNKNOWN


def _getitem(bounds: Bounds, node: Node) -> Range:
    source, index = node.args
    name = operator_name(source.target)
    if name in POSITIONS and POSITIONS[name] == index:
        return _positions(source)
    if name == "unbind" and (found := _found(source.args[0], (source.args + (0,))[1], index)):
        return found
    if name in SAME_VALUES:
        return bounds.of(source.args[0])
    return UNKNOWN


def _positions(node: Any) -> Range:
    operand = value(node.args[0])
    skip = 2 if operator_name(node.target) == "topk" else 1
    dim = node.args[skip] if len(node.args) > skip else node.kwargs.get("dim")
    if dim is None and operator_name(node.target) in ("argmax", "argmin"):
        return (0, operand.numel() - 1)
    if operand.dim() == 0:
        return (0, 0)
    return (0, operand.shape[-1 if dim is None else dim] - 1)


def _clamp(bounds: Bounds, node: Node) -> Range:
    operand = bounds.of(node.args[0])
    name = operator_name(node.target)
    low = high = None
    if name == "clamp":
        low, high = (node.args[1:3] + (None, None))[:2]
        low, high = node.kwargs.get("min", low), node.kwargs.get("max", high)
    elif name == "clamp_min":
        low = node.args[1]
    else:
        high = node.args[1]
    result = operand
    if low is not None:
        result = _maximum(result, bounds.of(low))
    return result if high is None else _minimum(result, bounds.of(high))


def _maximum(a: Range, b: Range) -> Range:
    """Both lower bounds hold; the one that is known, or known to be better, is taken."""
    low = a[0] if b[0] is None or at_most(b[0], a[0]) else b[0]
    high = a[1] if at_most(b[1], a[1]) else b[1] if at_most(a[1], b[1]) else None
    return (low, high)


def _minimum(a: Range, b: Range) -> Range:
    high = a[1] if b[1] is None or at_most(a[1], b[1]) else b[1]
    low = a[0] if at_most(a[0], b[0]) else b[0] if at_most(b[0], a[0]) else None
    return (low, high)


def _iota(bounds: Bounds, node: Node) -> Range:
    length = value(node.args[0])
    start, step = value(node.kwargs["start"]), value(node.kwargs["step"])
    last = start + (length - 1) * step
    return (start, last) if at_most(1, step) else UNKNOWN


def _arange(bounds: Bounds, node: Node) -> Range:
    numbers = [value(a) for a in node.args]
    if any(isinstance(n, float) for n in numbers):
        return UNKNOWN
    start, end = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
    step = numbers[2] if len(numbers) > 2 else 1
    return (start, end - 1) if at_most(1, step) else UNKNOWN


def _full(bounds: Bounds, node: Node) -> Range:
    return bounds.of(node.args[-1])


def _cast(bounds: Bounds, node: Node) -> Range:
    """A wider integer keeps the values; a narrower one or a cast from floats may not."""
    import torch

    source, target = value(node.args[0]).dtype, value(node).dtype
    if source == torch.bool:
        return (0, 1)
    if source.is_floating_point or source.is_complex or target.itemsize < source.itemsize:
        return UNKNOWN
    return bounds.of(node.args[0])


def _add(bounds: Bounds, node: Node) -> Range:
    a, b = bounds.of(node.args[0]), bounds.of(node.args[1])
    if node.kwargs.get("alpha", 1) != 1:
        return UNKNOWN
    return _small(tuple(None if x is None or y is None else x + y for x, y in zip(a, b, strict=True)))


def _sub(bounds: Bounds, node: Node) -> Range:
    (low, high), (low_b, high_b) = bounds.of(node.args[0]), bounds.of(node.args[1])
    if node.kwargs.get("alpha", 1) != 1:
        return UNKNOWN
    least = None if low is None or high_b is None else low - high_b
    most = None if high is None or low_b is None else high - low_b
    return _small((least, most))


def _mul(bounds: Bounds, node: Node) -> Range:
    (low, high), (low_b, high_b) = bounds.of(node.args[0]), bounds.of(node.args[1])
    if not (at_most(0, low) and at_most(0, low_b)):
        return UNKNOWN
    return _small((low * low_b, None if high is None or high_b is None else high * high_b))  # type: ignore[operator]


def _small(found: Any) -> Range:
    """Sums and products wrap around in two's complement: only what stays far from there is known."""
    import torch

    limit = 1 << 31
    numbers = [n for n in found if isinstance(n, int)]
    if any(abs(n) >= limit for n in numbers) or found[0] is None or found[1] is None:
        return UNKNOWN
    assert all(isinstance(n, (int, torch.SymInt)) for n in found)
    return found


def _remainder(bounds: Bounds, node: Node) -> Range:
    divisor = bounds.of(node.args[1])
    return (0, divisor[1] - 1) if divisor[1] is not None and at_most(1, divisor[0]) else UNKNOWN


def _select(bounds: Bounds, node: Node) -> Range:
    source, dim, place = node.args
    return _found(source, dim, place) or bounds.of(source)


def _found(source: Any, dim: Any, place: Any) -> Range | None:
    """The range of one coordinate of what nonzero finds; None for what isn't one."""
    if operator_name(source.target) != "nonzero" or dim not in (1, -1) or not isinstance(place, int) or place < 0:
        return None
    return (0, value(source.args[0]).shape[place] - 1)


_RULES: dict[str, Any] = {
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "maximum": lambda b, n: _maximum(b.of(n.args[0]), b.of(n.args[1])),
    "minimum": lambda b, n: _minimum(b.of(n.args[0]), b.of(n.args[1])),
    "where": lambda b, n: b.union(list(n.args[1:3])),
    "masked_fill": lambda b, n: b.union([n.args[0], n.args[2]]),
    "cat": lambda b, n: b.union(list(n.args[0])),
    "stack": lambda b, n: b.union(list(n.args[0])),
    "iota": _iota,
    "arange": _arange,
    "full": _full,
    "full_like": lambda b, n: b.of(n.args[1]),
    "scalar_tensor": _full,
    "convert_element_type": _cast,
    "_to_copy": _cast,
    "to": _cast,
    "select": _select,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "remainder": _remainder,
}
