"""Looks for operators that end the process, or read memory that isn't theirs, when eager runs them on odd arguments.

    python -m tests.faults.operator_hunt [NAME ...] [--output FILE]

torch's own table of sample inputs leads to some 500 operators of ATen. Each is called again with every argument
exchanged in turn: indices and lengths that are negative or huge, NaN, infinities, extreme sizes, other ranks and
strides, no elements. It is called in a child, and its tensors lie at the edge of pages that nobody may touch, so
that a read beyond them is a death, too. Prints each operator that died or ran for too long, with the arguments
that did it; --output writes them as JSON. Exit code 1 when there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
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
from torch.utils._python_dispatch import TorchDispatchMode

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


class Recorder(TorchDispatchMode):
    """Keeps a few calls of every operator of ATen that is called within."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, dict[str, Call]] = {}

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves = list(flat((args, kwargs)))
        dense = all(leaf.layout == torch.strided for leaf in leaves if isinstance(leaf, Tensor))
        if operator.namespace == "aten" and dense:
            known = self.calls.setdefault(str(operator), {})
            form = repr([(leaf.dtype, leaf.dim()) if isinstance(leaf, Tensor) else leaf for leaf in leaves])
            if len(known) < CALLS and form not in known:
                copies = mapped((args, kwargs), lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf)
                known[form] = Call(operator, copies)
        return operator(*args, **kwargs)


def record() -> dict[str, list[Call]]:
    """Operator → calls, from torch's table of sample inputs."""
    # The table imports it for the base class of torch's own tests.
    stand_in = types.ModuleType("expecttest")
    stand_in.__dict__["TestCase"] = unittest.TestCase
    sys.modules.setdefault("expecttest", stand_in)
    from torch.testing._internal.common_methods_invocations import op_db

    recorder = Recorder()
    for number, info in enumerate(op_db, 1):
        show(f"reading samples of {number} of {len(op_db)}: {info.name}")
        for dtype in {torch.float32, torch.int64, torch.bool} & info.supported_dtypes("cpu"):
            for sample in samples(info, dtype):
                with recorder, torch.no_grad(), contextlib.suppress(Exception):
                    info.op(sample.input, *sample.args, **sample.kwargs)
    return {name: list(calls.values()) for name, calls in sorted(recorder.calls.items())}


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
    print(f"{len({finding.operator for finding in findings})} of {len(calls)} operators")
    if options.output:
        options.output.write_text(json.dumps([asdict(finding) for finding in findings], indent=1) + "\n")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
