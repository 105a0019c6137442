"""torchvision's models: classification, segmentation, detection, video, optical flow, and its own operators."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from loadtest.coverage.program import B, Input, Program, floats, image

CLASSIFICATION: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("alexnet", 96, {}),
    ("squeezenet1_1", 96, {}),
    ("shufflenet_v2_x0_5", 96, {}),
    ("mobilenet_v2", 96, {}),
    ("resnet18", 96, {}),
    ("resnext50_32x4d", 64, {}),
    ("swin_v2_t", 64, {}),
    ("convnext_tiny", 64, {}),
)
SEGMENTATION = ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")
# Without training every score is about 0.01, far below what these detectors take for found; and with fewer than two
# boxes an assertion of torch.export's own ends the exported program.
FINDS = {"score_thresh": 0.005, "topk_candidates": 100}
DETECTION: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ssdlite320_mobilenet_v3_large", {}),
    ("retinanet_resnet50_fpn", {"min_size": 96, "max_size": 128, **FINDS}),
    ("fcos_resnet50_fpn", {"min_size": 96, "max_size": 128, **FINDS}),
)
VIDEO = ("r3d_18", "mc3_18", "r2plus1d_18")
PER_IMAGE = "a detector answers with as many boxes as it finds in an image"


def build(kind: str, name: str, **arguments: Any) -> nn.Module:
    import torchvision.models as models

    where = getattr(models, kind) if kind else models
    if kind in ("detection", "segmentation"):
        arguments["weights_backbone"] = None
    return getattr(where, name)(weights=None, **arguments)


def batched_nms(boxes: Tensor, scores: Tensor, classes: Tensor, threshold: float) -> Tensor:
    """torchvision's, without its branches on the number of boxes, which is known at run time only: each class is moved
    to a place of its own."""
    from torchvision.ops import nms

    moved = boxes + (classes.to(boxes) * 4096)[:, None]
    return nms(moved, scores, threshold)


class Detector(nn.Module):
    """One image in; boxes, labels and scores out."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        super().__init__()
        from torchvision.ops import boxes

        boxes.batched_nms = batched_nms
        self.model = build("detection", name, num_classes=10, **arguments)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        (found,) = self.model([image])
        return found


class RaftSmall(nn.Module):
    """The flow after two refinements."""

    def __init__(self) -> None:
        super().__init__()
        self.model = build("optical_flow", "raft_small")

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        return self.model(before, after, num_flow_updates=2)[-1]


class NmsHead(nn.Module):
    """The hundred best boxes of two hundred, without those that overlap a better one."""

    def forward(self, corners: Tensor, extents: Tensor, scores: Tensor) -> dict[str, Tensor]:
        from torchvision.ops import nms

        boxes = torch.cat((corners, corners + extents), 1)
        kept = nms(boxes, scores, 0.5)
        return {"kept": kept, "boxes": boxes[kept], "scores": scores[kept]}


class RoiAlignHead(nn.Module):
    """Boxes cut out of a pyramid level, and classified."""

    def __init__(self) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(64, 32, 1)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 49, 256), nn.ReLU(), nn.Linear(256, 21))

    def forward(self, features: Tensor, boxes: Tensor) -> Tensor:
        from torchvision.ops import roi_align

        rows = torch.arange(boxes.shape[0], dtype=boxes.dtype)[:, None].expand(-1, boxes.shape[1]).reshape(-1, 1)
        corners, extents = boxes.reshape(-1, 4).split(2, 1)
        rois = torch.cat((rows, corners, corners + extents), 1)
        cut = roi_align(self.reduce(features), rois, (7, 7), spatial_scale=0.25, sampling_ratio=2, aligned=True)
        return self.head(cut).reshape(boxes.shape[0], boxes.shape[1], -1)


class PositionSensitiveHead(nn.Module):
    """R-FCN's head: each cell of a box is cut out of channels of its own."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        self.maps = nn.Conv2d(64, classes * 9, 1)

    def forward(self, features: Tensor, corners: Tensor, extents: Tensor) -> Tensor:
        from torchvision.ops import ps_roi_align

        image = corners.new_zeros(corners.shape[0], 1)
        rois = torch.cat((image, corners, corners + extents), 1)
        return ps_roi_align(self.maps(features), rois, 3, spatial_scale=0.25, sampling_ratio=2).mean((2, 3))


class DeformableConvolution(nn.Module):
    """A block whose kernels move where the image says."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        from torchvision.ops import DeformConv2d

        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.offset = nn.Conv2d(width, 18, 3, padding=1)
        self.mask = nn.Conv2d(width, 9, 3, padding=1)
        self.deformable = DeformConv2d(width, width, 3, padding=1)
        self.head = nn.Linear(width, 10)

    def forward(self, image: Tensor) -> Tensor:
        features = torch.relu(self.stem(image))
        moved = self.deformable(features, self.offset(features), self.mask(features).sigmoid())
        return self.head(torch.relu(moved).mean((2, 3)))


class FeaturePyramid(nn.Module):
    """MobileNet's features at three scales, joined top down."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.ops import FeaturePyramidNetwork

        self.body = build("", "mobilenet_v3_small").features
        self.pyramid = FeaturePyramidNetwork([16, 24, 96], 64)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        taken: dict[str, Tensor] = {}
        for place, block in enumerate(self.body):
            image = block(image)
            if place in (1, 3, 11):
                taken[f"p{place}"] = image
        return self.pyramid(taken)


def programs() -> Iterator[Program]:
    for name, size, arguments in CLASSIFICATION:
        yield Program(
            f"tv_{name}", "torchvision", partial(build, "", name, num_classes=100, **arguments), {"x": image(size)}
        )
    for name in SEGMENTATION:
        inputs = {"input" if "lraspp" in name else "x": image(64)}
        yield Program(f"tv_{name}", "torchvision", partial(build, "segmentation", name), inputs)
    for name, arguments in DETECTION:
        size = 320 if "ssdlite" in name else 96
        given = floats(3, size, size, limits=(0, 1))
        yield Program(f"tv_{name}", "detection", partial(Detector, name, arguments), {"image": given}, ({},), PER_IMAGE)
    clip = {"x": floats(B, 3, 16, 64, 64)}
    for name in VIDEO:
        yield Program(f"tv_{name}", "video", partial(build, "video", name), clip, ({B: 1}, {B: 4}))
    frame = floats(B, 3, 128, 128, limits=(-1, 1))
    yield Program("tv_raft_small", "video", RaftSmall, {"before": frame, "after": frame})
    place, extent = floats(200, 2, limits=(0, 80)), floats(200, 2, limits=(5, 40))
    scored = {"corners": place, "extents": extent, "scores": floats(200, limits=(0, 1))}
    yield Program("tv_nms", "detection", NmsHead, scored, ({},), PER_IMAGE)
    boxes: dict[str, Input] = {"features": floats(B, 64, 32, 32), "boxes": floats(B, 20, 4, limits=(4, 60))}
    yield Program("tv_roi_align", "detection", RoiAlignHead, boxes)
    maps: dict[str, Input] = {"features": floats(1, 64, 32, 32), "corners": place, "extents": extent}
    yield Program("tv_ps_roi_align", "detection", PositionSensitiveHead, maps, ({},), PER_IMAGE)
    yield Program("tv_deform_conv2d", "detection", DeformableConvolution, {"image": image(48)})
    yield Program("tv_feature_pyramid", "detection", FeaturePyramid, {"image": image(96)})
