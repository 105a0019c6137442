"""Holds the include graph of server/ to the rooms' floors: calls go down the stairs only.

Pure text, no build needed. `violations` is also run on planted faults, so that this test cannot
pass by seeing nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

TOOLS = {"base", "metrics", "tensor"}
WORKSHOP = {"repository", "kernel_cache", "compile_broker", "runner", "promotion", "planning"}

# What each room may include besides the standard library, abseil and itself.
ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "metrics": {"base"},
    "tensor": {"base"},
    "repository": {"base", "tensor"},
    "kernel_cache": TOOLS,
    "compile_broker": TOOLS | {"kernel_cache"},
    "runner": TOOLS,
    "promotion": TOOLS | {"runner"},
    "planning": {"base", "tensor", "repository", "kernel_cache", "compile_broker", "runner", "promotion"},
    "batching": TOOLS,
    "models": TOOLS | WORKSHOP | {"batching"},
    "rpc": TOOLS | {"models"},
    "status": TOOLS | {"models"},
    "ctl": TOOLS | WORKSHOP | {"rpc"},
    "main": TOOLS | WORKSHOP | {"batching", "models", "rpc", "status"},
}


@dataclass(frozen=True)
class Fenced:
    """Third-party headers that only some rooms may see, directly or through other headers."""

    name: str
    pattern: re.Pattern[str]
    rooms: frozenset[str]


FENCED = (
    Fenced("torch or CUDA", re.compile(r"(torch|ATen|c10|caffe2|cuda|nvrtc|cub|thrust)(/|[a-z_]*\.h)"),
           frozenset({"runner"})),
    Fenced("gRPC or protobuf", re.compile(r"(grpc|grpcpp|google/protobuf)/|.*\.pb\.h$"),
           frozenset({"rpc", "main"})),
    Fenced("prometheus-cpp or civetweb", re.compile(r"prometheus/|(civetweb|CivetServer)\.h"), frozenset({"metrics"})),
)

# CUDA, and torch's half of it, are in what becomes libstoker_cuda.so: stokerd links neither.
CUDA = re.compile(r"(cuda|ATen/cuda|c10/cuda|nvml|nvrtc)[a-z_]*(/|\.h)|torch/csrc/.*_cuda\.h|runner/cuda/")
CUDA_FOLDER = "runner/cuda/"
CUDA_ROOM = "runner_cuda"

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
REAL_TIME = re.compile(r"\babsl::(Now|GetCurrentTimeNanos|SleepFor)\s*\(")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CMAKE_ROOM = re.compile(r"\broom\s*\((.*?)\)", re.DOTALL)
# Libraries of their own, for who needs that part of a room only.
PARTS = {
    "health_client": "rpc", "metrics_page": "metrics", CUDA_ROOM: "runner", "toolchain": "runner", "verdict": "promotion",
}
CMAKE_SECTIONS = {"NAME", "SRCS", "DEPS", "LIBS", "PRIVATE_LIBS"}


def sources(server: Path) -> list[Path]:
    """Every C++ file of the rooms."""
    return sorted(p for p in server.rglob("*") if p.suffix in {".h", ".cc", ".cpp", ".hpp", ".inc"})


def includes(path: Path) -> list[tuple[str, str]]:
    """(quote, target) of each include line."""
    return INCLUDE.findall(path.read_text())


def reachable(start: Path, server: Path) -> Iterator[str]:
    """Every include target that `start` sees, directly or through headers of ours."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for _, target in includes(waiting.pop()):
            if target in seen:
                continue
            seen.add(target)
            yield target
            if (server / target).is_file():
                waiting.append(server / target)


def file_violations(path: Path, server: Path) -> Iterator[str]:
    """What is wrong with one file's includes and calls."""
    name = path.relative_to(server).as_posix()
    room = name.split("/")[0]
    if room not in ALLOWED or "/" not in name:
        yield f"{name}: is in no known room"
        return
    for quote, target in includes(path):
        first = target.split("/")[0]
        if first in ALLOWED and "/" in target:
            if first != room and first not in ALLOWED[room]:
                yield f"{name}: includes {target}, but {room} may not see {first}"
            if quote == "<":
                yield f"{name}: includes <{target}>, expected quotes"
            if not (server / target).is_file():
                yield f"{name}: includes {target}, which does not exist"
        elif quote == '"' and (path.parent / target).exists():
            yield f'{name}: includes "{target}", expected a path from server/'
    for fenced in FENCED:
        if room in fenced.rooms:
            continue
        for target in reachable(path, server):
            if fenced.pattern.match(target):
                yield f"{name}: sees {target}, but {fenced.name} stays in {', '.join(sorted(fenced.rooms))}"
    if not name.startswith(CUDA_FOLDER):
        for target in reachable(path, server):
            if CUDA.match(target):
                yield f"{name}: sees {target}, but CUDA stays in {CUDA_FOLDER}"
    if room != "base" and REAL_TIME.search(COMMENT.sub("", path.read_text())):
        yield f"{name}: asks abseil for the time, expected base/clock.h"


def cmake_violations(server: Path) -> Iterator[str]:
    """DEPS of the room() calls, held to the same table."""
    for path in sorted(server.rglob("CMakeLists.txt")):
        for call in CMAKE_ROOM.findall(path.read_text()):
            sections: dict[str, list[str]] = {}
            section = ""
            for word in call.split():
                if word in CMAKE_SECTIONS:
                    section = word
                else:
                    sections.setdefault(section, []).append(word)
            name = sections.get("NAME", [""])[0]
            room = PARTS.get(name, name)
            for dep in sections.get("DEPS", []):
                if dep == CUDA_ROOM:
                    yield f"{path.relative_to(server)}: {name} depends on {dep}, which only libstoker_cuda.so links"
                of = PARTS.get(dep, dep)
                if of != room and of not in ALLOWED.get(room, set()):
                    yield f"{path.relative_to(server)}: {room} depends on {dep}, which it may not see"


def violations(server: Path) -> list[str]:
    """Every broken rule below `server`."""
    found = [v for path in sources(server) for v in file_violations(path, server)]
    return found + list(cmake_violations(server))


def test_server_is_layered() -> None:
    server = REPOSITORY / "server"
    assert {p.relative_to(server).parts[0] for p in sources(server)} == set(ALLOWED)
    assert violations(server) == []


def test_the_table_has_no_cycle() -> None:
    order = list(ALLOWED)
    for room, allowed in ALLOWED.items():
        assert room not in allowed
        # The table is written from the ground up.
        assert all(order.index(below) < order.index(room) for below in allowed)


def plant(server: Path, files: dict[str, str]) -> None:
    """Writes a small tree that keeps all rules, then `files`."""
    clean = {
        "base/clock.cc": "#include <time.h>\nauto t = absl::Now();\n",
        "base/clock.h": "#pragma once\n",
        "metrics/metrics.cc": '#include "prometheus/counter.h"\n#include "base/clock.h"\n',
        "runner/executable.h": '#pragma once\n#include "base/clock.h"\n',
        "runner/private.h": "#pragma once\n#include <ATen/ATen.h>\n",
        "runner/executable.cc": '#include "runner/executable.h"\n#include "runner/private.h"\n',
        "models/model.h": '#pragma once\n#include "runner/executable.h"\n// not absl::Now()\n',
        "runner/cuda/gpu.cc": '#include "runner/executable.h"\n#include <cuda_runtime_api.h>\n',
        "rpc/server.h": "#pragma once\n#include <grpcpp/grpcpp.h>\n",
        "rpc/server.cc": '#include "grpc_service.pb.h"\n#include "models/model.h"\n',
        "main/main.cc": '#include "rpc/server.h"\n#include "models/model.h"\n',
        "models/CMakeLists.txt": "room(NAME models\n  SRCS model.cc\n  DEPS base runner LIBS x)\n",
    }
    for name, text in (clean | files).items():
        path = server / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_clean_tree_passes(tmp_path: Path) -> None:
    plant(tmp_path, {})
    assert violations(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("base/x.h", '#include "metrics/m.h"', "base may not see metrics"),
        ("batching/x.cc", '#include "models/model.h"', "batching may not see models"),
        ("rpc/x.cc", '  #  include "runner/executable.h"', "rpc may not see runner"),
        ("models/x.cc", '#include "main/main.h"', "models may not see main"),
        ("models/x.cc", '#include "rpc/server.h"', "models may not see rpc"),
        ("runner/x.cc", '#include "kernel_cache/k.h"', "runner may not see kernel_cache"),
        ("models/x.cc", "#include <torch/torch.h>", "torch or CUDA stays in runner"),
        ("models/x.cc", "#include <cuda_runtime.h>", "torch or CUDA stays in runner"),
        ("models/x.cc", "#include <c10/util/Half.h>", "torch or CUDA stays in runner"),
        ("models/x.cc", '#include "runner/private.h"', "sees ATen/ATen.h"),
        ("runner/x.cc", "#include <cuda_runtime_api.h>", "CUDA stays in runner/cuda/"),
        ("runner/x.cc", "#include <c10/cuda/CUDAStream.h>", "CUDA stays in runner/cuda/"),
        ("runner/x.cc", '#include "runner/cuda/gpu.h"', "CUDA stays in runner/cuda/"),
        ("runner/CMakeLists.txt", "room(NAME runner SRCS a.cc DEPS runner_cuda)", "only libstoker_cuda.so links"),
        ("runner/executable.h", '#include "runner/private.h"', "models/model.h: sees ATen/ATen.h"),
        ("batching/x.cc", "#include <grpcpp/server.h>", "gRPC or protobuf stays in main, rpc"),
        ("models/x.cc", '#include "grpc_service.pb.h"', "gRPC or protobuf stays in main, rpc"),
        ("models/x.cc", "#include <google/protobuf/message.h>", "gRPC or protobuf stays in main, rpc"),
        ("models/x.cc", "#include <prometheus/counter.h>", "prometheus-cpp or civetweb stays in metrics"),
        ("status/x.cc", "#include <civetweb.h>", "prometheus-cpp or civetweb stays in metrics"),
        ("status/x.cc", '#include "kernel_cache/k.h"', "status may not see kernel_cache"),
        ("models/x.cc", "auto t = absl::Now();", "expected base/clock.h"),
        ("models/x.cc", "absl::SleepFor(absl::Seconds(1));", "expected base/clock.h"),
        ("models/x.cc", '#include "model.h"', "expected a path from server/"),
        ("models/x.cc", '#include "models/none.h"', "does not exist"),
        ("models/x.cc", "#include <runner/executable.h>", "expected quotes"),
        ("helpers/x.h", "#pragma once", "is in no known room"),
        ("x.h", "#pragma once", "is in no known room"),
        ("rpc/CMakeLists.txt", "room(NAME rpc SRCS a.cc\n  DEPS models runner LIBS y)", "rpc depends on runner"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, name: str, text: str, expected: str) -> None:
    plant(tmp_path, {name: text + "\n"})
    assert [v for v in violations(tmp_path) if expected in v]
