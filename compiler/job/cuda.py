"""The GPU that a job compiles for: what it is, whether there is room on it, and how a process comes to it.

A process that has called CUDA can't hand it on by a fork. So the warm parent sees no device at all, asks
NVML, not the driver, whether there is one, and each job's child opens the device for itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    import torch

VISIBLE = "CUDA_VISIBLE_DEVICES"
DEVICE = re.compile(r"cpu|cuda:(0|[1-9][0-9]{0,2})")

# Bytes that a compile needs on the device whatever the program is: CUDA's context, Triton's scratch for
# flushing caches between measurements, cuBLAS' workspace.
CONTEXT_BYTES = 1 << 30
# Kernels are measured on made-up operands, a kernel at a time: its inputs, its outputs, and copies of what it
# changes. The largest tensor of the graph stands for each of them.
LARGEST_TENSORS = 4
# CUDA's own host memory, on top of what a job may use: what it has for any device, and for each GiB of one, whose
# page tables are on the host.
HOST_BYTES = 2 << 30
HOST_BYTES_A_GIB = 32 << 20
# Of a device whose memory the job doesn't say: the largest that there are.
LARGEST_GIB = 288

_visible: list[str | None] = []  # what VISIBLE said before `hide`


class NoRoom(RuntimeError):
    """There is too little free memory on the device."""


def check_name(device: str) -> None:
    """Raises ValueError for what is no device."""
    if not DEVICE.fullmatch(device):
        raise ValueError(f"device: expected cpu or cuda:N, got {device!r}")


def hide() -> None:
    """Has this process, and those that it forks, see no device. Call before torch is imported."""
    if not _visible:
        _visible.append(os.environ.get(VISIBLE))
    os.environ[VISIBLE] = ""
    # Otherwise torch.cuda.is_available() opens the driver, which no forked process could then use.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"


@contextlib.contextmanager
def left_alone() -> Iterator[None]:
    """Within, nothing calls the driver. torch counts devices where a mode of fake tensors begins and believes
    that there are none, and asks for the current one's name for its caches; either would be remembered in every
    forked process."""
    import torch

    def refuse() -> None:
        raise RuntimeError("no device is opened here")

    with (
        mock.patch.object(torch._C, "_ensureCUDADeviceGuardSet", lambda: None),
        mock.patch.object(torch.cuda, "_lazy_init", refuse),
    ):
        yield


def open_device(device: str) -> str:
    """Makes the device this process' own; returns what it is called here. Raises RuntimeError, naming it, when that
    can't be done.

    A process that saw none so far sees this one alone, as cuda:0: no other number can get into an artifact, which
    may be opened on another device of the same kind.
    """
    import torch

    if _visible and not torch.cuda.is_initialized():
        os.environ[VISIBLE] = only(_visible[0], device)
        device = "cuda:0"
    _forget_absence()
    try:
        torch.cuda.init()
        torch.cuda.set_device(torch.device(device))
    except Exception as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise RuntimeError(f"{device} can't be opened ({VISIBLE}={os.environ.get(VISIBLE, '')}): {reason}") from error
    return device


def only(visible: str | None, device: str) -> str:
    """CUDA_VISIBLE_DEVICES with the one device that `device` is among those of `visible`."""
    index = int(device.removeprefix("cuda:"))
    if visible is None:
        return str(index)
    names = [name.strip() for name in visible.split(",") if name.strip()]
    if index >= len(names):
        raise RuntimeError(f"{device} can't be opened: {VISIBLE} names {len(names)}, it is {visible!r}")
    return names[index]


def _forget_absence() -> None:
    """The warm parent has found out, and remembers, that there is no GPU."""
    from torch._dynamo import device_interface
    from torch._inductor import codecache, select_algorithm
    from torch._inductor import utils as inductor_utils
    from torch.utils import _triton

    for module in (_triton, inductor_utils):
        for value in list(vars(module).values()):
            if hasattr(value, "cache_clear") and hasattr(value, "__wrapped__"):
                value.cache_clear()
    codecache.CacheBase.get_system.cache_clear()
    codecache.CacheBase.get_local_cache_path.cache_clear()
    select_algorithm._ALGORITHM_SELECTOR_CACHE = None
    device_interface._device_initialized = False


@dataclass(frozen=True)
class Facts:
    """What the code for a device depends on, in the words of an artifact's key."""

    arch: str
    sms: int
    memory_gib: int
    driver: str
    toolkit: str
    triton: str
    name: str  # for people

    def factors(self) -> dict[str, str]:
        return {
            "cuda.arch": self.arch,
            "cuda.sms": str(self.sms),
            "cuda.memory_gib": str(self.memory_gib),
            "cuda.driver": self.driver,
            "cuda.toolkit": self.toolkit,
            "triton": self.triton,
        }


def facts(device: str) -> Facts:
    """Reads them; the device is open."""
    import torch

    properties: Any = torch.cuda.get_device_properties(torch.device(device))
    return Facts(
        arch=f"sm_{properties.major}{properties.minor}",
        sms=properties.multi_processor_count,
        memory_gib=round(properties.total_memory / (1 << 30)),
        driver=driver_branch(),
        toolkit=torch.version.cuda or "",
        triton=metadata.version("triton"),
        name=properties.name,
    )


def driver_branch() -> str:
    """The driver's major version, such as 580. Raises RuntimeError when nothing tells it."""
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text()
        if found := re.search(r"(?:Module|x86_64)\s+(\d+)\.\d", text):
            return found.group(1)
    with contextlib.suppress(OSError, AttributeError):
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        version = ctypes.create_string_buffer(96)
        if nvml.nvmlInit_v2() == 0:
            told = nvml.nvmlSystemGetDriverVersion(version, len(version)) == 0
            nvml.nvmlShutdown()
            if told:
                return version.value.decode().split(".")[0]
    raise RuntimeError("neither /proc/driver/nvidia/version nor libnvidia-ml.so.1 tells the driver's version")


def check_facts(found: Facts, factors: dict[str, str]) -> None:
    """Raises RuntimeError, naming both sides, where the device is not the one that the key is for."""
    wrong = [
        f"{name} is {value}, the job asks for {factors[name]}"
        for name, value in found.factors().items()
        if name in factors and factors[name] != value
    ]
    if wrong:
        raise RuntimeError(f"{found.name} is not the device of this job: " + "; ".join(wrong))


def host_bytes(factors: dict[str, str]) -> int:
    """What CUDA takes of the host for the device that the job is for."""
    return HOST_BYTES + HOST_BYTES_A_GIB * int(factors.get("cuda.memory_gib", LARGEST_GIB))


def check_room(device: str, largest_tensor: int) -> None:
    """Raises NoRoom, with the arithmetic, when measuring kernels would not fit beside what is served."""
    import torch

    free, total = torch.cuda.mem_get_info(torch.device(device))
    needed = CONTEXT_BYTES + LARGEST_TENSORS * largest_tensor
    if needed > free:
        raise NoRoom(
            f"out of memory on {device}: a compile needs about {_mib(needed)} ({_mib(CONTEXT_BYTES)} for CUDA "
            f"and {LARGEST_TENSORS} x {_mib(largest_tensor)}, the graph's largest tensor), "
            f"{_mib(free)} of {_mib(total)} are free"
        )


def _mib(size: int) -> str:
    return f"{-(-size // (1 << 20))} MiB"


@contextlib.contextmanager
def weights_told_apart() -> Iterator[None]:
    """Within, Inductor takes two constants for one only when they are the same object: it would compare
    where they lie, and constants without memory lie nowhere."""
    from torch._inductor import graph
    from torch._subclasses import FakeTensor

    compare = graph.is_same_tensor

    def is_same(data: torch.Tensor, value: torch.Tensor) -> bool:
        if isinstance(data, FakeTensor) or isinstance(value, FakeTensor):
            return data is value
        return compare(data, value)

    with mock.patch.object(graph, "is_same_tensor", is_same):
        yield
