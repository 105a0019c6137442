"""Where models come from: what the exporter can be asked for, turned into a module and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn

from compiler.export.callables import from_callable
from compiler.export.diffusers_folder import from_diffusers
from compiler.export.images import Detector, ImageModel, from_timm, from_torchvision
from compiler.export.program_file import from_program
from compiler.export.refusal import ExportRefused
from compiler.export.sound import Separator, SpeechModel, from_torchaudio
from compiler.export.source import ExportSource, Limits
from compiler.export.transformers_folder import from_transformers

# Around a library's model, whose weights are the library's.
WRAPPERS = (ImageModel, Detector, SpeechModel, Separator)


def resolve(
    text: str, limits: Limits, weights: Path | None, task: str, dtype: torch.dtype = torch.float32
) -> ExportSource:
    """Finds the model that SOURCE names, and has it compute in `dtype`, float32 meaning as it is. Raises
    ExportRefused."""
    source = _find(text, limits, weights, task)
    if dtype != torch.float32:
        source.module.to(dtype)
        source.args, source.kwargs = pytree.tree_map_only(
            Tensor, lambda x: x.to(dtype) if x.is_floating_point() else x, (source.args, source.kwargs)
        )
    return source


def _find(text: str, limits: Limits, weights: Path | None, task: str) -> ExportSource:
    kind, _, rest = text.partition(":")
    loaders: dict[str, Callable[[], ExportSource]] = {
        "torchvision": lambda: from_torchvision(rest, limits),
        "timm": lambda: from_timm(rest, limits),
        "torchaudio": lambda: from_torchaudio(rest, limits),
    }
    folders = {"transformers": from_transformers, "diffusers": from_diffusers}
    if not rest:
        kinds = [*(f"{name}:FOLDER" for name in folders), *(f"{name}:NAME" for name in loaders), "program:FILE"]
        raise ExportRefused(f"expected module:function, {', '.join(kinds[:-1])} or {kinds[-1]}")
    if kind in folders:
        if weights:
            raise ExportRefused(f"--weights: a {kind} folder holds its weights")
        return folders[kind](Path(rest), limits, task)
    if kind == "program":
        if weights:
            raise ExportRefused("--weights: a program holds its weights")
        return from_program(Path(rest))
    source = loaders[kind]() if kind in loaders else from_callable(kind, rest, limits)
    if weights:
        _load_weights(source.module, weights)
    return source


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
    target = module.model if isinstance(module, WRAPPERS) else module
    try:
        target.load_state_dict(state)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:]]
        raise ExportRefused(f"{path}: does not fit the model: {' '.join(lines)[:400]}") from error
