"""Which compiler builds the artifacts, for which instruction set, and where its caches lie."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

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
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


def select_target(march: str, simdlen: int, scratch: Path) -> None:
    """Makes Inductor, in this process, build for `march` with vectors of `simdlen` bits."""
    from torch._inductor import codecache, config, cpu_vec_isa

    check_target(march, simdlen)
    os.environ["STOKER_MARCH"] = march
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


@functools.cache
def _vector_isas() -> list:
    """The plain vector extensions of the levels: the newer ones (VNNI, AMX) are in none of them."""
    from torch._inductor import cpu_vec_isa

    return [cpu_vec_isa.VecAVX512(), cpu_vec_isa.VecAVX2()]


@functools.cache
def compiler_name() -> str:
    """The compiler as the daemon names it in keys (server/runner/toolchain.cc): "g++ 12.2.0"."""
    answer = subprocess.run([str(WRAPPER), "-dumpfullversion"], capture_output=True, text=True, check=True)
    return f"{Path(os.environ.get('STOKER_CXX') or 'g++').name} {answer.stdout.strip()}"


@functools.cache
def compiler_version() -> str:
    """The first line of the compiler's --version."""
    answer = subprocess.run([str(WRAPPER), "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.splitlines()[0]


def describe(march: str, simdlen: int) -> dict[str, str | int]:
    """The manifest's record of what built an artifact."""
    import torch

    return {
        "torch": torch.__version__,
        "torch_git": torch.version.git_version,
        "cxx": compiler_version(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "march": march,
        "simdlen": simdlen,
    }


def check_needed(library: Path) -> None:
    """Raises RuntimeError when a built artifact would load more than a CPU server has."""
    needed = needed_libraries(library)
    if "libtorch_cpu.so" not in needed:
        raise RuntimeError(f"{library.name}: expected it to need libtorch_cpu.so, got {sorted(needed)}")
    foreign = {
        n for n in needed if re.match(r"libtorch\.so|libtorch_(cuda|python)|libc10_cuda|libcuda|libcudart", n)
    }
    if foreign:
        raise RuntimeError(f"{library.name}: needs {sorted(foreign)}, which a CPU server has no use for")


def needed_libraries(library: Path) -> set[str]:
    """The DT_NEEDED entries of a shared library."""
    answer = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True)
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", answer.stdout))
