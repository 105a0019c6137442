"""Image and audio models of transformers as export sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from compiler.export.refusal import ExportRefused
from compiler.export.sound import wave_source
from compiler.export.source import ExportSource, Limits, one_input, tensors


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
    return one_input(folder.resolve().name, module, (getattr(config, "num_channels", 3), height, width), limits)


def audio_source(folder: Path, config: Any, model: nn.Module, takes: str, limits: Limits) -> ExportSource:
    """`takes`: what transformers calls the model's input."""
    if takes == "input_features":
        bins, positions = (getattr(config, name, None) for name in ("num_mel_bins", "max_source_positions"))
        if not bins or not positions:
            raise ExportRefused(f"{config.model_type}: config.json doesn't say how large its spectrograms are")
        return one_input(folder.resolve().name, SpectrogramInput(model), (bins, 2 * positions), limits)
    if getattr(config, "conv_stride", None):
        kernels, strides = list(config.conv_kernel), list(config.conv_stride)
        return wave_source(folder.resolve().name, WaveInput(model), kernels, strides, limits)
    return one_input(folder.resolve().name, WaveInput(model), (config.max_length, config.num_mel_bins), limits)


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
