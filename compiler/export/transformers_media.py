"""Image and audio models of transformers as export sources."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from compiler.export.refusal import ExportRefused
from compiler.export.source import ExportSource, Limits, batch_dimension, tensors

WAVE_SECONDS = 30
SAMPLES_PER_SECOND = 16000  # of every wav2vec2-like model


class ImageInput(nn.Module):
    """What a model answers to an image alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor) -> dict[str, Tensor]:
        return tensors(self.model(pixel_values=pixel_values))


class ImageEmbedding(nn.Module):
    """The image's half of a model that embeds images and texts in one space."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor) -> dict[str, Tensor]:
        return {"image_embedding": embedding(self.model.get_image_features(pixel_values=pixel_values))}


class TextEmbedding(nn.Module):
    """The text's half."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        found = self.model.get_text_features(input_ids=input_ids, attention_mask=attention_mask)
        return {"text_embedding": embedding(found)}


class WaveInput(nn.Module):
    """What a model answers to samples, or to a spectrogram that it calls the same."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_values: Tensor) -> dict[str, Tensor]:
        return tensors(self.model(input_values=input_values))


class SpectrogramInput(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_features: Tensor) -> dict[str, Tensor]:
        return tensors(self.model(input_features=input_features))


def embedding(found: Any) -> Tensor:
    answer: Tensor = found if isinstance(found, Tensor) else found.pooler_output
    return answer


def image_source(folder: Path, config: Any, module: nn.Module, limits: Limits) -> ExportSource:
    height, width = [limits.image_size] * 2 if limits.image_size else _image_size(folder, config)
    return _rows(folder, module, (getattr(config, "num_channels", 3), height, width), limits)


def audio_source(folder: Path, config: Any, model: nn.Module, takes: str, limits: Limits) -> ExportSource:
    """`takes`: what transformers calls the model's input."""
    if takes == "input_features":
        bins, positions = (getattr(config, name, None) for name in ("num_mel_bins", "max_source_positions"))
        if not bins or not positions:
            raise ExportRefused(f"{config.model_type}: config.json doesn't say how large its spectrograms are")
        return _rows(folder, SpectrogramInput(model), (bins, 2 * positions), limits)
    if getattr(config, "conv_stride", None):
        return _wave_source(folder, config, WaveInput(model), limits)
    return _rows(folder, WaveInput(model), (config.max_length, config.num_mel_bins), limits)


def _wave_source(folder: Path, config: Any, module: nn.Module, limits: Limits) -> ExportSource:
    """Samples that the convolutions at the model's beginning divide without a rest: torch can say no other lengths."""
    step = math.prod(config.conv_stride)
    most = (limits.length or WAVE_SECONDS * SAMPLES_PER_SECOND) // step
    reach = 1
    for kernel, stride in zip(reversed(config.conv_kernel), reversed(config.conv_stride), strict=True):
        reach = (reach - 1) * stride + kernel
    least = math.ceil((reach + 2 * step) / step)  # three steps come out, so that no size is 1
    if most <= least:
        raise ExportRefused(f"--max-length {limits.length}: the model takes at least {least * step} samples")
    batch, steps = batch_dimension(limits), step * Dim("steps", min=least, max=most)
    example = torch.randn(2 if batch else 1, step * min(most, 4 * least))
    shape = {0: batch, 1: steps} if batch else {1: steps}
    return ExportSource(folder.resolve().name, module, (example,), dynamic_shapes=(shape,))


def _rows(folder: Path, module: nn.Module, size: tuple[int, ...], limits: Limits) -> ExportSource:
    batch = batch_dimension(limits)
    example = torch.randn(2 if batch else 1, *size)
    return ExportSource(folder.resolve().name, module, (example,), dynamic_shapes=({0: batch},) if batch else None)


def _image_size(folder: Path, config: Any) -> tuple[int, int]:
    """What config.json says, else what the preprocessor makes, else 224 × 224."""
    size = getattr(config, "image_size", None)
    if size is None:
        try:
            said = json.loads((folder / "preprocessor_config.json").read_text())
        except (OSError, ValueError):
            said = {}
        size = said.get("crop_size") or said.get("size") or 224
        if isinstance(size, dict):
            size = size.get("shortest_edge") or (size.get("height", 224), size.get("width", 224))
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return int(height), int(width)
