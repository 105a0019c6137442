"""Operators beyond torch's own: what the compiler knows of those that the server has in C++, and how it comes to know
those of a library of somebody's own.

Here they are never run, only asked what their results look like: of the server's own by what is written below, of
others by their library's kernels for meta tensors. What a program says of a result's shape is not believed: code made
for it would read beyond a smaller result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor
    from torch.fx import Node

Size = Any  # an int or a torch.SymInt

# Of the namespaces that torch itself fills, or that it makes up while it compiles.
TORCHS_OWN = frozenset(
    "aten prims quantized quantized_decomposed _quantized higher_order inductor _inductor_test mkldnn mkl onednn "
    "profiler".split()
)


class LibraryError(RuntimeError):
    """A library of operators is not the one that the server has, or can't be opened here."""


def _nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    import torch

    boxes = dets.shape[0]
    most = boxes if isinstance(boxes, int) else None
    return dets.new_empty([torch.library.get_ctx().new_dynamic_size(min=0, max=most)], dtype=torch.int64)


def _roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: Size, pooled_width: Size,
    sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    return input.new_empty([rois.shape[0], input.shape[1], pooled_height, pooled_width])


def _ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: Size, pooled_width: Size, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    import torch

    channels = input.shape[1] // (pooled_height * pooled_width)
    shape = [rois.shape[0], channels, pooled_height, pooled_width]
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int32)


def _deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: Size, stride_w: Size,
    pad_h: Size, pad_w: Size, dilation_h: Size, dilation_w: Size, groups: Size, offset_groups: Size, use_mask: bool,
) -> Tensor:  # fmt: skip
    def extent(axis: int, stride: Size, padding: Size, dilation: Size) -> Size:
        return (input.shape[axis] + 2 * padding - dilation * (weight.shape[axis] - 1) - 1) // stride + 1

    height, width = extent(2, stride_h, pad_h, dilation_h), extent(3, stride_w, pad_w, dilation_w)
    return input.new_empty([input.shape[0], weight.shape[0], height, width])


def _grouped_mm_fallback(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    return input.new_empty([input.shape[0], weight.shape[2]])


# Those of server/runner/vision_operators.cc and grouped_mm.cc, under the same schemas.
OWN: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "torchvision::nms": ("(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", _nms),
    "torchvision::roi_align": (
        (
            "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
            "int sampling_ratio, bool aligned) -> Tensor"
        ),
        _roi_align,
    ),
    "torchvision::ps_roi_align": (
        (
            "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
            "int sampling_ratio) -> (Tensor, Tensor)"
        ),
        _ps_roi_align,
    ),
    "torchvision::deform_conv2d": (
        (
            "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
            "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
            "bool use_mask) -> Tensor"
        ),
        _deform_conv2d,
    ),
    "transformers::grouped_mm_fallback": (
        "(Tensor input, Tensor weight, Tensor offs) -> Tensor",
        _grouped_mm_fallback,
    ),
}

# torchvision asks whether it was built for GPUs before it calls any of them, and export keeps the question.
QUESTION = "torchvision::_cuda_version"

_kept: list[Any] = []  # torch forgets what it was told when the teller is gone


def is_known(name: str) -> bool:
    """`name`: "torchvision::nms". Whether torch has an operator of that name in this process."""
    import torch

    return bool(torch._C._jit_get_schemas_for_operator(name))


def declare() -> None:
    """Makes the server's own known to torch, in this process, and those that torch itself registers from Python; those
    that are known stay as they are."""
    import torch
    import torch.ao.quantization.fx._decomposed  # quantized_decomposed

    for name, (schema, fake) in OWN.items():
        if not is_known(name):
            library, _, operator = name.partition("::")
            _kept.append(torch.library.Library(library, "FRAGMENT"))
            _kept[-1].define(operator + schema)
            torch.library.register_fake(name, fake, lib=_kept[-1])
    if not is_known(QUESTION):
        _kept.append(torch.library.Library("torchvision", "FRAGMENT"))
        _kept[-1].define("_cuda_version() -> int")


def load(libraries: Mapping[str, tuple[Path, str]]) -> None:
    """Opens libraries of somebody's own: the file and its SHA-256 by the name of its operators. Raises LibraryError."""
    import torch

    for name, (path, digest) in libraries.items():
        try:
            with open(path, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != digest:
                raise LibraryError(f"{path} has changed since the server opened it: it was {digest}, and is {found}")
            torch.ops.load_library(str(path))
        except OSError as error:
            raise LibraryError(f"can't open the operators of {name}: {error}") from None


def is_question(node: Node) -> bool:
    """Whether nothing in the graph depends on what the node answers."""
    return str(node.target) == f"{QUESTION.replace('::', '.')}.default" and not node.users


def is_of_a_library(target: Any) -> bool:
    """Whether a node's target is an operator that torch itself doesn't have."""
    import torch

    return isinstance(target, torch._ops.OpOverload) and target.namespace not in TORCHS_OWN
