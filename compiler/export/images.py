"""Image models of torchvision and timm as export sources."""

from __future__ import annotations

import inspect
import unittest.mock

import torch
from torch import Tensor, nn

from compiler.export.refusal import ExportRefused
from compiler.export.source import ExportSource, Limits, one_input


class ImageModel(nn.Module):
    """Gives the input and the output of an image model names that say what they are."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        result = self.model(image)
        return {"logits": result} if isinstance(result, Tensor) else dict(result)


class Detector(nn.Module):
    """One image in; boxes, labels and scores out, of as many as are found in it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        from torchvision.ops import boxes

        with unittest.mock.patch.object(boxes, "batched_nms", nms_by_class):
            found: dict[str, Tensor] = self.model([image])[0]
        return found


def nms_by_class(boxes: Tensor, scores: Tensor, classes: Tensor, threshold: float) -> Tensor:
    """torchvision's batched_nms without its branches on the number of boxes, which torch.export can't follow: each
    class is moved to a place of its own, as torchvision does for few boxes."""
    from torchvision.ops import nms

    beyond = torch.cat([boxes.flatten(), boxes.new_zeros(1)]).max() + 1  # there may be no box
    return nms(boxes + (classes.to(boxes) * beyond)[:, None], scores, threshold)


def _detector_source(name: str, model: nn.Module, limits: Limits) -> ExportSource:
    """Of one image, whose size the model changes itself: what it finds is not of the batch's size."""
    size = limits.image_size or 320
    return ExportSource(name, Detector(model), (torch.rand(3, size, size),))


def _image_source(name: str, model: nn.Module, size: tuple[int, int, int], limits: Limits) -> ExportSource:
    if limits.image_size:
        size = (size[0], limits.image_size, limits.image_size)
    return one_input(name, ImageModel(model), size, limits)


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
    if builder.__module__.startswith("torchvision.models.detection"):
        return _detector_source(name, model, limits)
    size = getattr(preset, "crop_size", None) or getattr(preset, "resize_size", None) or [224]
    size = size[0]
    return _image_source(name, model, (3, size, size), limits)


def from_timm(name: str, limits: Limits) -> ExportSource:
    try:
        import timm

        model = timm.create_model(name, pretrained=False)
        size = timm.data.resolve_model_data_config(model)["input_size"]
    except Exception as error:
        raise ExportRefused(f"timm can't make it: {error}") from error
    return _image_source(name.partition(".")[0], model, tuple(size), limits)
