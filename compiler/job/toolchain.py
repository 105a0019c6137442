"""Which compiler builds the artifacts, for which instruction set, and where its caches lie."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from compiler.job import cuda

WRAPPER = Path(__file__).with_name("stoker-g++")

# Widths in bits of the vectors that Inductor can write code for; 0 is scalar code.
SIMD_WIDTHS = (0, 256, 512)
# x86-64 levels and the widest vectors each of them has.
LEVELS = {"x86-64": 0, "x86-64-v2": 0, "x86-64-v3": 256, "x86-64-v4": 512}
# What a level asks for beyond its vectors is left to the daemon, which reads CPUID.
LEVEL_FLAGS = (("x86-64-v4", "avx512bw"), ("x86-64-v3", "avx2"), ("x86-64-v2", "sse4_2"))


def check_target(march: str, simdlen: int) -> None:
    """Raises ValueError for a target that would produce code the level can't run."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", march):
        raise ValueError(f"march: expected a name such as x86-64-v3, got {march!r}")
    if simdlen not in SIMD_WIDTHS:
        raise ValueError(f"simdlen: expected one of {SIMD_WIDTHS}, got {simdlen}")
    if march in LEVELS and simdlen > LEVELS[march]:
        raise ValueError(f"simdlen: {march} has vectors of {LEVELS[march]} bits, got {simdlen}")


def host_target() -> tuple[str, int]:
    """The level of this machine, to set up caches before the first job says what it wants."""
    flags: set[str] = set()
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("flags"):
                flags = set(line.split(":", 1)[1].split())
                break
    level = next((level for level, flag in LEVEL_FLAGS if flag in flags), "x86-64")
    return level, LEVELS[level]


def prepare_environment(scratch: Path) -> None:
    """Points Inductor at its folder. Call before torch is imported.

    The folder holds code that ends up in artifacts: nobody else may write to it.
    """
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(scratch / "inductor")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["MKL_NUM_THREADS"] = "1"
    cuda.hide()


def select_target(march: str, simdlen: int, scratch: Path) -> None:
    """Makes Inductor, in this process, build for `march` with vectors of `simdlen` bits."""
    from torch._inductor import codecache, config, cpu_vec_isa

    check_target(march, simdlen)
    os.environ["STOKER_MARCH"] = march
    os.environ.pop("STOKER_CUDA_STUB", None)
    config.cpp.cxx = (str(WRAPPER),)
    config.cpp.simdlen = simdlen
    # Probing costs two compiles and two imports of torch, and looks at this machine, not the target.
    config.cpp.vec_isa_ok = True
    cpu_vec_isa.valid_vec_isa_list = _vector_isas

    # The header's name says nothing of -march and other flags, which only the compiler wrapper knows.
    # Inductor's own choice of folder is a predictable name under the system's temporary folder.
    flags = hashlib.sha256(WRAPPER.read_bytes()).hexdigest()[:8]
    headers = str(scratch / "headers" / f"{march}-{flags}")
    if codecache._HEADER_DIR != headers:
        codecache._HEADER_DIR = headers
        codecache._HEADER_LOCK_DIR = os.path.join(headers, "locks")
        codecache._precompile_header.cache_clear()


def select_cuda(scratch: Path) -> None:
    """Makes Inductor, in this process, build for CUDA. Raises RuntimeError when headers are missing."""
    from torch.utils import cpp_extension

    home = cuda_home()
    cpp_extension.CUDA_HOME = str(home)
    # CUDA 13 has a folder for the C++ core libraries, which nvcc knows of and g++ doesn't.
    if (core := home / "include" / "cccl").is_dir():
        os.environ["CUDA_INC_PATH"] = str(core)
    os.environ["STOKER_CUDA_STUB"] = str(_driver_stub(scratch))


CUDA_HEADERS = ("cuda.h", "cuda_runtime.h", "crt/host_defines.h", "cuda_fp16.h")


def cuda_home() -> Path:
    """A folder whose include/ holds CUDA's headers: the wheels' beside torch, which are of its version, or a
    toolkit's. Raises RuntimeError, naming the places, when there is none."""
    import torch

    major = (torch.version.cuda or "0").split(".")[0]
    nvcc = shutil.which("nvcc")
    places = [
        Path(torch.__file__).parents[1] / "nvidia" / f"cu{major}",
        *(Path(value) for name in ("CUDA_HOME", "CUDA_PATH") if (value := os.environ.get(name))),
        *([Path(nvcc).resolve().parents[1]] if nvcc else []),
        Path("/usr/local/cuda"),
    ]
    for place in places:
        if all((place / "include" / header).is_file() for header in CUDA_HEADERS) and any(
            (place / "include" / nv / "nv" / "target").is_file() for nv in (".", "cccl")
        ):
            return place
    raise RuntimeError(
        f"no headers of CUDA {torch.version.cuda} in {', '.join(map(str, places))}: install its toolkit, or the "
        "packages nvidia-cuda-runtime, nvidia-cuda-crt and nvidia-cuda-cccl of that version"
    )


def _driver_stub(scratch: Path) -> Path:
    """An empty library of the driver's name: artifacts are linked against it, so that they ask for the
    driver when they are opened, and a machine without one can build them."""
    stub = scratch / "cuda" / "libcuda.so"
    if not stub.exists():
        stub.parent.mkdir(parents=True, exist_ok=True)
        partial = stub.with_name(f"libcuda.so.{os.getpid()}")
        command = [os.environ.get("STOKER_CXX") or "g++", "-shared", "-nostdlib", "-Wl,-soname,libcuda.so.1"]
        subprocess.run([*command, "-x", "c", "/dev/null", "-o", str(partial)], check=True, capture_output=True)
        partial.rename(stub)
    return stub


@functools.cache
def _vector_isas() -> list:
    """The plain vector extensions of the levels: the newer ones (VNNI, AMX) are in none of them."""
    from torch._inductor import cpu_vec_isa

    return [cpu_vec_isa.VecAVX512(), cpu_vec_isa.VecAVX2()]


@functools.cache
def compiler_name() -> str:
    """The compiler as the daemon names it in keys (server/runner/toolchain.cc): "g++ 12"."""
    answer = subprocess.run([str(WRAPPER), "-dumpfullversion"], capture_output=True, text=True, check=True)
    return f"{Path(os.environ.get('STOKER_CXX') or 'g++').name} {answer.stdout.strip().partition('.')[0]}"


@functools.cache
def compiler_version() -> str:
    """The first line of the compiler's --version."""
    answer = subprocess.run([str(WRAPPER), "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.splitlines()[0]


def describe(march: str, simdlen: int, device: str = "cpu") -> dict[str, str | int]:
    """The manifest's record of what built an artifact."""
    import torch

    return {
        "torch": torch.__version__,
        "torch_git": torch.version.git_version,
        "cxx": compiler_version(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "march": march,
        "simdlen": simdlen,
        **(_describe_gpu(device) if device != "cpu" else {}),
    }


def _describe_gpu(device: str) -> dict[str, str | int]:
    found = cuda.facts(device)
    ptxas = Path(str(metadata.distribution("triton").locate_file("triton"))) / "backends/nvidia/bin/ptxas"
    answer = ""
    with contextlib.suppress(OSError):
        answer = subprocess.run([str(ptxas), "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"release [\d.]+, (V[\d.]+)", answer)
    return {
        "device": found.name,
        "arch": found.arch,
        "sms": found.sms,
        "memory_gib": found.memory_gib,
        "driver": found.driver,
        "cuda": found.toolkit,
        "triton": found.triton,
        "ptxas": release.group(1) if release else "",
    }


def check_needed(library: Path, on_gpu: bool = False) -> None:
    """Raises RuntimeError when a built artifact would load more, or less, than its server has."""
    needed = needed_libraries(library)
    wanted = ("libtorch_cpu.so", "libtorch_cuda.so", "libcuda.so.1") if on_gpu else ("libtorch_cpu.so",)
    for name in wanted:
        if name not in needed:
            raise RuntimeError(f"{library.name}: expected it to need {name}, got {sorted(needed)}")
    others = r"libtorch\.so|libtorch_python|libnvrtc|libcublas|libcudnn|libcufft"
    if not on_gpu:
        others += r"|libtorch_cuda|libc10_cuda|libcuda|libcudart"
    if foreign := {name for name in needed if re.match(others, name)}:
        kind = "GPU" if on_gpu else "CPU"
        raise RuntimeError(f"{library.name}: needs {sorted(foreign)}, which a {kind} server has no use for")


def needed_libraries(library: Path) -> set[str]:
    """The DT_NEEDED entries of a shared library."""
    answer = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True)
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", answer.stdout))
