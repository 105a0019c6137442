"""What the daemon is told of the operators that compiled code calls by their names.

torch 2.11 writes types, layouts and memory formats there by the numbers of its export format, and reads them as its own
(pytorch #173562): complex128 becomes bool, and a copy in contiguous order one in the order that there is. Here they are
written as they are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compiler.guards.refused import Refused

# torch's own numbers (c10/core/Layout.h, c10/core/MemoryFormat.h), by the names in the export format.
LAYOUTS = {"Strided": 0}
MEMORY_FORMATS = {"ContiguousFormat": 0, "PreserveFormat": 1, "ChannelsLast": 2, "ChannelsLast3d": 3}


def translate(calls: Path) -> None:
    """Of the file that Inductor has written makes one that torch's runtime reads as it was meant. Raises Refused for a
    number that stands for nothing there."""
    calls.write_text(json.dumps(_translated(json.loads(calls.read_text()))))


def _translated(value: Any) -> Any:
    if isinstance(value, list):
        return [_translated(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: NUMBERS[name](each) if name in NUMBERS else _translated(each) for name, each in value.items()}


def _dtype(number: int) -> int:
    import torch
    from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE

    dtype = _SERIALIZE_TO_TORCH_DTYPE.get(number)
    if dtype is None:
        raise Refused(f"an operator is called with the type {number} of the export format, which torch doesn't have")
    return int(torch.ops.prim.dtype.default(torch.empty(0, dtype=dtype, device="meta")))


def _layout(number: int) -> int:
    from torch._export.serde.schema import Layout

    return _named(LAYOUTS, Layout(number).name)


def _memory_format(number: int) -> int:
    from torch._export.serde.schema import MemoryFormat

    return _named(MEMORY_FORMATS, MemoryFormat(number).name)


def _named(numbers: dict[str, int], name: str) -> int:
    if name not in numbers:
        raise Refused(f"an operator is called with the layout or memory format {name}: expected one of {[*numbers]}")
    return numbers[name]


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "as_scalar_type": _dtype,
    "as_scalar_types": lambda numbers: [_dtype(number) for number in numbers],
    "as_layout": _layout,
    "as_memory_format": _memory_format,
}
