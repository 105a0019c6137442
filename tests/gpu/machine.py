"""Facts of this machine, as one JSON object: what it has, and what the least that a GPU does takes here."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any


def first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"({error})"
    return (done.stdout or done.stderr).strip().split("\n")[-1]


def on_the_gpu(torch: Any) -> dict[str, Any]:
    from compiler.job import cuda

    torch.cuda.init()
    found: dict[str, Any] = {"facts": vars(cuda.facts("cuda:0"))}
    properties = torch.cuda.get_device_properties(0)
    found["total_memory"] = properties.total_memory
    found["free_memory"] = torch.cuda.mem_get_info(0)[0]
    x = torch.randn(1 << 26, device="cuda")
    y = torch.empty_like(x)
    found["copy_gb_per_second"] = round(2 * x.nbytes / timed(torch, lambda: y.copy_(x), 10) / 1e9, 0)
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    found["fp16_tflops"] = round(2 * 4096**3 / timed(torch, lambda: a @ a, 20) / 1e12, 0)
    small = torch.zeros(64, device="cuda")
    started = time.perf_counter()
    for _ in range(2000):
        small.add_(1)
    found["launch_us"] = round((time.perf_counter() - started) / 2000 * 1e6, 2)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        small.add_(1)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(100):
                small.add_(1)
    found["replay_of_100_us"] = round(timed(torch, graph.replay, 50) * 1e6, 1)
    started = time.perf_counter()
    for _ in range(200):
        graph.replay()
    found["replay_host_us"] = round((time.perf_counter() - started) / 200 * 1e6, 2)
    torch.cuda.synchronize()
    return found


def unusable(version: Path = Path("/proc/driver/nvidia/version")) -> str:
    """Why a machine that has NVIDIA's driver has no GPU for this CUDA; empty where there is no driver."""
    try:
        text = version.read_text()
    except OSError:
        return ""
    found = re.search(r"\s(\d{3,4})\.\d+", text)
    branch = found[1] if found else "unknown"
    if branch.isdigit() and int(branch) < 580:
        return (
            f"the driver is of branch {branch}: CUDA 13 needs 580 or newer, or, on data-centre GPUs, NVIDIA's "
            f"cuda-compat-13-0 in LD_LIBRARY_PATH"
        )
    return f"there is a driver of branch {branch}, and torch finds no GPU: CUDA_VISIBLE_DEVICES, or the container's"


def timed(torch: Any, what: Any, times: int) -> float:
    """Median seconds."""
    taken = []
    for _ in range(times + 2):
        torch.cuda.synchronize()
        started = time.perf_counter()
        what()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[2:])


def main() -> None:
    import torch

    from compiler.job import toolchain

    facts: dict[str, Any] = {
        "system": platform.platform(),
        "libc": " ".join(platform.libc_ver()),
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "cxx": first_line("g++", "-dumpfullversion"),
        "nvcc": first_line("nvcc", "--version") if shutil.which("nvcc") else "",
        "sanitizer": shutil.which("compute-sanitizer") or "",
        "driver": first_line("nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm", "--format=csv"),
        # Triton compiles its launcher against it.
        "python_headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)),
        "disk_free_gib": round(shutil.disk_usage(tempfile.gettempdir()).free / (1 << 30)),
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "march": toolchain.host_target()[0],
    }
    try:
        facts["cuda_headers"] = str(toolchain.cuda_home())
    except RuntimeError as error:
        facts["cuda_headers"] = f"({error})"
    facts["gpu"] = torch.cuda.is_available()
    if facts["gpu"]:
        facts.update(on_the_gpu(torch))
    elif why := unusable():
        facts["unusable"] = why
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
