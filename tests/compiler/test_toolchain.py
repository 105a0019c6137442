"""The compiler that Inductor is given, and the instruction sets it may be asked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from compiler.job import toolchain


@pytest.fixture
def compiler_says(tmp_path: Path) -> list[str] | object:
    """Runs the wrapper around a compiler that prints its arguments."""
    shown = tmp_path / "echo"
    shown.write_text('#!/bin/sh\nfor argument in "$@"; do echo "$argument"; done\n')
    shown.chmod(0o755)

    def run(*arguments: str, march: str = "x86-64-v3", stub: str = "") -> list[str]:
        environment = {**os.environ, "STOKER_CXX": str(shown), "STOKER_MARCH": march, "STOKER_CUDA_STUB": stub}
        answer = subprocess.run(
            [str(toolchain.WRAPPER), *arguments], env=environment, capture_output=True, text=True, check=True
        )
        return answer.stdout.splitlines()

    return run


def test_the_instruction_set_is_the_jobs(compiler_says) -> None:
    given = ["-march=native", "-mavx512f", "-mavx512vnni", "-mamx-tile", "-mfma", "-O3", "a file.cpp"]
    assert compiler_says(*given) == ["-march=x86-64-v3", "-O3", "a file.cpp"]


def test_libtorch_and_cuda_are_not_linked(compiler_says) -> None:
    given = ["a.o", "-ltorch", "-ltorch_cpu", "-ltorch_cuda", "-lc10_cuda", "-lgomp"]
    assert compiler_says(*given) == ["a.o", "-ltorch_cpu", "-lgomp", "-lc10"]


def test_for_a_gpu_its_libraries_are_linked(compiler_says) -> None:
    given = ["a.o", "-ltorch", "-ltorch_cpu", "-lcuda", "-ltorch_cuda", "-lc10_cuda", "-lcudart"]
    keep, drop = "-Wl,--no-as-needed", "-Wl,--as-needed"
    expected = ["a.o", "-ltorch_cpu", keep, "/a b/libcuda.so", drop, keep, "-ltorch_cuda", drop]
    assert compiler_says(*given, stub="/a b/libcuda.so") == expected


def test_only_the_interface_of_an_artifact_is_exported(tmp_path: Path) -> None:
    source = tmp_path / "artifact.cpp"
    source.write_text('extern "C" int AOTInductorModelRun() { return 1; }\nint helper() { return 2; }\n')
    library = tmp_path / "artifact.so"
    subprocess.run([toolchain.WRAPPER, "-shared", "-fPIC", source, "-o", library], check=True)
    symbols = subprocess.run(["readelf", "--syms", "--wide", library], capture_output=True, text=True).stdout
    assert "AOTInductorModelRun" in symbols
    assert "helper" not in symbols and ".symtab" not in symbols


def test_without_arguments_nothing_is_added(compiler_says) -> None:
    assert compiler_says() == []


@pytest.mark.parametrize(
    ("march", "simdlen", "said"),
    [
        ("x86-64-v3", 512, "has vectors of 256 bits"),
        ("x86-64-v2", 256, "has vectors of 0 bits"),
        ("x86-64-v4", 128, "expected one of"),
        ("-O0", 0, "expected a name"),
        ("", 0, "expected a name"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(march: str, simdlen: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        toolchain.check_target(march, simdlen)


def test_this_machines_target_is_a_target() -> None:
    toolchain.check_target(*toolchain.host_target())


def test_the_libraries_of_an_artifact_are_checked(tmp_path: Path) -> None:
    source = tmp_path / "empty.cpp"
    source.write_text("int x;\n")
    library = tmp_path / "empty.so"
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    with pytest.raises(RuntimeError, match="expected it to need libtorch_cpu.so"):
        toolchain.check_needed(library)


@pytest.mark.parametrize(
    ("needed", "on_gpu", "said"),
    [
        ({"libtorch_cpu.so", "libc10.so"}, False, None),
        ({"libtorch_cpu.so", "libcuda.so.1"}, False, r"needs \['libcuda.so.1'\], which a CPU server"),
        ({"libtorch_cpu.so", "libtorch_cuda.so", "libcuda.so.1", "libcudart.so.13"}, True, None),
        ({"libtorch_cpu.so", "libcuda.so.1"}, True, "expected it to need libtorch_cuda.so"),
        ({"libtorch_cpu.so", "libtorch_cuda.so"}, True, "expected it to need libcuda.so.1"),
        ({"libtorch_cpu.so", "libtorch_cuda.so", "libcuda.so.1", "libtorch.so"}, True, "which a GPU server"),
    ],
)
def test_an_artifact_needs_what_its_server_has(
    monkeypatch: pytest.MonkeyPatch, needed: set[str], on_gpu: bool, said: str | None
) -> None:
    monkeypatch.setattr(toolchain, "needed_libraries", lambda library: needed)
    if said is None:
        toolchain.check_needed(Path("model.so"), on_gpu)
        return
    with pytest.raises(RuntimeError, match=said):
        toolchain.check_needed(Path("model.so"), on_gpu)
