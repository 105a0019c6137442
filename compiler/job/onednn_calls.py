"""What Inductor lets oneDNN do in one call, and in which order of its results.

**Nothing in place.** torch 2.11 has oneDNN add a convolution's result to a tensor that others still look at: an HRNet
answers 7.2 for 12.0.

**Conditions only where something is fused.** Whether something can be added in the same call is asked by comparing
sizes as tuples, which look at each pair of numbers even where there are more of one than of the other. That a batch
was not 64 when a bias of 64 channels was looked at becomes a condition on the code, which no range tells
(specialise/dynamic.py), and a program with dynamic dimensions would be refused. What isn't fused is right for every
size.

**Results in channels-last order**, as oneDNN gives them where weights are packed, which here they are whatever is
dynamic; torch 2.11 takes them for unpacked where a dimension is, and expects another order of images of one channel.

**One-dimensional convolutions**, too, which torch 2.11 can lower and run, but not trace: what it knows of their results
asks for an order of four dimensions.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from compiler.job.replaced import replaced


@contextlib.contextmanager
def installed() -> Iterator[None]:
    from torch._inductor import mkldnn_ir
    from torch._inductor.fx_passes import mkldnn_fusion, post_grad

    mkldnn_fusion._mkldnn_fusion_init()
    entries = {
        id(entry): entry
        for matcher in post_grad.pass_patterns
        for registered in matcher.patterns.values()
        for entry in registered
        if entry.extra_check.__module__ == mkldnn_fusion.__name__
    }
    checks = {key: entry.extra_check for key, entry in entries.items()}
    for entry in entries.values():
        in_place = "_is_valid_computation_binary_inplace" in entry.extra_check.__qualname__
        entry.extra_check = _never if in_place else _noting_what_holds(entry.extra_check)
    try:
        with replaced(mkldnn_ir, "is_contiguous_storage_and_layout", _never), _one_dimension():
            yield
    finally:
        for key, entry in entries.items():
            entry.extra_check = checks[key]


@contextlib.contextmanager
def _one_dimension() -> Iterator[None]:
    import torch
    from torch._prims_common import make_channels_last_strides_for
    from torch._subclasses import fake_impls

    operator = torch.ops.mkldnn._convolution_pointwise.default

    def result(mode: Any, _: Any, x: Any, weight: Any, bias: Any, *how: Any) -> Any:
        if x.dim() != 3:
            return NotImplemented
        padding, stride, dilation, groups, *_ = how
        with mode:
            like = torch.ops.aten.convolution.default(x, weight, bias, stride, padding, dilation, False, [0], groups)
            return like.new_empty_strided(like.shape, make_channels_last_strides_for(like.shape))

    fake_impls.register_op_impl(operator)(result)
    try:
        yield
    finally:
        fake_impls._deregister_op_impl(operator)


def _never(_: Any) -> bool:
    return False


def _noting_what_holds(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, but its conditions stay only where the answer is yes."""
    from torch._inductor.virtualized import V

    @functools.wraps(check)
    def checked(match: Any) -> Any:
        sizes = getattr(V.fake_mode, "shape_env", None)
        if sizes is None:
            return check(match)
        with sizes.suppress_guards():
            if not check(match):
                return False
        return check(match)

    return checked
