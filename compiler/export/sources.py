"""Where models come from: what the exporter can be asked for, turned into a module and its inputs."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from compiler.export.refusal import ExportRefused, location_of_error


@dataclass
class Limits:
    """The largest sizes that the program is to take; a batch of 0 exports without a batch dimension."""

    batch: int = 64
    length: int | None = None


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


def resolve(text: str, limits: Limits, weights: Path | None, task: str) -> ExportSource:
    """Finds the model that SOURCE names. Raises ExportRefused."""
    kind, _, rest = text.partition(":")
    loaders: dict[str, Callable[[], ExportSource]] = {
        "torchvision": lambda: _from_torchvision(rest, limits),
        "timm": lambda: _from_timm(rest, limits),
    }
    if not rest:
        raise ExportRefused("expected module:function, transformers:FOLDER, torchvision:NAME or timm:NAME")
    if kind == "transformers":
        from compiler.export.transformers_folder import from_transformers

        if weights:
            raise ExportRefused("--weights: a transformers folder holds its weights")
        return from_transformers(Path(rest), limits, task)
    source = loaders[kind]() if kind in loaders else _from_callable(kind, rest, limits)
    if weights:
        _load_weights(source.module, weights)
    return source


def batch_dimension(limits: Limits) -> Any:
    """The Dim of axis 0, or None when the program is to have none."""
    return Dim("batch", min=1, max=limits.batch) if limits.batch else None


def _from_callable(module_name: str, function_name: str, limits: Limits) -> ExportSource:
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


class _ImageModel(nn.Module):
    """Gives the input and the output of an image model names that say what they are."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        result = self.model(image)
        return {"logits": result} if isinstance(result, Tensor) else dict(result)


def _image_source(name: str, model: nn.Module, size: tuple[int, int, int], limits: Limits) -> ExportSource:
    batch = batch_dimension(limits)
    shapes = ({0: batch},) if batch else None
    rows = 2 if batch else 1
    return ExportSource(name, _ImageModel(model), (torch.randn(rows, *size),), {}, shapes)


def _from_torchvision(name: str, limits: Limits) -> ExportSource:
    try:
        from torchvision import models

        builder = models.get_model_builder(name)
        # Some builders fetch a backbone's weights unless told not to.
        keywords = {"weights", "weights_backbone"} & inspect.signature(builder).parameters.keys()
        model = builder(**dict.fromkeys(keywords))
        preset = models.get_model_weights(name).DEFAULT.transforms()
    except Exception as error:
        raise ExportRefused(f"torchvision can't make it: {error}") from error
    size = getattr(preset, "crop_size", [224])[0]
    return _image_source(name, model, (3, size, size), limits)


def _from_timm(name: str, limits: Limits) -> ExportSource:
    try:
        import timm

        model = timm.create_model(name, pretrained=False)
        size = timm.data.resolve_model_data_config(model)["input_size"]
    except Exception as error:
        raise ExportRefused(f"timm can't make it: {error}") from error
    return _image_source(name.partition(".")[0], model, tuple(size), limits)


def _load_weights(module: nn.Module, path: Path) -> None:
    """Loads a state dict, for the model itself where it stands in a wrapper."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ExportRefused(f"{path}: not a state dict: {reason}") from error
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise ExportRefused(f"{path}: expected a state dict, names and tensors")
    target = module.model if isinstance(module, _ImageModel) else module
    try:
        target.load_state_dict(state)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:]]
        raise ExportRefused(f"{path}: does not fit the model: {' '.join(lines)[:400]}") from error
