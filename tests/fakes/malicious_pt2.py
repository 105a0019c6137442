"""Turns a good `.pt2` archive into one that attacks whoever loads it.

    python -m tests.fakes.malicious_pt2 KIND BASE.pt2 OUT.pt2 [--marker FILE]

Each kind spoils one thing and leaves the rest as torch wrote it. The kinds whose text says "runs"
carry a payload that creates the marker file (OUT.pt2.executed unless given): whoever loads the
archive and leaves no marker has not run it. Needs only the standard library.
"""

from __future__ import annotations

import argparse
import json
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

GRAPH = "models/model.json"
WEIGHTS_CONFIG = "data/weights/model_weights_config.json"
CONSTANTS_CONFIG = "data/constants/model_constants_config.json"
SAMPLE_INPUTS = "data/sample_inputs/model.pt"
ALIGNMENT = 64

Members = dict[str, bytes]  # by name, without the folder at the top


class _Payload:
    """Its pickle creates `marker` when it is loaded without restrictions."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.marker), "w")


def _pickled(marker: Path) -> bytes:
    return pickle.dumps(_Payload(marker), protocol=2)


def _expression(marker: Path) -> str:
    return f"open({str(marker)!r}, 'w')"


def _edit(members: Members, name: str, change: Callable[[Any], object]) -> None:
    content = json.loads(members[name])
    change(content)
    members[name] = json.dumps(content).encode()


def _first_weight(members: Members, change: Callable[[dict[str, Any]], object]) -> None:
    _edit(members, WEIGHTS_CONFIG, lambda c: change(next(iter(c["config"].values()))))


def sample_inputs(members: Members, marker: Path) -> None:
    """The sample inputs' pickle runs."""
    members[SAMPLE_INPUTS] = _pickled(marker)


def pickled_weight(members: Members, marker: Path) -> None:
    """A weight is flagged as pickled and runs."""
    members["data/weights/weight_99"] = _pickled(marker)
    _first_weight(members, lambda w: w.update(use_pickle=True, path_name="weight_99"))


def pickled_constant(members: Members, marker: Path) -> None:
    """A constant is flagged as pickled and runs."""
    _add_constant(members, "tensor_99", use_pickle=True)
    members["data/constants/tensor_99"] = _pickled(marker)


def custom_object(members: Members, marker: Path) -> None:
    """A constant is a custom object."""
    _add_constant(members, "custom_obj_0", use_pickle=True)
    members["data/constants/custom_obj_0"] = _pickled(marker)


def _add_constant(members: Members, path_name: str, use_pickle: bool) -> None:
    weights = json.loads(members[WEIGHTS_CONFIG])["config"]
    entry = dict(next(iter(weights.values())), path_name=path_name, is_param=False, use_pickle=use_pickle)
    _edit(members, CONSTANTS_CONFIG, lambda c: c["config"].update(extra=entry))


def legacy_weights(members: Members, marker: Path) -> None:
    """The weights are one pickle, as an older torch wrote them, and run."""
    del members[WEIGHTS_CONFIG]
    members["data/weights/model.pt"] = _pickled(marker)


def size_expression(members: Members, marker: Path) -> None:
    """A size is a Python expression that runs."""

    def change(program: dict[str, Any]) -> None:
        values = program["graph_module"]["graph"]["tensor_values"]
        user = program["graph_module"]["signature"]["input_specs"][-1]["user_input"]["arg"]["as_tensor"][
            "name"
        ]
        values[user]["sizes"][0] = {"as_expr": {"expr_str": _expression(marker), "hint": {"as_int": 2}}}

    _edit(members, GRAPH, change)


def guard(members: Members, marker: Path) -> None:
    """A guard is Python code that runs with the program."""
    _edit(members, GRAPH, lambda p: p.update(guards_code=[f"{_expression(marker)} is not None"]))


def node_name(members: Members, marker: Path) -> None:
    """A name in the graph ends an identifier of generated code, and what follows runs."""
    names = json.loads(members[GRAPH])["graph_module"]["graph"]["tensor_values"]
    name = list(names)[-1]
    evil = f"{name} = {_expression(marker)}; {name}"
    members[GRAPH] = members[GRAPH].replace(json.dumps(name).encode(), json.dumps(evil).encode())


def argument_name(members: Members, marker: Path) -> None:
    """An argument's name ends the signature of generated code, and what follows runs."""

    def change(program: dict[str, Any]) -> None:
        signature = program["graph_module"]["module_call_graph"][0]["signature"]
        signature["forward_arg_names"] = [f"x={_expression(marker)}" for _ in signature["forward_arg_names"]]

    _edit(members, GRAPH, change)


def operator(members: Members, marker: Path) -> None:
    """An operator is any function that torch's package leads to."""
    _edit(members, GRAPH, lambda p: _last_node(p).update(target="torch.os.system"))


def file_operator(members: Members, marker: Path) -> None:
    """An operator creates a file when the program is run."""

    def change(program: dict[str, Any]) -> None:
        node = _last_node(program)
        node["target"] = "torch.ops.aten.from_file.default"
        node["inputs"] = [
            {"name": "filename", "arg": {"as_string": str(marker)}, "kind": 1},
            {"name": "shared", "arg": {"as_bool": True}, "kind": 1},
            {"name": "size", "arg": {"as_int": 16}, "kind": 1},
        ]

    _edit(members, GRAPH, change)


def quoted_string(members: Members, marker: Path) -> None:
    """An operator's string argument ends a literal of generated C++ code."""

    def change(program: dict[str, Any]) -> None:
        _last_node(program)["inputs"].append(
            {"name": "approximate", "arg": {"as_string": '"); system("true"); ("'}, "kind": 2}
        )

    _edit(members, GRAPH, change)


def tree_module(members: Members, marker: Path) -> None:
    """The tree of outputs names a module to import."""

    def change(program: dict[str, Any]) -> None:
        signature = program["graph_module"]["module_call_graph"][0]["signature"]
        _, tree = json.loads(signature["out_spec"])
        factory = {"default_factory_module": "antigravity", "default_factory_name": "fly"}
        context = dict(factory, dict_context=json.loads(tree["context"]))
        tree.update(type="collections.defaultdict", context=context)
        signature["out_spec"] = json.dumps([1, tree])

    _edit(members, GRAPH, change)


def _last_node(program: dict[str, Any]) -> dict[str, Any]:
    return program["graph_module"]["graph"]["nodes"][-1]


def huge_weight(members: Members, marker: Path) -> None:
    """A weight claims more elements than its member holds."""
    _first_weight(
        members, lambda w: w["tensor_meta"].update(sizes=[{"as_int": 2**40}], strides=[{"as_int": 1}])
    )


def empty_weight(members: Members, marker: Path) -> None:
    """A weight without content claims a size, which torch then allocates."""
    members["data/weights/weight_99"] = b""
    _first_weight(
        members,
        lambda w: (
            w.update(path_name="weight_99"),
            w["tensor_meta"].update(sizes=[{"as_int": 2**38}], strides=[{"as_int": 1}]),
        ),
    )


def far_offset(members: Members, marker: Path) -> None:
    """A weight begins beyond the end of its member."""
    _first_weight(members, lambda w: w["tensor_meta"].update(storage_offset={"as_int": 2**30}))


def negative_stride(members: Members, marker: Path) -> None:
    """A weight runs backwards, out of its member."""
    _first_weight(members, lambda w: w["tensor_meta"]["strides"].__setitem__(0, {"as_int": -(2**20)}))


def wrong_shape(members: Members, marker: Path) -> None:
    """The graph expects a larger weight than the archive describes."""

    def change(program: dict[str, Any]) -> None:
        graph = program["graph_module"]
        spec = next(s for s in graph["signature"]["input_specs"] if "parameter" in s)
        meta = graph["graph"]["tensor_values"][spec["parameter"]["arg"]["name"]]
        meta["sizes"][0]["as_int"] += 1 << 20

    _edit(members, GRAPH, change)


def deep_json(members: Members, marker: Path) -> None:
    """The graph is nested too deeply for a recursive reader."""
    members[GRAPH] = b"[" * 200_000 + b"]" * 200_000


def missing_weight(members: Members, marker: Path) -> None:
    """A weight's member is not there."""
    _first_weight(members, lambda w: w.update(path_name="weight_404"))


def parent_name(members: Members, marker: Path) -> None:
    """A member's name leads out of the folder it is unpacked to."""
    members["../../escaped.txt"] = b"out"


def compressed(members: Members, marker: Path) -> None:
    """The graph is a compression bomb: a gigabyte of blanks (written by `build`)."""


def duplicate(members: Members, marker: Path) -> None:
    """One name stands twice in the archive (written by `build`)."""


def truncated(members: Members, marker: Path) -> None:
    """The second half of the file is missing (written by `build`)."""


KINDS: dict[str, Callable[[Members, Path], None]] = {
    f.__name__: f
    for f in (
        sample_inputs,
        pickled_weight,
        pickled_constant,
        custom_object,
        legacy_weights,
        size_expression,
        guard,
        node_name,
        argument_name,
        operator,
        file_operator,
        quoted_string,
        tree_module,
        huge_weight,
        empty_weight,
        far_offset,
        negative_stride,
        wrong_shape,
        deep_json,
        missing_weight,
        parent_name,
        compressed,
        duplicate,
        truncated,
    )
}


def build(kind: str, base: Path, out: Path, marker: Path | None = None) -> Path:
    """Writes the archive of `kind` made from `base`; returns the marker that its payload would create.

    `base` needs at least one weight and one operator.
    """
    marker = marker or out.with_name(out.name + ".executed")
    with zipfile.ZipFile(base) as archive:
        names = archive.namelist()
        root = names[0].partition("/")[0]
        members = {name.partition("/")[2]: archive.read(name) for name in names}
    KINDS[kind](members, marker)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            if kind == "compressed" and name == GRAPH:
                _write_bomb(archive, f"{root}/{name}")
            else:
                _write(archive, f"{root}/{name}", content)
        if kind == "duplicate":
            with warnings.catch_warnings(action="ignore"):
                _write(archive, f"{root}/{GRAPH}", members[GRAPH])
    if kind == "truncated":
        content = out.read_bytes()
        out.write_bytes(content[: len(content) // 2])
    return marker


def replace_member(base: Path, out: Path, member: str, content: bytes) -> Path:
    """Writes `base` with one member's content exchanged; returns `out`."""
    with zipfile.ZipFile(base) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            _write(target, name, content if name.partition("/")[2] == member else source.read(name))
    return out


def next_member(archive: zipfile.ZipFile, name: str, zip64: bool = False) -> zipfile.ZipInfo:
    """Where the next member goes: stored, its content aligned as torch's writer does."""
    info = zipfile.ZipInfo(name)
    assert archive.fp is not None
    start = archive.fp.tell() + 30 + len(name.encode()) + 4 + (20 if zip64 else 0)
    padding = -start % ALIGNMENT
    info.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
    return info


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(next_member(archive, name), content)


def _write_bomb(archive: zipfile.ZipFile, name: str) -> None:
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(info, "w") as member:
        for _ in range(1024):
            member.write(b" " * (1 << 20))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="kinds:\n" + "\n".join(f"  {name:17} {f.__doc__}" for name, f in KINDS.items()),
    )
    parser.add_argument("kind", choices=KINDS, metavar="KIND")
    parser.add_argument("base", type=Path, metavar="BASE.pt2")
    parser.add_argument("out", type=Path, metavar="OUT.pt2")
    parser.add_argument("--marker", type=Path)
    args = parser.parse_args()
    print(build(args.kind, args.base, args.out, args.marker))


if __name__ == "__main__":
    main()
