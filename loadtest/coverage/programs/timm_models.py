"""Image models of timm: one or two of each of its families, on small images."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import nn

from loadtest.coverage.program import Program, image

FAMILY = "timm"


def build(name: str, **arguments: Any) -> nn.Module:
    import timm

    return timm.create_model(name, pretrained=False, num_classes=100, **arguments)


def settled(name: str, size: int) -> nn.Module:
    """With norms that have seen images. Without, this net's random weights make each layer's values larger than the
    last one's, up to 10^8, and its answers differ even between eager's with one thread and with two."""
    import torch

    model = build(name).train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the mean of all batches
    with torch.no_grad():
        for _ in range(4):
            model(torch.randn(8, 3, size, size))
    return model.eval()


# Name, image size, arguments that make it smaller; convolutions take any size, transformers are told theirs.
CONVOLUTIONS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("resnet10t", 64, {}),
    ("efficientnet_lite0", 64, {}),
    ("mobilenetv3_small_100", 64, {}),
    ("convnext_atto", 64, {}),
    ("regnety_002", 64, {}),
    ("densenet121", 64, {"block_config": (3, 3, 3, 3)}),
    ("vovnet39a", 64, {}),
    ("dla34", 64, {}),
    ("res2net50_26w_4s", 64, {"layers": (1, 1, 1, 1)}),
    ("resnest14d", 64, {}),
    ("skresnet18", 64, {}),
    ("seresnet18", 64, {}),
    ("repvgg_a0", 64, {}),
    ("cspdarknet53", 64, {}),
    ("hrnet_w18_small", 64, {}),
    ("ghostnet_050", 64, {}),
    ("mixnet_s", 64, {}),
    ("xception41", 64, {}),
    ("nf_resnet26", 64, {}),
    ("hgnetv2_b0", 64, {}),
    ("poolformer_s12", 64, {}),
    ("starnet_s1", 64, {}),
    ("fasternet_t0", 64, {}),
    ("mambaout_femto", 64, {}),
)  # fmt: skip
TRANSFORMERS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("vit_tiny_patch16_224", 64, {"img_size": 64, "depth": 4}),
    ("deit_tiny_distilled_patch16_224", 64, {"img_size": 64, "depth": 4}),
    ("swin_tiny_patch4_window7_224", 64, {"img_size": 64, "window_size": 4, "embed_dim": 48, "depths": (2, 2, 2, 2), "num_heads": (2, 2, 4, 4)}),  # noqa: E501
    ("beit_base_patch16_224", 64, {"img_size": 64, "depth": 2, "embed_dim": 192, "num_heads": 3}),
    ("mixer_s32_224", 64, {"img_size": 64}),
    ("pvt_v2_b0", 64, {}),
    ("mobilevit_xxs", 64, {}),
    ("coatnet_nano_rw_224", 64, {"img_size": 64}),
    ("xcit_nano_12_p16_224", 64, {"img_size": 64, "depth": 4}),
    ("cait_xxs24_224", 64, {"img_size": 64, "depth": 4, "depth_token_only": 1}),
    ("twins_svt_small", 64, {"img_size": 64, "depths": (1, 1, 2, 1)}),
    ("levit_128s", 64, {"img_size": 64}),
    ("edgenext_xx_small", 64, {}),
    ("eva02_tiny_patch14_224", 56, {"img_size": 56, "depth": 3}),
    ("efficientformerv2_s0", 64, {"img_size": 64}),
)  # fmt: skip


def programs() -> Iterator[Program]:
    for name, size, arguments in (*CONVOLUTIONS, *TRANSFORMERS):
        yield Program(name, FAMILY, partial(build, name, **arguments), {"x": image(size)})
    yield Program("inception_v3", FAMILY, partial(settled, "inception_v3", 96), {"x": image(96)})
