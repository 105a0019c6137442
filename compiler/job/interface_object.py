"""What is the same in every wrapper, compiled once: AOTInductor's C interface and the container behind it.

torch 2.11 pastes its text into each wrapper, where it is most of what g++ has to do: of MiniLM's wrapper 2.2 of 3.5 s,
of a small program's 2.5 of 3.0 s. Here it becomes an object of its own, beside the precompiled header of wrappers and
with their flags, which is linked into every artifact.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.job.replaced import replaced

if TYPE_CHECKING:
    from torch._inductor.cpp_builder import CppBuilder

# How such an object's name ends; `stoker-g++` lets it appear when it is whole.
SUFFIX = ".interface.o"
# Names the object to `stoker-g++`, which links it.
VARIABLE = "STOKER_INTERFACE"

HEADER = "torch/csrc/inductor/aoti_include/cpu.h"
DECLARED = """\
#include <torch/csrc/inductor/aoti_runtime/interface.h>
#include <torch/csrc/inductor/aoti_runtime/model_container.h>
#include <iostream>
#include <vector>
"""
BASE = "class torch::aot_inductor::AOTInductorModelBase<torch::aot_inductor::AOTInductorModel>;\n"


def without(wrapper_code: str) -> str:
    """A wrapper for a CPU that leaves to the object what is in it. Raises RuntimeError when it isn't torch's text."""
    before, found, after = wrapper_code.partition(_text())
    if not found:
        raise RuntimeError("the wrapper does not hold aoti_runtime/interface.cpp: this is not the torch it is made for")
    return f"{before}{DECLARED}extern template {BASE}{after}"


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Within, whoever needs the precompiled header of wrappers for CPUs gets the object, too, and links it."""
    from torch._inductor import codecache

    precompile = codecache._precompile_header

    def precompile_with_object(header: str, command: str, **options: Any) -> str:
        if header != HEADER:
            return precompile(header, command, **options)
        build = codecache._worker_compile_cpp

        def build_with_object(lock: str, builders: Sequence[CppBuilder]) -> None:
            (header_builder,) = builders
            path = header_builder.get_target_file_path().removesuffix(".gch")
            build(lock, (header_builder, _builder(path, options)))

        with replaced(codecache, "_worker_compile_cpp", build_with_object):
            path = precompile(header, command, **options)
        os.environ[VARIABLE] = str(_object_beside(path))
        return path

    with replaced(codecache, "_precompile_header", precompile_with_object):
        try:
            yield
        finally:
            os.environ.pop(VARIABLE, None)


@functools.cache
def _text() -> str:
    from torch._inductor import codegen

    return (Path(codegen.__file__).parent / "aoti_runtime/interface.cpp").read_text()


def _object_beside(header: str) -> Path:
    digest = hashlib.sha256((DECLARED + BASE + _text()).encode()).hexdigest()[:8]
    return Path(header).with_suffix(f".{digest}{SUFFIX}")


def _builder(header: str, options: dict[str, Any]) -> CppBuilder:
    from torch._inductor.cpp_builder import CppBuilder, CppTorchDeviceOptions

    target = _object_beside(header)
    source = target.with_suffix(".cpp")
    partial = source.with_suffix(f".{os.getpid()}")
    partial.write_text(f"#include <{HEADER}>\n{_text()}template {BASE}")
    partial.rename(source)
    how = CppTorchDeviceOptions(compile_only=True, **options)
    how.precompiled_header = header
    builder = CppBuilder(name=target.stem, sources=str(source), output_dir=str(target.parent), BuildOption=how)
    assert builder.get_target_file_path() == str(target)
    return builder
