"""Models that take sound as samples, and those of torchaudio by the names of the functions that make them."""

from __future__ import annotations

import inspect
import math
from typing import Any

from torch import Tensor, nn
from torch.export import Dim

from compiler.export.refusal import ExportRefused
from compiler.export.source import ExportSource, Limits, one_input

SAMPLES_PER_SECOND = 16000  # of every wav2vec2-like model
WAVE_SECONDS = 30


class SpeechModel(nn.Module):
    """Samples to what the last layer makes of them: emissions, where the model has a head."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, waveforms: Tensor) -> dict[str, Tensor]:
        return {"features": self.model(waveforms)[0]}


class Separator(nn.Module):
    """Sources that a mixture is made of."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, mixture: Tensor) -> dict[str, Tensor]:
        return {"sources": self.model(mixture)}


def from_torchaudio(name: str, limits: Limits) -> ExportSource:
    """wav2vec2_…, hubert_…, wavlm_…, conv_tasnet_base and hdemucs_…, with random weights."""
    try:
        from torchaudio import models
    except ImportError as error:
        raise ExportRefused(f"torchaudio can't be imported: {error}") from error
    builder = getattr(models, name, None)
    if not inspect.isfunction(builder):
        raise ExportRefused(f"torchaudio has no function {name!r} that makes a model")
    try:
        model = builder(sources=["drums", "bass", "other", "vocals"]) if name.startswith("hdemucs") else builder()
    except TypeError as error:
        raise ExportRefused(f"torchaudio can't make it by its name alone: {error}") from error
    if isinstance(model, models.Wav2Vec2Model):
        convolutions = [layer.conv for layer in model.feature_extractor.conv_layers]
        kernels, strides = ([getattr(c, field)[0] for c in convolutions] for field in ("kernel_size", "stride"))
        return wave_source(name, SpeechModel(model), kernels, strides, limits)
    if isinstance(model, (models.ConvTasNet, models.HDemucs)):
        channels = 2 if isinstance(model, models.HDemucs) else 1
        length = limits.length or SAMPLES_PER_SECOND
        return one_input(name, Separator(model), (channels, length), limits)
    raise ExportRefused(f"{type(model).__name__}: make a function that returns (module, args)")


def wave_source(name: str, module: nn.Module, kernels: list[int], strides: list[int], limits: Limits) -> ExportSource:
    """Of a model that begins with these convolutions: samples that their strides divide without a rest, because torch
    can say no other lengths."""
    step = math.prod(strides)
    most = (limits.length or WAVE_SECONDS * SAMPLES_PER_SECOND) // step
    reach = 1
    for kernel, stride in zip(reversed(kernels), reversed(strides), strict=True):
        reach = (reach - 1) * stride + kernel
    least = math.ceil((reach + 2 * step) / step)  # three steps come out, so that no size is 1
    if most <= least:
        raise ExportRefused(f"--max-length {limits.length}: the model takes at least {least * step} samples")
    dynamic = {1: step * Dim("steps", min=least, max=most)}
    return one_input(name, module, (step * min(most, 4 * least),), limits, dynamic)
