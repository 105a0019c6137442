"""Holds server/ to its rooms: who may use whose types, through which doors (server/rooms.toml).

Pure text, no build needed. `violations` is also run on planted faults, so that this test cannot
pass by seeing nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
FLOORS = ("tools", "workshop", "shopfront")


@dataclass(frozen=True)
class Room:
    """A table of rooms.toml."""

    floor: str
    charter: str
    sees: tuple[str, ...]
    doors: frozenset[str] | None  # None: every header is one

    def may_use(self, header: str) -> bool:
        """Types of that header, however they came."""
        return header.split("/")[0] in self.sees or header in self.sees

    def rooms_seen(self) -> set[str]:
        """Wholly or in part."""
        return {entry.split("/")[0] for entry in self.sees}

    def has_door(self, header: str) -> bool:
        return self.doors is None or header.split("/", 1)[1] in self.doors


def read_rooms(text: str) -> dict[str, Room]:
    """The rooms in the order in which they stand there."""
    return {
        name: Room(
            floor=table["floor"],
            charter=table["charter"],
            sees=tuple(table["sees"]),
            doors=frozenset(table["doors"]) if "doors" in table else None,
        )
        for name, table in tomllib.loads(text).items()
    }


ROOMS = read_rooms((REPOSITORY / "server/rooms.toml").read_text())


@dataclass(frozen=True)
class Fenced:
    """Third-party headers that only some rooms may see, directly or through other headers."""

    name: str
    pattern: re.Pattern[str]
    rooms: frozenset[str]


FENCED = (
    Fenced("torch or CUDA", re.compile(r"(torch|ATen|c10|caffe2|cuda|nvrtc|cub|thrust)(/|[a-z_]*\.h)"),
           frozenset({"runner"})),
    Fenced("gRPC", re.compile(r"(grpc|grpcpp)/|.*\.grpc\.pb\.h$"), frozenset({"rpc", "main"})),
    Fenced(
        "protobuf",
        re.compile(r"google/protobuf/|.*\.pb\.h$"),
        frozenset({"repository", "rpc", "main", "telemetry"}),
    ),
    Fenced("OpenSSL", re.compile(r"openssl/"), frozenset({"access", "base", "kernel_cache", "wire"})),
    Fenced("nghttp2", re.compile(r"nghttp2/"), frozenset({"wire"})),
    Fenced("llhttp", re.compile(r"llhttp\.h"), frozenset({"wire"})),
    Fenced("simdjson", re.compile(r"simdjson\.h"), frozenset({"rpc"})),
    Fenced("prometheus-cpp", re.compile(r"prometheus/"), frozenset({"metrics"})),
)

# CUDA, and torch's half of it, are in what becomes libstoker_cuda.so: stokerd links neither.
CUDA = re.compile(r"(cuda|ATen/cuda|c10/cuda|nvml|nvrtc)[a-z_]*(/|\.h)|torch/csrc/.*_cuda\.h|runner/cuda/")
CUDA_FOLDER = "runner/cuda/"
CUDA_ROOM = "runner_cuda"

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
# What is for people, for files or for other machines; all else is a duration, of Clock::Now().
WALL_TIME = re.compile(
    r"\bWallNow\s*\(|\bsystem_clock\b|\b(gettimeofday|time)\s*\(\s*(nullptr|NULL|0|&)|\bCLOCK_REALTIME\b"
)
WALL_TIME_FILES = {
    "access/gate.cc",  # validity of tokens
    "base/clock.cc",
    "base/clock.h",
    "base/step_proof_waits.cc",  # asks to be told of steps
    "ctl/cache_commands.cc",  # ages of files
    "ctl/policy_commands.cc",  # validity of tokens
    "main/daemon.cc",  # likewise
    "metrics/recent_refusals.cc",
    "models/pipeline_version.cc",  # "last_inference" of a step's model
    "models/published_states.cc",  # the metric of when it was ready
    "models/work_told.h",  # spans
    "rpc/infer_call.cc",  # "last_inference" of the protocol
    "status/status.cc",
    "telemetry/timeline_recorder.cc",  # when a recording began
    "wire/http_connection.cc",  # the header Date
    "wire/tls_context.cc",  # validity of certificates
}
REAL_TIME = re.compile(r"\babsl::(Now|GetCurrentTimeNanos|SleepFor)\s*\(")
# Templates that made a third of the object code while every file had its own copy.
COMPILED_ONCE = (
    (re.compile(r"<(spdlog|fmt)/|\"(spdlog|fmt)/"), "base/log.h",
     {"base/log.h", "base/log.cc", "main/main.cc", "ctl/main.cc"}),
    (re.compile(r"\b[Jj]son::parse\s*\(|\.dump\("), "base/json_text.h",
     {"base/json_text.cc", "program/json_cursor.cc", "status/status_json.cc", "ctl/status_command.cc"}),
)  # fmt: skip
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CMAKE_ROOM = re.compile(r"\broom\s*\((.*?)\)", re.DOTALL)
# Libraries of their own, for who needs that part of a room only.
PARTS = {
    "client_channel": "rpc", "control_client": "rpc",
    "health_client": "rpc", "metrics_page": "metrics", CUDA_ROOM: "runner", "toolchain": "runner",
    "verdict": "promotion", "yaml": "base",
}
# A type that a header declares, also inside another one.
DECLARED = re.compile(
    r"^[ \t]*(?:(?:class|struct|enum|enum[ \t]+class)[ \t]+(?:ABSL_\w+[ \t]+)?(\w+)[^;{()]*\{|using[ \t]+(\w+)[ \t]*=)",
    re.MULTILINE,
)
OUTERMOST = re.compile(r"^(?:class|struct|enum class)[ \t]+(\w+)[^;{()]*\{", re.MULTILINE)
TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"')
# Neither what another name or an object leads to, `Batch::Slot` or `options.Kind`, nor a call.
NAME = re.compile(r"(?<![\w:.>])[A-Z]\w+\b(?!\()")
CMAKE_SECTIONS = {"NAME", "SRCS", "DEPS", "LIBS", "PRIVATE_LIBS"}


def sources(server: Path) -> list[Path]:
    """Every C++ file of the rooms."""
    return sorted(p for p in server.rglob("*") if p.suffix in {".h", ".cc", ".cpp", ".hpp", ".inc"})


def includes(path: Path) -> list[tuple[str, str]]:
    """(quote, target) of each include line."""
    return INCLUDE.findall(path.read_text())


@cache
def code(path: Path) -> str:
    """A file without comments, include lines and texts."""
    return TEXT.sub('""', INCLUDE.sub("", COMMENT.sub("", path.read_text())))


def homes(server: Path) -> dict[str, str]:
    """The header that declares a type of its room's; not of names that other files declare too."""
    files: dict[str, set[str]] = defaultdict(set)
    outermost: dict[str, str] = {}
    for path in sources(server):
        name = path.relative_to(server).as_posix()
        for first, second in DECLARED.findall(code(path)):
            files[first or second].add(name)
        if path.suffix == ".h":
            outermost |= dict.fromkeys(OUTERMOST.findall(code(path)), name)
    return {declared: header for declared, header in outermost.items() if files[declared] == {header}}


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


def include_violations(name: str, path: Path, server: Path, rooms: dict[str, Room]) -> Iterator[str]:
    """What is wrong with a file's own includes."""
    room = name.split("/")[0]
    for quote, target in includes(path):
        first = target.split("/")[0]
        if first in rooms and "/" in target:
            if first != room and not rooms[room].may_use(target):
                yield f"{name}: includes {target}, but {room} may not see {first}"
            elif first != room and not rooms[first].has_door(target):
                yield f"{name}: includes {target}, which is no door of {first}"
            if quote == "<":
                yield f"{name}: includes <{target}>, expected quotes"
            if not (server / target).is_file():
                yield f"{name}: includes {target}, which does not exist"
        elif quote == '"' and (path.parent / target).exists():
            yield f'{name}: includes "{target}", expected a path from server/'


def file_violations(path: Path, server: Path, rooms: dict[str, Room], types: dict[str, str]) -> Iterator[str]:
    """What is wrong with one file's includes, types and calls."""
    name = path.relative_to(server).as_posix()
    room = name.split("/")[0]
    if room not in rooms or "/" not in name:
        yield f"{name}: is in no known room"
        return
    yield from include_violations(name, path, server, rooms)
    for used in sorted(set(NAME.findall(code(path)))):
        home = types.get(used, name)
        if not home.startswith(f"{room}/") and not rooms[room].may_use(home):
            yield f"{name}: uses {used} of {home}, but {room} may not see {home.split('/')[0]}"
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
    for pattern, door, files in COMPILED_ONCE:
        if name not in files and (found := pattern.search(COMMENT.sub("", path.read_text()))):
            yield f"{name}: has {found[0]} compiled once more, expected {door}"
    if name not in WALL_TIME_FILES and WALL_TIME.search(COMMENT.sub("", path.read_text())):
        yield f"{name}: asks for the time of day, which others may step; durations are Clock::Now()'s"


def cmake_violations(server: Path, rooms: dict[str, Room]) -> Iterator[str]:
    """DEPS of the room() calls, held to the same rooms."""
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
                if of != room and (room not in rooms or of not in rooms[room].rooms_seen()):
                    yield f"{path.relative_to(server)}: {room} depends on {dep}, which it may not see"


def unused(server: Path, rooms: dict[str, Room]) -> Iterator[str]:
    """What rooms.toml allows and nobody does."""
    taken: dict[str, set[str]] = {name: set() for name in rooms}
    for path in sources(server):
        of = path.relative_to(server).parts[0]
        taken.setdefault(of, set()).update(t for _, t in includes(path) if t.split("/")[0] in rooms.keys() - {of})
    for name, room in rooms.items():
        for entry in room.sees:
            if not any(header == entry or header.split("/")[0] == entry for header in taken[name]):
                yield f"rooms.toml: {name} sees {entry}, and includes nothing of it"
        for door in sorted(room.doors or ()):
            if not any(f"{name}/{door}" in headers for headers in taken.values()):
                yield f"rooms.toml: {name} has the door {door}, which no other room includes"


def violations(server: Path, rooms: dict[str, Room] = ROOMS) -> list[str]:
    """Every broken rule below `server`."""
    types = homes(server)
    found = [v for path in sources(server) for v in file_violations(path, server, rooms, types)]
    return found + list(cmake_violations(server, rooms))


def test_server_is_layered() -> None:
    server = REPOSITORY / "server"
    assert {p.relative_to(server).parts[0] for p in sources(server)} == set(ROOMS)
    assert violations(server) == []
    assert list(unused(server, ROOMS)) == []


def test_the_rooms_stand_on_each_other() -> None:
    order = list(ROOMS)
    floors = [FLOORS.index(room.floor) for room in ROOMS.values()]
    assert floors == sorted(floors)
    for name, room in ROOMS.items():
        # They are written from the ground up.
        assert all(order.index(below) < order.index(name) for below in room.rooms_seen()), name


def test_every_room_has_a_charter_of_one_sentence() -> None:
    for name, room in ROOMS.items():
        assert re.fullmatch(r"[A-Z][^.?!]*( [^.?!]*)*\.", room.charter), name


def test_the_manual_says_what_the_rooms_are_for() -> None:
    manual = (REPOSITORY / "server/README.md").read_text()
    rows = re.findall(r"^\| (\w*) ?\| `(\w+)` \| (.*) \|$", manual, re.MULTILINE)
    said = {name: charter for _, name, charter in rows if name in ROOMS}
    assert said == {name: room.charter for name, room in ROOMS.items()}


def plant(server: Path, files: dict[str, str]) -> None:
    """Writes a small tree that keeps all rules, then `files`."""
    clean = {
        "base/clock.cc": "#include <time.h>\nauto t = absl::Now();\n",
        "base/clock.h": "#pragma once\n",
        "metrics/metrics.cc": '#include "prometheus/counter.h"\n#include "base/clock.h"\n',
        "runner/executable.h": '#pragma once\n#include "base/clock.h"\nclass Executable {};\n',
        "runner/private.h": "#pragma once\n#include <ATen/ATen.h>\n",
        "runner/executable.cc": '#include "runner/executable.h"\n#include "runner/private.h"\n',
        "models/model.h": '#pragma once\n#include "runner/executable.h"\n// not absl::Now()\n',
        "runner/cuda/gpu.cc": '#include "runner/executable.h"\n#include <cuda_runtime_api.h>\n',
        "rpc/server.h": "#pragma once\n#include <grpcpp/grpcpp.h>\n",
        # Names that aren't runner's: in a comment, in a text, of others, and calls.
        "rpc/server.cc": '#include "grpc_service.pb.h"\n#include "models/model.h"\n// An Executable.\n'
        'auto a = "Executable" + other::Executable() + it.Executable + Executable(1);\n',
        "main/main.cc": '#include "rpc/server.h"\n#include "models/model.h"\n',
        "models/CMakeLists.txt": "room(NAME models\n  SRCS model.cc\n  DEPS base runner LIBS x)\n",
    }
    for name, text in (clean | files).items():
        path = server / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# Those of the planted trees: one door, the rest is open.
PLANTED = {name: replace(room, doors=None) for name, room in ROOMS.items()}
PLANTED["runner"] = replace(ROOMS["runner"], doors=frozenset({"executable.h"}))


def test_a_clean_tree_passes(tmp_path: Path) -> None:
    plant(tmp_path, {})
    assert violations(tmp_path, PLANTED) == []


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
        ("models/x.cc", '#include "runner/private.h"', "which is no door of runner"),
        # Through models/model.h.
        ("rpc/x.cc", "Executable* executable;", "uses Executable of runner/executable.h"),
        ("rpc/x.h", "std::vector<Executable> all;", "uses Executable of runner/executable.h"),
        ("runner/executable.h", '#include "runner/private.h"', "models/model.h: sees ATen/ATen.h"),
        ("batching/x.cc", "#include <grpcpp/server.h>", "gRPC stays in main, rpc"),
        ("models/x.cc", '#include "grpc_service.pb.h"', "protobuf stays in main, repository, rpc, telemetry"),
        ("models/x.cc", "#include <google/protobuf/message.h>", "protobuf stays in main, repository, rpc, telemetry"),
        ("rpc/x.cc", "#include <nghttp2/nghttp2.h>", "nghttp2 stays in wire"),
        ("models/x.cc", "#include <prometheus/counter.h>", "prometheus-cpp stays in metrics"),
        ("status/x.cc", "#include <llhttp.h>", "llhttp stays in wire"),
        ("wire/x.cc", "#include <simdjson.h>", "simdjson stays in rpc"),
        ("status/x.cc", '#include "kernel_cache/k.h"', "status may not see kernel_cache"),
        ("models/x.cc", '#include "spdlog/spdlog.h"', "expected base/log.h"),
        ("models/x.cc", "auto j = nlohmann::json::parse(text);", "expected base/json_text.h"),
        ("models/x.cc", "return document.dump(2);", "expected base/json_text.h"),
        ("models/x.cc", "auto t = absl::Now();", "expected base/clock.h"),
        ("models/x.cc", "absl::SleepFor(absl::Seconds(1));", "expected base/clock.h"),
        ("models/x.cc", "auto t = clock.WallNow();", "asks for the time of day"),
        ("rpc/x.cc", "auto t = std::chrono::system_clock::now();", "asks for the time of day"),
        ("main/x.cc", "clock_gettime(CLOCK_REALTIME, &now);", "asks for the time of day"),
        ("main/x.cc", "auto t = time(nullptr);", "asks for the time of day"),
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
    assert [v for v in violations(tmp_path, PLANTED) if expected in v]


def test_what_is_allowed_and_not_used_is_found(tmp_path: Path) -> None:
    plant(tmp_path, {})
    found = list(unused(tmp_path, PLANTED))
    assert "rooms.toml: rpc sees batching/infer_task.h, and includes nothing of it" in found
    assert not [v for v in found if "rpc sees models" in v or "door executable.h" in v]
    shut = PLANTED | {"models": replace(ROOMS["models"], doors=frozenset({"model.h", "other.h"}))}
    assert "rooms.toml: models has the door other.h, which no other room includes" in list(unused(tmp_path, shut))
