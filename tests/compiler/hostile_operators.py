"""Operators that eager refuses on some values, each with good and hostile values.

Every case is a function of (x, table, operand): `x` are floats [batch, 6], `table` floats [10, 8],
and `operand` is the case's own input, the one that a client could send hostile values in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

INT64_MIN = torch.iinfo(torch.int64).min


@dataclass(frozen=True)
class Case:
    """One operator and what to feed it; `shape` is the operand's, without the batch."""

    name: str
    run: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    shape: tuple[int, ...]
    low: int  # good values: low..high - 1
    high: int
    hostile: tuple[float, ...]
    dtype: torch.dtype = torch.int64
    by_row: bool = True  # a hostile value is blamed on its row alone
    row_outputs: bool = True  # the output has one entry per row


def _flat_select(x: torch.Tensor, table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return table.index_select(0, i.reshape(-1)).reshape(*i.shape, 8)


def _bag(mode: str) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    return lambda x, table, i: functional.embedding_bag(i, table, mode=mode)


def _row_put(x: torch.Tensor, table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_put((torch.arange(x.shape[0]), i), torch.tensor(5.0))


def _cross_entropy(x: torch.Tensor, table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(x, i, reduction="none", ignore_index=-7)


def _unpool(x: torch.Tensor, table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return functional.max_unpool2d(x[:, :4].reshape(-1, 1, 2, 2), i, 2)


def _sorter(x: torch.Tensor, table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.searchsorted(x, torch.zeros_like(x[:, :2]), sorter=i)


def _masked_scatter(x: torch.Tensor, table: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.masked_scatter(mask, torch.ones(3))


def _assertion(x: torch.Tensor, table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    torch.ops.aten._assert_async.msg((i >= 0).all(), "expected no negative value")
    return i + 1


def _inverse(x: torch.Tensor, table: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    return torch.linalg.inv(d[:, None, None] * torch.eye(2))


ABOVE = (10, 2**40, -1, INT64_MIN)
WRAP = (10, -11, 2**40)
INDICES = [
    Case("embedding", lambda x, t, i: functional.embedding(i, t), (4,), 0, 10, ABOVE),
    Case("embedding_int32", lambda x, t, i: functional.embedding(i, t), (4,), 0, 10, (10, -1), torch.int32),
    Case("embedding_sum", _bag("sum"), (5,), 0, 10, ABOVE),
    Case("embedding_mean", _bag("mean"), (5,), 0, 10, ABOVE),
    Case("gather", lambda x, t, i: x.gather(1, i), (3,), 0, 6, (6, -1)),
    Case("gather_rows", lambda x, t, i: t.gather(0, i), (8,), 0, 10, ABOVE),
    Case("index_select", _flat_select, (4,), 0, 10, ABOVE),
    Case("index", lambda x, t, i: t[i], (4,), -10, 10, WRAP),
    Case("index_transposed", lambda x, t, i: t[i.T].transpose(0, 1), (4,), -10, 10, WRAP),
    Case("index_pair", lambda x, t, i: x[torch.arange(x.shape[0]), i], (), -6, 6, (6, -7)),
    Case("take", lambda x, t, i: torch.take(t, i), (3,), -80, 80, (80, -81)),
    Case("one_hot", lambda x, t, i: functional.one_hot(i, 5), (2,), 0, 5, (5, -1)),
    Case("cross_entropy", _cross_entropy, (), 0, 6, (6, -1)),
    Case("searchsorted", _sorter, (6,), 0, 6, (6, -1)),
    Case("max_unpool2d", _unpool, (1, 2, 2), 0, 16, (16, -1)),
]
WRITES = [
    Case("scatter_value", lambda x, t, i: x.scatter(1, i, 3.0), (2,), 0, 6, (6, -1)),
    Case("scatter", lambda x, t, i: x.scatter(1, i, -x[:, :2]), (2,), 0, 6, (6, -1)),
    Case("scatter_add", lambda x, t, i: x.scatter_add(1, i, x[:, :2]), (2,), 0, 6, (6, -1)),
    Case("scatter_reduce", lambda x, t, i: x.scatter_reduce(1, i, x[:, :2], "amax"), (2,), 0, 6, (6, -1)),
    Case("index_put", _row_put, (), -6, 6, (6, -7)),
    Case(
        "scatter_rows",
        lambda x, t, i: t.scatter_add(0, i, x),
        (6,),
        0,
        10,
        ABOVE,
        by_row=False,
        row_outputs=False,
    ),
    Case(
        "index_put_rows",
        lambda x, t, i: t.index_put((i,), torch.tensor(2.0)),
        (),
        -10,
        10,
        WRAP,
        by_row=False,
        row_outputs=False,
    ),
    Case(
        "index_add",
        lambda x, t, i: t[:, :6].index_add(0, i, x),
        (),
        0,
        10,
        ABOVE,
        by_row=False,
        row_outputs=False,
    ),
    Case(
        "index_copy",
        lambda x, t, i: t.index_copy(0, i, torch.ones(x.shape[0], 8)),
        (),
        0,
        10,
        ABOVE,
        by_row=False,
        row_outputs=False,
    ),
    Case(
        "index_fill",
        lambda x, t, i: t.index_fill(0, i, 4.0),
        (),
        -10,
        10,
        WRAP,
        by_row=False,
        row_outputs=False,
    ),
    Case(
        "put",
        lambda x, t, i: t.put(i, torch.ones(x.shape[0])),
        (),
        -80,
        80,
        (80, -81),
        by_row=False,
        row_outputs=False,
    ),
    Case(
        "index_reduce",
        lambda x, t, i: t[:, :6].index_reduce(0, i, x, "amax"),
        (),
        0,
        10,
        (10, -1),
        by_row=False,
        row_outputs=False,
    ),
]


def _ints(x: torch.Tensor, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return (x * 100).to(dtype)


DIVISIONS = [
    Case("floor_divide", lambda x, t, d: _ints(x) // d, (6,), 1, 9, (0,)),
    Case("remainder", lambda x, t, d: _ints(x) % d, (6,), 1, 9, (0,)),
    Case("fmod", lambda x, t, d: torch.fmod(_ints(x), d), (6,), 1, 9, (0,)),
    Case("div_floor", lambda x, t, d: torch.div(_ints(x), d, rounding_mode="floor"), (6,), 1, 9, (0,)),
    Case("div_trunc", lambda x, t, d: torch.div(_ints(x), d, rounding_mode="trunc"), (6,), 1, 9, (0,)),
    Case("scalar_remainder", lambda x, t, d: torch.remainder(100, d), (6,), 1, 9, (0,)),
    Case("int32_floor_divide", lambda x, t, d: _ints(x, torch.int32) // d, (6,), 1, 9, (0,), torch.int32),
    Case(
        "uint8_remainder",
        lambda x, t, d: torch.tensor([200], dtype=torch.uint8) % d,
        (6,),
        1,
        9,
        (0,),
        torch.uint8,
    ),
    Case("negative_divisor", lambda x, t, d: _ints(x) // d, (6,), -4, 0, (0,)),
    Case("lcm", lambda x, t, d: torch.lcm(torch.tensor([0, 4, 6, 0, 9, 1]), d), (6,), 0, 9, ()),
    Case("minimum_by_minus_one", lambda x, t, d: torch.full_like(d, INT64_MIN) // d, (6,), -1, 0, (0,)),
]
CHECKS = [
    Case("masked_scatter", _masked_scatter, (6,), 0, 1, (1,), torch.bool, by_row=False, row_outputs=False),
    Case("assert_async", _assertion, (3,), 0, 9, (-1,), by_row=False),
    Case("inverse", _inverse, (), 1, 5, (0,), torch.float32),
    Case(
        "binary_cross_entropy",
        lambda x, t, p: functional.binary_cross_entropy(p, torch.ones_like(p), reduction="none"),
        (3,),
        0,
        2,
        (-1, 2),
        torch.float32,
    ),  # fmt: skip
]
CASES = [*INDICES, *WRITES, *DIVISIONS, *CHECKS]


class Hostile(torch.nn.Module):
    """All cases in one program, each with an input and an output of its own."""

    def __init__(self, cases: list[Case]) -> None:
        super().__init__()
        self.cases = cases
        generator = torch.Generator().manual_seed(3)
        self.table = torch.nn.Parameter(torch.randn(10, 8, generator=generator))

    def forward(self, x: torch.Tensor, operands: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {case.name: case.run(x, self.table, operands[case.name]) for case in self.cases}


def good_inputs(cases: list[Case], batch: int, seed: int = 0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Inputs that eager accepts."""
    generator = torch.Generator().manual_seed(seed)
    operands = {}
    for case in cases:
        values = torch.randint(case.low, case.high, (batch, *case.shape), generator=generator)
        operands[case.name] = values.to(case.dtype)
    if "index_copy" in operands:  # several copies to one place have no defined order
        operands["index_copy"] = torch.zeros_like(operands["index_copy"])
    return torch.randn(batch, 6, generator=generator), operands


assert len({case.name for case in CASES}) == len(CASES)
