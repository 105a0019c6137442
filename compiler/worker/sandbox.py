"""What a job is held to: the files that it needs, and limits of each of its processes."""

from __future__ import annotations

import contextlib
import glob
import math
import os
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from compiler.job import cuda, toolchain
from compiler.job.job import Job
from compiler.sandbox import landlock, places
from compiler.sandbox.confine import confine, opened

MAX_PROCESSES = 128  # of a job, whose compiler has five
MAX_FILE_BYTES = 4 << 30  # a precompiled header has 300 MB

SHARED = ("inductor", "headers", "cuda")  # of the scratch folder: what jobs leave to each other

GPU_READ = ("/proc/driver/nvidia", "/proc/devices", "/proc/modules", "/proc/sys/vm", "/sys")
GPU_DEVICES = "/dev/nvidia*"
MPS = "/tmp/nvidia-mps"  # where CUDA looks for the server by which processes share a GPU


class Sandbox:
    """Made once, in the parent: where all jobs may read is the same. Without `confined` jobs have their limits only."""

    def __init__(self, confined: bool = True) -> None:
        self._confined = confined
        self._read = [*places.python(), *places.toolchain(os.environ.get("STOKER_CXX") or "g++")]

    def enter(self, job: Job, work: Path) -> Job:
        """Confines this process, and all that it will start, for good; it can write to `work`. Returns the job as it is
        to be run in here. Raises OSError, also for a program that can't be read."""
        program, path = opened(job.program)
        _limit(job, os.fstat(program).st_size)
        if self._confined:
            confine([(program, landlock.READ_FILE), *self._rules(job, work)], devices=job.on_gpu)
        return replace(job, program=path)

    def _rules(self, job: Job, work: Path) -> Iterator[tuple[Path | int, int]]:
        shared = [job.scratch / name for name in SHARED]
        for folder in shared:
            folder.mkdir(mode=0o700, exist_ok=True)
        read = [*places.system(), *self._read, *([job.passes] if job.passes else [])]
        read += map(Path, job.operators.values())
        write = [work, job.stage, *shared]
        devices = list(places.DEVICES)
        if job.on_gpu:
            with contextlib.suppress(RuntimeError):  # the job will say which headers there are not
                read.append(toolchain.cuda_home())
            read += map(Path, GPU_READ)
            write.append(Path(MPS))
            devices += glob.glob(GPU_DEVICES)
        yield from ((place, landlock.READ) for place in read)
        yield from ((place, landlock.WRITE) for place in write)
        yield from ((Path(device), landlock.DEVICE) for device in devices)


def _limit(job: Job, mapped: int) -> None:
    """`mapped` bytes of weights are a private mapping, which counts as memory."""
    limits = {
        # A burst of allocations between two looks of the parent.
        resource.RLIMIT_DATA: job.memory_bytes + mapped + (cuda.host_bytes(job.factors) if job.on_gpu else 0),
        # One that outlives the parent ends too.
        resource.RLIMIT_CPU: math.ceil(job.timeout_seconds) * (os.cpu_count() or 1),
        resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
        resource.RLIMIT_CORE: 0,
    }
    for what, most in limits.items():
        _, hard = resource.getrlimit(what)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (limit, limit))
