"""Nets for images, points and fields, written out."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from loadtest.coverage.program import B, Input, Program, floats, image


def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


class UNet(nn.Module):
    """Three resolutions, joined across; up by interpolation."""

    def __init__(self, width: int = 16, classes: int = 4) -> None:
        super().__init__()
        widths = (width, 2 * width, 4 * width)
        self.down = nn.ModuleList(convolution(i, o) for i, o in zip((3, *widths), widths, strict=False))
        self.up = nn.ModuleList(convolution(w + 2 * w, w) for w in widths[:-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        across = []
        for level, block in enumerate(self.down):
            image = block(F.max_pool2d(image, 2) if level else image)
            across.append(image)
        image = across.pop()
        for block in reversed(self.up):
            larger = F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False)
            image = block(torch.cat((larger, across.pop()), 1))
        return self.head(image)


class GridDetector(nn.Module):
    """Boxes and scores at every cell of a grid, the best sixty-four, and of those none over a better one."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(convolution(3, width, 2), convolution(width, width, 2), convolution(width, width, 2))
        self.head = nn.Conv2d(width, 5, 1)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        from torchvision.ops import nms

        grid = self.head(self.body(image[None]))[0]
        rows, columns = torch.meshgrid(torch.arange(grid.shape[1]), torch.arange(grid.shape[2]), indexing="ij")
        centres = torch.stack((columns, rows)).flatten(1).t() * 8.0 + 4.0
        offsets, extents, score = grid.flatten(1).t().split([2, 2, 1], 1)
        middle, half = centres + offsets.tanh() * 8, extents.exp() * 8
        best, places = score[:, 0].sigmoid().topk(64)
        boxes = torch.cat((middle - half, middle + half), 1)[places]
        kept = nms(boxes, best, 0.5)
        return {"boxes": boxes[kept], "scores": best[kept]}


class Autoencoder(nn.Module):
    """Strided convolutions down to a code, transposed ones back."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, width, 4, 2, 1), nn.GELU(), nn.Conv2d(width, 2 * width, 4, 2, 1),
                                    nn.GELU(), nn.Flatten(), nn.Linear(2 * width * 49, 32))  # fmt: skip
        self.decode = nn.Sequential(nn.Linear(32, 2 * width * 49), nn.Unflatten(1, (2 * width, 7, 7)), nn.GELU(),
                                    nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.GELU(),
                                    nn.ConvTranspose2d(width, 1, 4, 2, 1), nn.Sigmoid())  # fmt: skip

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        code = self.encode(image)
        return {"code": code, "image": self.decode(code)}


class Siamese(nn.Module):
    """Two images through the same net, and how alike they are."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.net = nn.Sequential(convolution(3, width, 2), convolution(width, 2 * width, 2),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 64))  # fmt: skip

    def forward(self, one: Tensor, other: Tensor) -> dict[str, Tensor]:
        first, second = self.net(one), self.net(other)
        return {"likeness": F.cosine_similarity(first, second), "distance": F.pairwise_distance(first, second)}


class CapsuleNet(nn.Module):
    """Primary capsules routed by agreement, three rounds, to one capsule a class; their lengths."""

    def __init__(self, classes: int = 10, width: int = 32) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 9), nn.ReLU(), nn.Conv2d(width, 32, 9, 2))
        self.votes = nn.Parameter(torch.randn(classes, 4 * 36, 16, 8) / 10)

    def forward(self, image: Tensor) -> Tensor:
        capsules = self.squash(self.stem(image).reshape(image.shape[0], -1, 8))
        votes = torch.einsum("kpod,bpd->bkpo", self.votes, capsules)
        agreement = torch.zeros_like(votes[..., :1])
        for _ in range(3):
            answer = self.squash((agreement.softmax(1) * votes).sum(2, keepdim=True))
            agreement = agreement + (votes * answer).sum(3, keepdim=True)
        return answer[:, :, 0].norm(dim=2)

    @staticmethod
    def squash(vectors: Tensor) -> Tensor:
        square = (vectors**2).sum(-1, keepdim=True)
        return vectors * square / (1 + square) / (square + 1e-8).sqrt()


class PointNet(nn.Module):
    """Points turned by a learned matrix, one net for each, and the strongest feature of all."""

    def __init__(self, width: int = 64, classes: int = 10) -> None:
        super().__init__()
        self.turn = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.matrix = nn.Linear(width, 9)
        self.each = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 4 * width), nn.ReLU())
        self.head = nn.Sequential(
            nn.Linear(4 * width, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, classes)
        )

    def forward(self, points: Tensor) -> Tensor:
        matrix = self.matrix(self.turn(points).amax(1)).reshape(-1, 3, 3) + torch.eye(3)
        return self.head(self.each(torch.bmm(points, matrix)).amax(1))


class FourierOperator(nn.Module):
    """Layers that multiply the lowest frequencies of a field, by FFT and back."""

    def __init__(self, width: int = 16, modes: int = 8, layers: int = 3) -> None:
        super().__init__()
        self.modes = modes
        self.enter, self.leave = nn.Conv2d(1, width, 1), nn.Conv2d(width, 1, 1)
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))
        shape = (layers, width, width, modes, modes, 2)
        self.low = nn.Parameter(torch.randn(shape) / width)

    def forward(self, field: Tensor) -> Tensor:
        hidden, modes = self.enter(field), self.modes
        for local, weights in zip(self.local, self.low, strict=True):
            spectrum = torch.fft.rfft2(hidden)
            low = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :modes, :modes], torch.view_as_complex(weights))
            rest = (0, spectrum.shape[3] - modes, 0, spectrum.shape[2] - modes)
            hidden = F.gelu(torch.fft.irfft2(F.pad(low, rest), s=hidden.shape[2:]) + local(hidden))
        return self.leave(hidden)


def programs() -> Iterator[Program]:
    def made(make: type[nn.Module], name: str, **inputs: Input) -> Program:
        return Program(name, "images and fields", make, inputs)

    yield made(UNet, "u_net", image=image(64))
    yield Program("grid_detector", "detection", GridDetector, {"image": floats(3, 96, 96)}, ({},),
                  "a detector answers with as many boxes as it finds in an image")  # fmt: skip
    yield made(Autoencoder, "autoencoder", image=image(28, 1))
    yield made(Siamese, "siamese", one=image(48), other=image(48))
    yield made(CapsuleNet, "capsule_net", image=image(28, 1))
    yield made(PointNet, "pointnet", points=floats(B, 256, 3))
    yield made(FourierOperator, "fourier_operator", field=image(32, 1))
