"""What every kind of model is turned into before it is exported: a module, its inputs, their dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim


@dataclass
class Limits:
    """The largest sizes that the program is to take; a batch of 0 exports without a batch dimension."""

    batch: int = 64
    length: int | None = None  # tokens or samples
    image_size: int | None = None  # height and width; of the model's own where there is none


@dataclass
class ExportSource:
    """Everything torch.export needs, and what model.yaml should say about it."""

    name: str
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    padded: set[str] = field(default_factory=set)  # names of dimensions that may be padded
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)  # input → values for test inputs
    pad_values: dict[str, int] = field(default_factory=dict)


def batch_dimension(limits: Limits) -> Any:
    """The Dim of axis 0, or None when the program is to have none."""
    return Dim("batch", min=1, max=limits.batch) if limits.batch else None


def one_input(
    name: str, module: nn.Module, size: tuple[int, ...], limits: Limits, dynamic: dict[int, Any] | None = None
) -> ExportSource:
    """Of a module that takes rows of `size`. `dynamic`: Dims of other axes than the batch's."""
    shape, batch = dict(dynamic or {}), batch_dimension(limits)
    if batch is not None:
        shape[0] = batch
    example = torch.randn(2 if batch is not None else 1, *size)
    return ExportSource(name, module, (example,), dynamic_shapes=(shape,) if shape else None)


def tensors(output: Any) -> dict[str, Tensor]:
    """What a transformers model's output holds besides caches, attentions and the pooler's unused head."""
    found = {name: value for name, value in output.items() if isinstance(value, Tensor)}
    return {k: v for k, v in found.items() if k != "pooler_output"} or found
