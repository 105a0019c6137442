"""Rewrites every operator whose compiled form can end the process, or answer, on a value that eager
refuses.

An index out of range throws inside an OpenMP region of the compiled code, and an integer division
by zero traps: both end the process. So the operand is made harmless before the operator sees it (an
index is clamped, a divisor of zero replaced by one), and that it had to be is carried out of the
graph in one more output, a set of bits per row of the batch. Rows whose bits are clear were computed
from exactly the values that came in.

The rules are eager's: `gather`, `scatter`, `embedding` and their kin refuse negative indices, while
`index`, `index_put`, `index_fill`, `take` and `put` count them from the end. A division only refuses
zero; that INT_MIN / -1 traps as well is mended without a bit.
"""

from __future__ import annotations

import contextlib
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compiler.guards import value_sizes
from compiler.guards.bounds import Bounds, at_most, operator_name, value, within
from compiler.guards.refused import Refused
from compiler.guards.rows import Rows
from compiler.guards.rules import DIVISIONS, INDEX_LISTS, INDEX_RULES, UNGUARDED, IndexRule

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

LAST_BIT = 62  # of a positive int64; shared by all guards from there on


def insert(module: GraphModule, names: list[str], sizes: dict[str, int]) -> list[dict[str, Any]]:
    """Guards a functional graph and appends the validity to its outputs when there is a guard.

    `names` are the inputs' names and `sizes` the sizes of symbols, both for messages. Returns the
    manifest's description of the guards. Raises Refused for an operator that can't be made safe.
    """
    return _Inserter(module, names, sizes).run()


@dataclass
class _Guard:
    operator: str
    operand: Node  # whose values are looked at
    failed: Node  # boolean, true where they are refused; a scalar, or one per row
    message: str


class _Inserter:
    """Walks the graph once, rewriting it."""

    def __init__(self, module: GraphModule, names: list[str], sizes: dict[str, int]) -> None:
        from torch._guards import detect_fake_mode

        self._graph = module.graph
        self._names = dict(zip((n for n in self._graph.nodes if n.op == "placeholder"), names, strict=True))
        self._sizes = sizes
        self._bounds = Bounds()
        self._rows = Rows(self._graph)
        self._guards: list[_Guard] = []
        self._clamped: dict[tuple[Any, ...], Node] = {}
        self._batch: Node | None = None
        self._mode = detect_fake_mode([node.meta.get("val") for node in self._graph.nodes])

    def run(self) -> list[dict[str, Any]]:
        nodes = list(self._graph.nodes)
        if self._names:
            with self._graph.inserting_after(list(self._names)[-1]):
                self._batch = self._batch_size()
        for node in nodes:
            if node.op == "call_function":
                with self._graph.inserting_before(node):
                    self._guard(node)
        if self._guards:
            with self._graph.inserting_before(nodes[-1]):
                validity = self._validity()
            nodes[-1].args = ((*nodes[-1].args[0], validity),)
        self._graph.eliminate_dead_code()
        return self._descriptions()

    def _guard(self, node: Node) -> None:
        name = operator_name(node.target)
        if name in UNGUARDED:
            raise Refused("its values can't be guarded", node)
        value_sizes.check_of_nothing(node)
        if name in INDEX_RULES:
            self._guard_index(node, INDEX_RULES[name])
        elif name in INDEX_LISTS:
            self._guard_index_list(node, writes=INDEX_LISTS[name])
        elif name in DIVISIONS:
            self._guard_division(node)
        elif special := getattr(self, f"_guard_{name.strip('_')}", None):
            special(node)

    # Indices

    def _guard_index(self, node: Node, rule: IndexRule) -> None:
        tensor, dim = rule.size(node)
        index = node.args[rule.position]
        local = not rule.writes
        if rule.row_local and dim is not None:
            row = self._rows.dimension(tensor)
            rank = max(value(tensor).dim(), 1)
            local = row is not None and row != dim % rank and self._rows.dimension(index) == row
        if not rule.writes and dim is not None and self._may_lack(index, tensor, dim, rule.wraps):
            node.update_arg(rule.position, self._clamp_or_none(node, index, (tensor, dim), rule.wraps, local))
            node.replace_input_with(tensor, self._padded(tensor, dim))
            return
        node.update_arg(rule.position, self._clamp(node, index, (tensor, dim), rule.wraps, local))

    def _guard_index_list(self, node: Node, writes: bool) -> None:
        import torch

        tensor, indices = node.args[0], list(node.args[1])
        masks = [i for i in indices if i is not None and value(i).dtype in (torch.bool, torch.uint8)]
        if masks and not writes:
            indices = value_sizes.as_positions(self._emit, node, tensor, indices)
        elif masks:
            count = value(node.args[2]).numel()
            only_fills = writes and len(indices) == 1 and isinstance(count, int) and count == 1
            if not only_fills or value(masks[0]).dtype != torch.bool:
                raise Refused("how much a mask selects depends on the data", node)
            return
        unsafe = operator_name(node.target).startswith("_unsafe")
        local = not writes
        if writes:
            row = self._rows.dimension(tensor)
            if row is not None and row < len(indices) and indices[row] is not None:
                local = self._rows.counts_up(indices[row])
        for dim, index in enumerate(indices):
            # The unsafe forms come from decompositions, which take care of indices they make up.
            if index is None or (unsafe and self._bounds.is_value_free(index)):
                continue
            if not writes and self._may_lack(index, tensor, dim, True):
                indices[dim] = self._clamp_or_none(node, index, (tensor, dim), True, local)
                tensor = self._padded(tensor, dim)
            else:
                indices[dim] = self._clamp(node, index, (tensor, dim), True, local)
        node.update_arg(0, tensor)
        node.update_arg(1, indices)

    def _guard_one_hot(self, node: Node) -> None:
        self._guard_count(node, 0, node.args[1])

    def _guard_max_unpool2d(self, node: Node) -> None:
        self._guard_count(node, 1, math.prod(node.args[2]))

    _guard_max_unpool3d = _guard_max_unpool2d

    def _guard_searchsorted(self, node: Node) -> None:
        if (sorter := node.kwargs.get("sorter")) is not None:
            tensor = node.args[0]
            node.update_kwarg(
                "sorter", self._clamp(node, sorter, (tensor, value(tensor).dim() - 1), False, True)
            )

    def _guard_count(self, node: Node, position: int, count: Any) -> None:
        if not isinstance(count, int) or count < 1:
            raise Refused(f"expected a fixed number of classes, got {count}", node)
        node.update_arg(position, self._clamp(node, node.args[position], (count, None), False, True))

    def _clamp(
        self, node: Node, index: Any, extent: tuple[Any, int | None], wraps: bool, local: bool
    ) -> Node:
        """The index brought into range; a guard tells where it was not."""
        tensor, dim = extent
        size = self._extent(tensor, dim)
        if at_most(size, 0):
            raise Refused("indexes a tensor without elements", node)
        if within(self._bounds.of(index), -size if wraps else 0, size - 1):
            return index
        if value_sizes.may_be_empty(size):
            raise Refused("whether what it indexes has elements depends on the data", node)
        key = (index, str(size), wraps, local)
        if key not in self._clamped:
            last = size - 1 if isinstance(size, int) else self._symbolic_last(tensor, dim)
            first = (
                0
                if not wraps
                else -size
                if isinstance(size, int)
                else self._emit(operator.neg, self._count(tensor, dim))
            )
            ops = _aten()
            self._clamped[key] = safe = self._emit(ops.clamp.default, index, first, last)
            shown = self._shown(size, dim)
            low = f"-{shown}" if wraps else "0"
            message = f"index out of range, expected {low} <= index < {shown}"
            self._add(node, index, self._emit(ops.ne.Tensor, safe, index), message, local)
        return self._clamped[key]

    def _may_lack(self, index: Any, tensor: Any, dim: int, wraps: bool) -> bool:
        """Whether an index that has to be clamped may find nothing there to be clamped to."""
        size = self._extent(tensor, dim)
        known = within(self._bounds.of(index), -size if wraps else 0, size - 1)
        return not known and value_sizes.may_be_empty(size)

    def _clamp_or_none(
        self, node: Node, index: Any, extent: tuple[Any, int], wraps: bool, local: bool
    ) -> Node:
        """As _clamp, for a tensor that may have no elements and gets one more: an index into nothing reads that."""
        tensor, dim = extent
        ops = _aten()
        size = self._count(tensor, dim)
        if wraps:
            behind = self._emit(ops.add.Tensor, index, size)
            index = self._emit(ops.where.self, self._emit(ops.lt.Scalar, index, 0), behind, index)
        below, above = self._emit(ops.lt.Scalar, index, 0), self._emit(ops.ge.Scalar, index, size)
        failed = self._emit(ops.bitwise_or.Tensor, below, above)
        message = f"index out of range, expected an index below the size of dimension {dim}"
        self._add(node, index, failed, message, local)
        return self._emit(ops.clamp.default, index, 0, size)

    def _padded(self, tensor: Node, dim: int) -> Node:
        """The tensor with one more element along the dimension."""
        ops = _aten()
        shape = [1 if d == dim else value_or_node(self, tensor, d) for d in range(value(tensor).dim())]
        return self._emit(ops.cat.default, [tensor, self._emit(ops.new_zeros.default, tensor, shape)], dim)

    def _extent(self, tensor: Any, dim: int | None) -> Any:
        if isinstance(tensor, int):
            return tensor
        shape = value(tensor).shape
        if dim is None:
            return value(tensor).numel()
        return shape[dim] if len(shape) else 1

    def _count(self, tensor: Node, dim: int | None) -> Node:
        """The extent as a node, where it is symbolic."""
        ops = _aten()
        return (
            self._emit(ops.sym_numel.default, tensor)
            if dim is None
            else self._emit(ops.sym_size.int, tensor, dim)
        )

    def _symbolic_last(self, tensor: Node, dim: int | None) -> Node:
        return self._emit(operator.sub, self._count(tensor, dim), 1)

    def _shown(self, size: Any, dim: int | None) -> str:
        if not isinstance(size, int):
            expression = size.node.expr
            known = expression.subs(
                {s: self._sizes[str(s)] for s in expression.free_symbols if str(s) in self._sizes}
            )
            if not known.is_Integer:
                return "the number of elements" if dim is None else f"the size of dimension {dim}"
            size = int(known)
        return str(size)

    def _guard_embedding_bag(self, node: Node) -> None:
        """Bags begin at offsets: those must start at 0, never go back and stay among the indices."""
        weight, indices, offsets = node.args[:3]
        fixed = self._bounds.is_value_free(offsets)
        node.update_arg(1, self._clamp(node, indices, (weight, 0), False, fixed))
        if fixed:
            return
        ops = _aten()
        count = self._extent(indices, 0)
        limit = count if isinstance(count, int) else self._count(indices, 0)
        inside = self._emit(ops.clamp.default, offsets, 0, limit)
        length = self._extent(offsets, 0)
        bags = length if isinstance(length, int) else self._count(offsets, 0)
        kind = value(offsets)
        places = self._emit(ops.arange.default, bags, dtype=kind.dtype, device=kind.device)
        begun = self._emit(ops.masked_fill.Scalar, inside, self._emit(ops.eq.Scalar, places, 0), 0)
        safe = self._emit(operator.getitem, self._emit(ops.cummax.default, begun, 0), 0)
        failed = self._emit(ops.ne.Tensor, safe, offsets)
        self._add(
            node, offsets, failed, "offsets must begin with 0, not decrease and not pass the indices", False
        )
        node.update_arg(2, safe)

    _guard_embedding_bag_forward_only = _guard_embedding_bag

    # Divisions of integers

    def _guard_division(self, node: Node) -> None:
        import torch

        result = value(node)
        rounds = operator_name(node.target) != "div" or node.kwargs.get("rounding_mode") is not None
        if not isinstance(result, torch.Tensor) or result.dtype.is_floating_point or not rounds:
            return
        divisor = node.args[1]
        quotient = operator_name(node.target) in ("div", "floor_divide")
        low, high = self._bounds.of(divisor)
        if at_most(1, low) or at_most(high, -2):
            return
        if not isinstance(divisor, torch.fx.Node):
            if divisor == 0:
                raise Refused("divides by the constant 0", node)
            minus_one = None
            node.update_arg(1, 1)
        elif not isinstance(value(divisor), torch.Tensor):
            raise Refused("divides by a size that may be 0", node)
        else:
            safe, minus_one = self._safe_divisor(node, divisor)
            node.update_arg(1, safe)
        if quotient and (minus_one is not None or divisor == -1):
            self._negate(node, minus_one)

    def _safe_divisor(self, node: Node, divisor: Node) -> tuple[Node, Node | None]:
        """The divisor with 1 in the place of 0 and -1, and where it was -1."""
        import torch

        ops = _aten()
        key = (divisor, "divisor")
        signed = torch.iinfo(value(divisor).dtype).min < 0 if value(divisor).dtype != torch.bool else False
        minus_one = self._emit(ops.eq.Scalar, divisor, -1) if signed else None
        if key not in self._clamped:
            zero = self._emit(ops.eq.Scalar, divisor, 0)
            replaced = zero if minus_one is None else self._emit(ops.bitwise_or.Tensor, zero, minus_one)
            self._clamped[key] = self._emit(ops.masked_fill.Scalar, divisor, replaced, 1)
            self._add(node, divisor, zero, "division by zero, expected a divisor other than 0", True)
        return self._clamped[key], minus_one

    def _negate(self, node: Node, minus_one: Node | None) -> None:
        """x / -1 as -(x / 1), where the divisor was -1; with no mask, everywhere."""
        ops = _aten()
        users = list(node.users)
        with self._graph.inserting_after(node):
            negated = self._emit(ops.neg.default, node)
        final = negated
        if minus_one is not None:
            with self._graph.inserting_after(negated):
                final = self._emit(ops.where.self, minus_one, negated, node)
        for user in users:
            user.replace_input_with(node, final)

    def _guard_lcm(self, node: Node) -> None:
        """As eager computes it, but without dividing by the 0 that is the gcd of 0 and 0."""
        ops = _aten()
        a, b = node.args[:2]
        divisor = self._emit(ops.gcd.default, a, b)
        zero = self._emit(ops.eq.Scalar, divisor, 0)
        replaced = self._emit(ops.bitwise_or.Tensor, zero, self._emit(ops.eq.Scalar, divisor, -1))
        safe = self._emit(ops.masked_fill.Scalar, divisor, replaced, 1)
        share = self._emit(ops.div.Tensor_mode, a, safe, rounding_mode="trunc")
        node.replace_all_uses_with(self._emit(ops.abs.default, self._emit(ops.mul.Tensor, share, b)))

    # Checks that eager makes and compiled code forgets

    def _guard_masked_scatter(self, node: Node) -> None:
        ops = _aten()
        tensor, mask, source = node.args[:3]
        everywhere = [value_or_node(self, tensor, d) for d in range(value(tensor).dim())]
        wide = self._emit(ops.expand.default, mask, everywhere)
        count = value(source).numel()
        limit = count if isinstance(count, int) else self._count(source, None)
        chosen = self._emit(ops.sum.default, wide)
        enough = self._emit(ops.le.Scalar, chosen, limit)
        node.update_arg(1, self._emit(ops.bitwise_and.Tensor, wide, enough))
        failed = self._emit(ops.logical_not.default, enough)
        self._add(node, mask, failed, "the mask selects more elements than the source has", False)

    def _guard_binary_cross_entropy(self, node: Node) -> None:
        ops = _aten()
        for operand in node.args[:2]:
            inside = self._emit(
                ops.bitwise_and.Tensor,
                self._emit(ops.ge.Scalar, operand, 0),
                self._emit(ops.le.Scalar, operand, 1),
            )
            failed = self._emit(ops.logical_not.default, inside)
            self._add(node, operand, failed, "expected values between 0 and 1", True)

    def _guard_assert_async(self, node: Node) -> None:
        condition = node.args[0]
        said = node.args[1] if len(node.args) > 1 else "assertion failed"
        ops = _aten()
        holds = self._emit(ops.ne.Scalar, condition, 0)
        failed = self._emit(ops.logical_not.default, holds)
        self._add(node, condition, failed, f"the model asserts: {said}", False)
        if node.users:  # the functional form passes a token on
            node.replace_all_uses_with(node.args[2])
        self._graph.erase_node(node)

    _guard_functional_assert_async = _guard_assert_async

    def _guard_linalg_inv(self, node: Node) -> None:
        self._check_info(node, _aten().linalg_inv_ex.default)

    _guard_inverse = _guard_linalg_inv

    def _guard_linalg_solve(self, node: Node) -> None:
        self._check_info(node, _aten().linalg_solve_ex.default)

    def _guard_linalg_cholesky(self, node: Node) -> None:
        self._check_info(node, _aten().linalg_cholesky_ex.default)

    def _check_info(self, node: Node, extended: Any) -> None:
        """Takes the form that returns LAPACK's verdict; the check that raises on it would be dropped."""
        both = self._emit(extended, *node.args, **node.kwargs)
        info = self._emit(operator.getitem, both, 1)
        failed = self._emit(_aten().ne.Scalar, info, 0)
        self._add(node, info, failed, "the matrix is singular or not positive definite", True)
        node.replace_all_uses_with(self._emit(operator.getitem, both, 0))
        self._graph.erase_node(node)

    # Validity

    def _add(self, node: Node, operand: Node, failed: Node, message: str, by_row: bool) -> None:
        """Records a guard; `by_row`: what fails concerns the rows of `failed` only."""
        name = str(node.target)
        self._guards.append(_Guard(name, operand, self._reduce(failed, operand, by_row), message))

    def _reduce(self, failed: Node, operand: Node, by_row: bool) -> Node:
        """One boolean per row, or one for all."""
        ops = _aten()
        rank = value(failed).dim()
        same_rank = value(operand).dim() == rank
        if by_row and same_rank and self._batch is not None:
            row = self._rows.dimension(operand)
            if row is not None:
                for dim in reversed([d for d in range(rank) if d != row]):
                    failed = self._emit(ops.any.dim, failed, dim)
                return failed
            if self._rows.leads(operand):
                by_rows = self._emit(ops.view.default, failed, [self._batch, -1])
                return self._emit(ops.any.dim, by_rows, 1)
        return self._emit(ops.any.default, failed) if rank else failed

    def _batch_size(self) -> Node | None:
        if self._rows.batch is None:
            return None
        return next(
            self._emit(_aten().sym_size.int, placeholder, 0)
            for placeholder in self._names
            if value(placeholder).dim() and self._rows.dimension(placeholder) == 0
        )

    def _validity(self) -> Node:
        ops = _aten()
        by_bit: dict[int, Node] = {}
        for number, guard in enumerate(self._guards):
            bit = min(number, LAST_BIT)
            failed = guard.failed
            by_bit[bit] = self._emit(ops.bitwise_or.Tensor, by_bit[bit], failed) if bit in by_bit else failed
        shape = [1 if self._batch is None else self._batch]
        device = value(self._guards[0].failed).device
        import torch

        total = self._emit(ops.full.default, shape, 0, dtype=torch.int64, device=device)
        for bit, failed in by_bit.items():
            total = self._emit(ops.bitwise_or.Tensor, total, self._emit(ops.mul.Tensor, failed, 1 << bit))
        return total

    def _descriptions(self) -> list[dict[str, Any]]:
        described = [
            {"bit": bit, "operator": g.operator, "input": self._origin(g.operand), "message": g.message}
            for bit, g in enumerate(self._guards)
        ]
        if len(described) <= LAST_BIT + 1:
            return described
        shared = described[LAST_BIT:]
        operators = ", ".join(sorted({guard.operator for guard in self._guards[LAST_BIT:]}))
        message = f"one of {len(shared)} guards of {operators} failed: index out of range or division by zero"
        rest = {"bit": LAST_BIT, "operator": shared[0]["operator"], "input": None, "message": message}
        return [*described[:LAST_BIT], rest]

    def _origin(self, operand: Node) -> str | None:
        """The input that the operand's values come from, when it is a single one."""
        seen: set[Node] = set()
        found: set[Node] = set()
        pending = [operand]
        while pending:
            node = pending.pop()
            if (
                node in seen
                or not hasattr(value(node), "shape")
                and not isinstance(value(node), (tuple, list))
            ):
                continue  # sizes are no values
            seen.add(node)
            if node.op == "placeholder":
                found.add(node)
            pending += node.all_input_nodes
        return self._names[found.pop()] if len(found) == 1 else None

    def _emit(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Adds a call at the current place, with the value that shapes are read from."""
        import torch

        node = self._graph.call_function(target, args, kwargs)
        fakes, named = torch.fx.map_arg((args, kwargs), value)
        with self._mode or contextlib.nullcontext():
            node.meta["val"] = target(*fakes, **named)
        return node


def value_or_node(inserter: _Inserter, tensor: Any, dim: int) -> Any:
    """A dimension's size: a number, or the node that computes it."""
    size = value(tensor).shape[dim]
    return size if isinstance(size, int) else inserter._count(tensor, dim)


def _aten() -> Any:
    import torch

    return torch.ops.aten
