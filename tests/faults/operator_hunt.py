"""Looks for operators that end the process, or read memory that isn't theirs, when eager runs them on odd arguments.

    python -m tests.faults.operator_hunt [NAME ...] [--output FILE]

torch's own table of sample inputs, and a few calls of what it lacks, lead to some 700 operators of ATen. Each is
called again with every argument exchanged in turn: indices and lengths that are negative or huge, NaN, infinities,
extreme sizes, other ranks and strides, no elements. It is called in a child, and its tensors lie at the edge of pages
that nobody may touch, so that a read beyond them is a death, too. Prints each operator that died or ran for too long,
with the arguments that did it, and which of those that survived are not in compiler/guards/known_operators.txt;
--output writes all of it as JSON. Exit code 1 when an operator died.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import functools
import itertools
import json
import mmap
import os
import resource
import signal
import sys
import time
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from compiler.guards import known

MEMORY_BYTES = 4 << 30  # that a child may map beyond what it has
CALL_SECONDS = 20
SAMPLES = 12  # of each line of torch's table
CALLS = 5  # of each operator: with different dtypes, ranks and numbers
DEATHS = 4  # of each operator that are looked for
INTEGERS = (-1, 0, 1, 7, 2**31 - 1, 2**40, 2**62, -(2**63))
FLOATS = (float("nan"), float("inf"), -float("inf"), 3e38, 0.0, -1.0)

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Call:
    """An operator with arguments that it takes."""

    operator: Any
    arguments: Arguments


@dataclass(frozen=True)
class Finding:
    operator: str
    outcome: str  # "SIGSEGV", or "ran too long"
    argument: str  # what was exchanged

    @property
    def by_value(self) -> bool:
        """Whether a client could do it: the values of a tensor, not what a program's author writes."""
        return "all " in self.argument or "its last element" in self.argument


def flat(value: Any) -> Iterator[Any]:
    """The leaves of nested arguments."""
    if isinstance(value, (tuple, list)):
        for element in value:
            yield from flat(element)
    elif isinstance(value, dict):
        yield from flat(list(value.values()))
    else:
        yield value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nested arguments with each leaf changed."""
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(element, change) for element in value)
    if isinstance(value, dict):
        return {name: mapped(element, change) for name, element in value.items()}
    return change(value)


class Calls:
    """A few calls of each operator, with different dtypes, ranks and numbers."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, Call]] = {}

    def add(self, operator: Any, args: Any, kwargs: Any) -> None:
        leaves = list(flat((args, kwargs)))
        if any(leaf.layout != torch.strided for leaf in leaves if isinstance(leaf, Tensor)):
            return
        some = self.of.setdefault(str(operator), {})
        form = repr([(leaf.dtype, leaf.dim()) if isinstance(leaf, Tensor) else leaf for leaf in leaves])
        if len(some) < CALLS and form not in some:
            copies = mapped((args, kwargs), lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf)
            some[form] = Call(operator, copies)


class Kernels(TorchDispatchMode):
    """Keeps calls of the operators that have kernels."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self._calls = calls

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator.namespace == "aten":
            self._calls.add(operator, args, kwargs or {})
        return operator(*args, **(kwargs or {}))


class Composites(TorchFunctionMode):
    """Keeps calls of the operators that are made of others, as exported programs have them."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self._calls = calls

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if is_composite(name):
            operator = getattr(torch.ops.aten, name)
            # What torch's Python functions take may be more than the operator does.
            with contextlib.suppress(Exception), torch._C.DisableTorchFunction():
                operator(*args, **kwargs)
                self._calls.add(operator, args, kwargs)
        return function(*args, **kwargs)


@functools.cache
def is_composite(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    if name.endswith("_") or not isinstance(packet, torch._ops.OpOverloadPacket):
        return False
    names = [getattr(packet, overload).name() for overload in packet.overloads()]
    return any(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
        for name in names
        if torch._C._dispatch_has_kernel(name)  # not TorchScript's own, on numbers
    )


def call_what_the_table_lacks(calls: Calls) -> None:
    """Operators of exported programs of which torch's table has no samples, or none that the operator itself takes."""
    ops = torch.ops.aten
    x, rows, image, volume = torch.rand(2, 4), torch.rand(5, 2, 4), torch.rand(1, 2, 6, 6), torch.rand(1, 2, 4, 4, 4)
    weight, index, steps = torch.rand(3, 2, 3, 3), torch.tensor([1, 0]), torch.rand(1, 2, 3)

    def gates(count: int) -> list[Tensor]:
        return [torch.rand(count * 3, 4), torch.rand(count * 3, 3), torch.rand(count * 3), torch.rand(count * 3)]

    heads = torch.rand(1, 2, 3, 8)
    for operator, *args in (
        (ops.conv1d, torch.rand(1, 2, 6), torch.rand(3, 2, 3), torch.rand(3), [1], [1], [1], 1),
        (ops.conv2d, image, weight, torch.rand(3), [1, 1], [1, 1], [1, 1], 1),
        (ops.conv2d, image, weight, None, [1, 1], "same", [1, 1], 1),
        (ops.conv3d, volume, torch.rand(3, 2, 3, 3, 3), None, [1] * 3, [1] * 3, [1] * 3, 1),
        (ops.conv_transpose1d, torch.rand(1, 2, 6), torch.rand(2, 3, 3), None, [2], [1], [1], 1, [1]),
        (ops.conv_transpose2d, image, torch.rand(2, 3, 3, 3), None, [2, 2], [1, 1], [1, 1], 1, [1, 1]),
        (ops.conv_transpose3d, volume, torch.rand(2, 3, 3, 3, 3), None, [2] * 3, [1] * 3, [1] * 3, 1, [1] * 3),
        (ops.max_pool1d, torch.rand(1, 2, 6), [2], [2], [0], [1], False),
        (ops.max_pool2d, image, [2, 2], [2, 2], [0, 0], [1, 1], False),
        (ops.max_pool3d, volume, [2] * 3, [2] * 3, [0] * 3, [1] * 3, False),
        (ops.adaptive_max_pool1d, torch.rand(1, 2, 6), [3]),
        (ops.adaptive_max_pool3d, volume, [2, 2, 2]),
        (ops.batch_norm, image, *[torch.rand(2)] * 4, False, 0.1, 1e-5, False),
        (ops.instance_norm, image, *[torch.rand(2)] * 4, True, 0.1, 1e-5, False),
        (ops._native_batch_norm_legit_no_training, image, *[torch.rand(2)] * 4, 0.1, 1e-5),
        (ops._fused_rms_norm, x, [4], torch.rand(4), 1e-5),
        (ops.broadcast_tensors, [x, torch.rand(4)]),
        (ops.cartesian_prod, [torch.rand(2), torch.rand(3)]),
        (
            ops.meshgrid,
            [torch.rand(2), torch.rand(3)],
        ),
        (ops.cdist, x, x, 2.0, None),
        (ops.dropout, x, 0.5, False),
        (ops.feature_dropout, x, 0.5, False),
        (ops.alpha_dropout, x, 0.5, False),
        (ops.feature_alpha_dropout, x, 0.5, False),
        (ops.native_dropout, x, 0.5, True),
        (ops.embedding_bag, x, index, torch.tensor([0, 1]), False, 0, False, None, False),
        (ops._embedding_bag, x, index, torch.tensor([0, 1]), False, 0, False, None, False),
        (ops.relu6, x),
        (ops.selu, x),
        (ops.rrelu, x, 0.1, 0.3, False),
        (ops.tensordot, x, x.T, [1], [0]),
        (ops.cosine_embedding_loss, x, x, torch.ones(2), 0.0, 1),
        (ops.kl_div, x, x, 1),
        (ops.hinge_embedding_loss, x, torch.ones(2, 4), 1.0, 1),
        (ops.l1_loss, x, x, 1),
        (ops.margin_ranking_loss, x, x, torch.ones(2, 4), 0.0, 1),
        (ops.multilabel_margin_loss, x, torch.zeros(2, 4, dtype=torch.int64), 1),
        (ops.nll_loss, x, index, None, 1, -100),
        (ops.nll_loss2d, image, torch.ones(1, 6, 6, dtype=torch.int64), None, 1, -100),
        (ops.nll_loss_nd, x, index, None, 1, -100),
        (ops.cross_entropy_loss, x, index, None, 1, -100, 0.0),
        (ops.poisson_nll_loss, x, x, True, False, 1e-8, 1),
        (ops.triplet_margin_loss, x, x, x, 1.0, 2.0, 1e-6, False, 1),
        (ops.lstm, rows, [steps, steps], gates(4), True, 1, 0.0, False, False, False),
        (ops.gru, rows, steps, gates(3), True, 1, 0.0, False, False, False),
        (ops.rnn_tanh, rows, steps, gates(1), True, 1, 0.0, False, False, False),
        (ops.rnn_relu, rows, steps, gates(1), True, 1, 0.0, False, False, False),
        (ops.lstm_cell, x, [torch.rand(2, 3), torch.rand(2, 3)], *gates(4)),
        (ops.gru_cell, x, torch.rand(2, 3), *gates(3)),
        (ops.rnn_tanh_cell, x, torch.rand(2, 3), *gates(1)),
        (ops.rnn_relu_cell, x, torch.rand(2, 3), *gates(1)),
        (ops._scaled_dot_product_attention_math, heads, heads, heads, None, 0.0, False),
        (ops._upsample_bicubic2d_aa, image, [3, 3], False, None, None),
        (ops._upsample_nearest_exact3d, volume, [3, 3, 3], None, None, None),
        (ops.col2im, torch.rand(1, 8, 25), [6, 6], [2, 2], [1, 1], [0, 0], [1, 1]),
        (ops.index_copy, x, 0, index, x),
        (ops.index_select, x, 1, index),
        (ops.scatter_add, x, 0, torch.zeros(2, 4, dtype=torch.int64), x),
        (ops.masked_fill, x, x > 0.5, 1.0),
        (ops.copy, x, x),
        (ops.lift_fresh_copy, x),
        (ops.detach_copy, x),
        (ops.glu, x, -1),
        (ops.swapaxes, x, 0, 1),
        (ops.swapdims, x, 0, 1),
        (ops.moveaxis, x, 0, 1),
        (ops.numpy_T, x),
        (ops.t, x),
        (ops.mT, x),
        (ops.adjoint, x),
        (ops.type_as, x, index),
        (ops.absolute, x),
        (ops.multiply, x, x),
        (ops.greater, x, x),
        (ops.less, x, x),
        (ops.greater_equal, x, x),
        (ops.less_equal, x, x),
        (ops.not_equal, x, x),
        (ops.concat, [x, x]),
        (ops.concatenate, [x, x]),
        (ops.clip, x, 0.1, 0.5),
        (ops.negative, x),
        (ops.fix, x),
        (ops.arctan, x),
        (ops.arctan2, x, x),
        (ops.arcsin, x),
        (ops.arccos, x),
        (ops.arctanh, x),
        (ops.special_expit, x),
        (ops.special_erf, x),
        (ops.special_expm1, x),
        (ops.special_log1p, x),
        (ops.special_softmax, x, 1),
        (ops.special_log_softmax, x, 1),
        (ops.special_logsumexp, x, [1]),
        (ops.det, torch.rand(3, 3)),
        (ops.slogdet, torch.rand(3, 3)),
        (ops.inverse, torch.rand(3, 3)),
        (ops.chain_matmul, [x, x.T]),
        (ops.__and__, x > 0.5, x > 0.2),
        (ops.__or__, x > 0.5, x > 0.2),
        (ops.__xor__, x > 0.5, x > 0.2),
        (ops.__lshift__, index, 1),
        (ops.__rshift__, index, 1),
        (ops.pairwise_distance, x, x, 2.0, 1e-6, False),
        (ops._weight_norm, x, torch.rand(2, 1), 0),
        (ops._weight_norm_interface, x, torch.rand(2, 1), 0),
        (ops._pack_padded_sequence, rows, torch.tensor([5, 3]), False),
        (ops._int_mm, torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 32, dtype=torch.int8)),
        (ops.rand_like, x),
        (ops.full_like, x, 1.0),
        (ops.hann_window, 8),
        (ops.hamming_window, 8),
        (ops.blackman_window, 8),
        (ops.istft, torch.rand(5, 4, dtype=torch.complex64), 8, None, None, None, True),
        (ops.fft_fftfreq, 8),
        (ops.fft_rfftfreq, 8),
        (ops.logspace, 0.0, 1.0, 5),
        (ops.bucketize, x, torch.rand(4).sort()[0]),
        (
            ops._transformer_encoder_layer_fwd,
            torch.rand(1, 3, 4),
            4,
            2,
            torch.rand(12, 4),
            torch.rand(12),
            torch.rand(4, 4),
            torch.rand(4),
            False,
            False,
            1e-5,
            *[torch.rand(4)] * 4,
            torch.rand(8, 4),
            torch.rand(8),
            torch.rand(4, 8),
            torch.rand(4),
        ),
        (
            ops._native_multi_head_attention,
            *[torch.rand(1, 3, 4)] * 3,
            4,
            2,
            torch.rand(12, 4),
            torch.rand(12),
            torch.rand(4, 4),
            torch.rand(4),
        ),
        (ops.complex, x, x),
        (ops.imag, torch.rand(2, 3, dtype=torch.complex64)),
        (ops.view_as_complex, torch.rand(3, 2)),
        (ops.grid_sampler, image, torch.rand(1, 3, 3, 2), 0, 0, False),
        (ops.grid_sampler, volume, torch.rand(1, 2, 2, 2, 3), 0, 0, False),
        (ops.affine_grid_generator, torch.rand(1, 2, 3), [1, 2, 4, 4], False),
        (ops._convolution, image, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, False, False),
        (ops._convolution_mode, image, weight, None, [1, 1], "same", [1, 1], 1),
        (ops.slow_conv3d, volume, torch.rand(3, 2, 3, 3, 3), [3] * 3, None, [1] * 3, [1] * 3),
        (ops.slow_conv_dilated2d, image, weight, [3, 3], None, [1, 1], [1, 1], [2, 2]),
        (ops.slow_conv_dilated3d, volume, torch.rand(3, 2, 3, 3, 3), [3] * 3, None, [1] * 3, [2] * 3, [2] * 3),
        (ops.slow_conv_transpose2d, image, torch.rand(2, 3, 3, 3), [3, 3], None, [1, 1], [0, 0], [0, 0], [1, 1]),
        (
            ops.slow_conv_transpose3d,
            volume,
            torch.rand(2, 3, 3, 3, 3),
            [3] * 3,
            None,
            [1] * 3,
            [0] * 3,
            [0] * 3,
            [1] * 3,
        ),
        (ops.thnn_conv2d, image, weight, [3, 3], None, [1, 1], [1, 1]),
        (ops.conv_tbc, rows, torch.rand(3, 4, 2), torch.rand(2), 1),
        (ops.ger, x[0], x[1]),
        (ops.linalg_matmul, x, x.T),
        (ops.matrix_power, torch.rand(3, 3), 2),
        (ops.orgqr, torch.rand(3, 2), torch.rand(2)),
        (ops.nuclear_norm, torch.rand(3, 3), False),
        (ops.frobenius_norm, x, [1], False),
        (ops.norm_except_dim, x, 2, 0),
        (ops.vander, torch.rand(3), 3, False),
        (ops.row_stack, [x, x]),
        (ops._stack, [x, x], 0),
        (ops.mH, x),
        (ops.matrix_H, x),
        (ops.special_erfc, x),
        (ops.special_erfinv, x),
        (ops._is_all_true, x > 0.5),
        (ops._is_any_true, x > 0.5),
        (ops._unsafe_index, x, [index]),
        (ops._unsafe_index_put, x, [index], x, False),
        (ops.unsafe_split_with_sizes, x, [1, 3], 1),
        (ops._unique, x, True, True),
        (ops.unique_dim, x, 0, True, True, True),
        (ops.unique_dim_consecutive, x, 0, True, True),
        (ops.native_channel_shuffle, torch.rand(1, 4, 2, 2), 2),
        (ops._masked_softmax, x, x > 0.5, 1, 0),
        (ops._grouped_mm, torch.rand(2, 8, 16).bfloat16(), torch.rand(2, 16, 8).bfloat16()),
        (
            ops._weight_int8pack_mm,
            torch.rand(2, 32).bfloat16(),
            torch.ones(16, 32, dtype=torch.int8),
            torch.rand(16).bfloat16(),
        ),
        (ops._pad_circular, torch.rand(1, 2, 6), [1, 1]),
        (ops._pad_enum, torch.rand(1, 2, 6), [1, 1], 1),
        (ops.pad_sequence, [x, x], True, 0.0),
        (ops._pad_packed_sequence, torch.rand(8, 4), torch.tensor([2, 2, 2, 1, 1]), False, 0.0, 5),
        (ops._euclidean_dist, x, x),
        (ops._add_relu, x, x),
        (ops._addmm_activation, torch.rand(2), x, torch.rand(4, 2)),
        (ops.bartlett_window, 8),
        (ops.kaiser_window, 8),
        (ops.range, 0, 5),
        (ops._shape_as_tensor, x),
        (ops.is_nonzero, torch.ones(())),
        (ops.flatten_dense_tensors, [x, x]),
        (ops._reshape_alias, x, [4, 2], [2, 1]),
        (ops._cummax_helper, x, torch.zeros(2, 4), torch.zeros(2, 4, dtype=torch.int64), 1),
    ):
        operator(*args)
        calls.add(operator, tuple(args), {})


def record() -> dict[str, list[Call]]:
    """Operator → calls, from torch's table of sample inputs."""
    # The table imports it for the base class of torch's own tests.
    stand_in = types.ModuleType("expecttest")
    stand_in.__dict__["TestCase"] = unittest.TestCase
    sys.modules.setdefault("expecttest", stand_in)
    from torch.testing._internal.common_methods_invocations import op_db

    kernels, composites = Calls(), Calls()
    for number, info in enumerate(op_db, 1):
        show(f"reading samples of {number} of {len(op_db)}: {info.name}")
        for dtype in {torch.float32, torch.int64, torch.bool} & info.supported_dtypes("cpu"):
            for sample in samples(info, dtype):
                with Kernels(kernels), Composites(composites), torch.no_grad(), contextlib.suppress(Exception):
                    info.op(sample.input, *sample.args, **sample.kwargs)
    call_what_the_table_lacks(composites)
    tried = {**composites.of, **kernels.of}
    return {name: list(calls.values()) for name, calls in sorted(tried.items())}


def samples(info: Any, dtype: torch.dtype) -> Iterator[Any]:
    """Some of the table's inputs; of a line that needs what isn't installed, those up to there."""
    with contextlib.suppress(Exception):
        yield from itertools.islice(info.sample_inputs("cpu", dtype), SAMPLES)


def filled(tensor: Tensor, value: float, last_only: bool) -> Tensor:
    copy = tensor.clone()
    place = copy.view(-1)[-1:] if last_only else copy
    if not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool):
        limits = torch.iinfo(tensor.dtype)
        value = max(limits.min, min(limits.max, int(value)))
    place.fill_(value)
    return copy


def odd_tensors(tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    inexact = tensor.is_floating_point() or tensor.is_complex()
    values = FLOATS if inexact else (True, False) if tensor.dtype == torch.bool else INTEGERS
    for value in values:
        if tensor.numel() and tensor.is_contiguous():
            yield f"all {value}", filled(tensor, value, last_only=False)
            yield f"its last element {value}", filled(tensor, value, last_only=True)
    yield "no elements", tensor.new_empty((0, *tensor.shape[1:]))
    yield "rank 0", tensor.new_zeros(())
    yield "one rank more", tensor.unsqueeze(0)
    if tensor.dim():
        yield "its first row", tensor[:1].clone()
        yield "three times the rows", torch.cat([tensor] * 3)
        yield "transposed", tensor.transpose(0, -1)
        yield "expanded", tensor[:1].expand(tensor.shape)
    if not tensor.is_complex():
        yield "integers", tensor.to(torch.int64)
        yield "floats", tensor.to(torch.float32)


def odd(value: Any) -> Iterator[tuple[str, Any]]:
    """What a leaf of the arguments may be exchanged for."""
    if isinstance(value, Tensor):
        yield from odd_tensors(value)
    elif isinstance(value, bool):
        yield str(not value), not value
    elif isinstance(value, int):
        yield from ((str(other), other) for other in INTEGERS if other != value)
    elif isinstance(value, float):
        yield from ((str(other), other) for other in FLOATS)


def variants(call: Call) -> Iterator[tuple[str, Arguments]]:
    """As it was recorded, or with a flag turned, and with each leaf exchanged."""
    bases = [("", call.arguments)]
    for place, leaf in enumerate(flat(call.arguments)):
        if isinstance(leaf, bool):
            bases.append((f"argument {place}: {not leaf}, ", exchanged(call.arguments, place, not leaf)))
    for flag, base in bases:
        yield f"{flag}as recorded", base
        for place, leaf in enumerate(flat(base)):
            for what, other in odd(leaf):
                yield f"{flag}argument {place}: {what}", exchanged(base, place, other)


def exchanged(arguments: Arguments, place: int, other: Any) -> Any:
    """The arguments with one leaf exchanged."""
    numbers = itertools.count()
    return mapped(arguments, lambda leaf: other if next(numbers) == place else leaf)


class Edge:
    """Moves tensors to where they end, or begin, beside a page that nobody may touch. Their memory is never given
    back: children are short-lived."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def move(self, tensor: Any, at_end: bool) -> Any:
        if not isinstance(tensor, Tensor) or tensor.numel() == 0 or tensor.dim() == 0:
            return tensor
        extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        used = extent * tensor.element_size()
        pages = -(-used // mmap.PAGESIZE) * mmap.PAGESIZE
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        size = pages + 2 * mmap.PAGESIZE
        start = self._libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0)
        if start in (None, ctypes.c_void_p(-1).value):
            raise MemoryError
        first = start + mmap.PAGESIZE
        self._libc.mprotect(start, mmap.PAGESIZE, 0)
        self._libc.mprotect(first + pages, mmap.PAGESIZE, 0)
        place = first + (pages - used if at_end else 0)
        moved = torch.frombuffer((ctypes.c_char * used).from_address(place), dtype=tensor.dtype)
        moved.copy_(tensor.as_strided((extent,), (1,)))
        return moved.as_strided(tensor.shape, tensor.stride())


def run_all(work: list[tuple[Call, str, Arguments]], first: int, progress: mmap.mmap) -> None:
    """In a child: every call from `first` on, its number written before it is made."""
    faulthandler.disable()
    torch.set_num_threads(1)  # those of OpenMP are the parent's
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * mmap.PAGESIZE + MEMORY_BYTES,) * 2)
    edge = Edge()
    for number in range(first, len(work)):
        call, _, arguments = work[number]
        for at_end in (True, False):
            progress[0:8] = number.to_bytes(8, "little")
            try:
                args, kwargs = mapped(arguments, partial(edge.move, at_end=at_end))
                for leaf in flat(call.operator(*args, **kwargs)):
                    if isinstance(leaf, Tensor) and leaf.numel() < 1 << 24:
                        leaf.clone()  # of a view, everything is read
            except BaseException:  # refused, as it should be
                continue
    os._exit(0)


def watch(pid: int, progress: mmap.mmap) -> str:
    """Waits for the child; returns how it ended, or "" when it did all."""
    last, since = progress[0:8], time.monotonic()
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else ""
        if progress[0:8] != last:
            last, since = progress[0:8], time.monotonic()
        elif time.monotonic() - since > CALL_SECONDS:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "ran too long"
        time.sleep(0.001)


def hunt(calls: list[Call]) -> list[Finding]:
    """What ends a child among the odd calls of one operator."""
    work = [(call, what, arguments) for call in calls for what, arguments in variants(call)]
    findings: list[Finding] = []
    progress = mmap.mmap(-1, 8)
    first = 0
    while first < len(work) and len(findings) < DEATHS:
        progress[0:8] = first.to_bytes(8, "little")
        pid = os.fork()
        if pid == 0:
            run_all(work, first, progress)
        outcome = watch(pid, progress)
        if not outcome:
            break
        number = int.from_bytes(progress[0:8], "little")
        findings.append(Finding(str(calls[0].operator), outcome, work[number][1]))
        first = number + 1
    return findings


def show(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:110.110}", end="", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="operators whose name has it, as in segment_reduce")
    parser.add_argument("--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    calls = {
        name: found
        for name, found in record().items()
        if not options.names or any(wanted in name for wanted in options.names)
    }
    findings = []
    for number, (name, found) in enumerate(calls.items(), 1):
        show(f"{number} of {len(calls)}: {name}")
        for finding in hunt(found):
            findings.append(finding)
            print(f"{finding.operator:50} {finding.outcome:12} {finding.argument}", flush=True)
    led_astray = {finding.operator for finding in findings}
    print(f"{len(led_astray)} of {len(calls)} operators")
    unlisted = sorted(name for name in set(calls) - led_astray if not known.is_known(name.split(".")[1]))
    if unlisted:
        print(f"survived, and not in {known.FILE.name}: {', '.join(unlisted)}")
    if options.output:
        results = {"findings": [asdict(finding) for finding in findings], "tried": list(calls), "unlisted": unlisted}
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
