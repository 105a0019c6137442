"""Image models of torchvision and timm as export sources."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor, nn

from compiler.export.refusal import ExportRefused
from compiler.export.source import ExportSource, Limits, batch_dimension


class ImageModel(nn.Module):
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
    return ExportSource(name, ImageModel(model), (torch.randn(rows, *size),), {}, shapes)


def from_torchvision(name: str, limits: Limits) -> ExportSource:
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


def from_timm(name: str, limits: Limits) -> ExportSource:
    try:
        import timm

        model = timm.create_model(name, pretrained=False)
        size = timm.data.resolve_model_data_config(model)["input_size"]
    except Exception as error:
        raise ExportRefused(f"timm can't make it: {error}") from error
    return _image_source(name.partition(".")[0], model, tuple(size), limits)
