"""A callable of an importable module as an export source."""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any

import torch
from torch import Tensor, nn

from compiler.export.refusal import ExportRefused, location_of_error
from compiler.export.source import ExportSource, Limits, batch_dimension


def from_callable(module_name: str, function_name: str, limits: Limits) -> ExportSource:
    sys.path.insert(0, "")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise ExportRefused(str(error), location_of_error(error)) from error
    finally:
        sys.path.remove("")
    try:
        made = function()
    except Exception as error:
        raise ExportRefused(
            f"{function_name}() raised {type(error).__name__}: {error}", location_of_error(error)
        ) from error
    expected = "(module, args) or (module, args, kwargs, dynamic_shapes)"
    if not isinstance(made, tuple) or len(made) not in (2, 4) or not isinstance(made[0], nn.Module):
        raise ExportRefused(f"{function_name}() returned {_describe(made)}, expected {expected}")
    module, args = made[0], made[1]
    kwargs, shapes = (made[2] or {}, made[3]) if len(made) == 4 else ({}, None)
    if not isinstance(args, tuple) or not isinstance(kwargs, dict):
        raise ExportRefused(
            f"{function_name}() returned {_describe(made)}, expected {expected} with a tuple and a dictionary"
        )
    if shapes is None:
        args, kwargs, shapes = _batch_first(module, args, kwargs, limits)
    return ExportSource(function_name, module, args, kwargs, shapes)


def _describe(made: Any) -> str:
    if isinstance(made, tuple):
        return "(" + ", ".join(type(m).__name__ for m in made) + ")"
    return type(made).__name__


def _batch_first(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], limits: Limits
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Makes axis 0 of every input the batch, when the examples agree on it.

    An example of one row is doubled: torch takes a size of 1 in an example for a constant.
    """
    inputs = [*args, *kwargs.values()]
    batch = batch_dimension(limits)
    if batch is None:
        return args, kwargs, None
    if not all(isinstance(x, Tensor) and x.dim() > 0 for x in inputs) or len({len(x) for x in inputs}) != 1:
        raise ExportRefused(
            "axis 0 of the examples is not one batch: return (module, args, kwargs, dynamic_shapes), "
            "or export without a batch with --max-batch 0"
        )
    if len(inputs[0]) == 1:
        args = tuple(torch.cat([x, x]) for x in args)
        kwargs = {name: torch.cat([x, x]) for name, x in kwargs.items()}
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    shapes: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = inspect.signature(module.forward).parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            shapes[name] = tuple({0: batch} for _ in value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            shapes[name] = {key: {0: batch} for key in value}
        else:
            shapes[name] = {0: batch}
    return args, kwargs, shapes
