"""A `.pt2` file can't make its reader run code, allocate absurdly or bind the wrong weights."""

from __future__ import annotations

import copy
import io
import json
import os
import random
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree

from compiler.guards import known
from compiler.program import limits
from compiler.program.archive import Archive, ArchiveError, MissingOperator, load_program
from compiler.program.graph_check import check_expression
from tests import models
from tests.fakes import malicious_pt2


class Net(torch.nn.Module):
    """Two tied weights, a buffer, a constant and a dynamic batch: every kind of binding."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.tied = torch.nn.Linear(8, 8)
        self.tied.weight = self.first.weight
        self.register_buffer("scale", torch.full((8,), 0.5))
        self.register_buffer("shift", torch.full((8,), 0.25), persistent=False)
        self.table = torch.arange(8, dtype=torch.float32)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.tied(torch.relu(self.first(x))) * self.scale + self.shift + self.table
        return {"y": torch.nn.functional.gelu(y), "flat": torch.cat([y, y]).reshape(-1, 4)}


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def base(net: Net, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "model.pt2"
    batch = torch.export.Dim("batch", min=1, max=32)
    program = torch.export.export(net, (torch.ones(3, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, path)
    return path


def test_loads_what_torch_saved(net: Net, base: Path) -> None:
    program = load_program(base)
    x = torch.randn(5, 8)
    torch.testing.assert_close(program.module()(x), net(x))
    stock = torch.export.load(base)
    assert str(program.graph) == str(stock.graph)
    assert program.range_constraints == stock.range_constraints
    assert program.example_inputs is None
    state = program.state_dict
    assert state["first.weight"].data_ptr() == state["tied.weight"].data_ptr()


def test_a_copied_archive_may_have_any_name(base: Path, tmp_path: Path) -> None:
    other = tmp_path / "renamed.bin"
    other.write_bytes(base.read_bytes())
    assert load_program(other).state_dict.keys() == load_program(base).state_dict.keys()


@pytest.mark.parametrize("name", ["containers", "bert"])
def test_values_may_be_in_containers_of_any_class(name: str, tmp_path: Path) -> None:
    path = models.write(name, tmp_path)
    program, args = load_program(path), models.MODELS[name]().args
    known = {None, tuple, list, dict}
    for spec in (program.call_spec.in_spec, program.call_spec.out_spec):
        kinds = {part.type for part in _specs(spec)}
        assert kinds <= known
    given, keywords = program.call_spec.in_spec.unflatten(pytree.tree_leaves(args))
    expected = pytree.tree_leaves(torch.export.load(path).module()(*args))
    torch.testing.assert_close(pytree.tree_leaves(program.module()(*given, **keywords)), expected)


def _specs(spec: pytree.TreeSpec) -> Iterator[pytree.TreeSpec]:
    yield spec
    for child in spec.children():
        yield from _specs(child)


def test_limits_are_those_of_the_server() -> None:
    text = (Path(__file__).parents[2] / "server/program/limits.h").read_text()
    of_server = {
        name: int(number) << int(shift or 0)
        for name, number, shift in re.findall(
            r"constexpr \w+ (k\w+) = (?:uint64_t\{)?(\d+)\}?(?: << (\d+))?;", text
        )
    }
    for name, number in vars(limits).items():
        if name.startswith("MAX_"):
            assert number == of_server["k" + name.title().replace("_", "")], name


def test_writing_to_a_weight_does_not_reach_the_file(base: Path) -> None:
    before = base.read_bytes()
    program = load_program(base)
    with torch.no_grad():
        program.state_dict["first.weight"].zero_()
    assert base.read_bytes() == before
    assert load_program(base).state_dict["first.weight"].abs().sum() > 0


# What a refusal must say.
REASONS = {
    "pickled_weight": "is pickled",
    "pickled_constant": "is pickled",
    "custom_object": "is pickled",
    "legacy_weights": "pickled by an old torch",
    "size_expression": "not a size expression",
    "node_name": "expected an identifier",
    "argument_name": "expected an identifier",
    "operator": "operator 'torch.os.system' is not accepted",
    "file_operator": "operator 'torch.ops.aten.from_file.default' is not accepted",
    "quoted_string": "expected text without quotes",
    "huge_weight": "elements",
    "empty_weight": "elements",
    "far_offset": "elements",
    "negative_stride": "expected a stride",
    "wrong_shape": "the archive holds",
    "deep_json": "not JSON",
    "missing_weight": "no member",
    "parent_name": "not a plain relative path",
    "compressed": "is compressed",
    "duplicate": "appears twice",
    "truncated": "not an archive",
}
# Accepted, because what is spoilt is never used.
HARMLESS = {"sample_inputs", "guard", "tree_module"}


def test_every_kind_is_covered() -> None:
    assert REASONS.keys() | HARMLESS == malicious_pt2.KINDS.keys()
    assert not REASONS.keys() & HARMLESS


@pytest.mark.parametrize("kind", REASONS)
def test_refused_with_a_reason_and_nothing_run(kind: str, base: Path, tmp_path: Path) -> None:
    marker = malicious_pt2.build(kind, base, tmp_path / "evil.pt2")
    with pytest.raises(ArchiveError) as error:
        load_program(tmp_path / "evil.pt2")
    message = str(error.value)
    assert REASONS[kind] in message
    assert message.startswith(f"{tmp_path / 'evil.pt2'}: ")
    assert "\n" not in message and len(message) < 1000
    assert not marker.exists()


@pytest.mark.parametrize("kind", sorted(HARMLESS))
def test_loaded_without_running_the_payload(kind: str, net: Net, base: Path, tmp_path: Path) -> None:
    marker = malicious_pt2.build(kind, base, tmp_path / "evil.pt2")
    program = load_program(tmp_path / "evil.pt2")
    x = torch.randn(4, 8)
    torch.testing.assert_close(pytree.tree_leaves(program.module()(x)), pytree.tree_leaves(net(x)))
    assert not marker.exists()
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "kind", ["sample_inputs", "pickled_weight", "pickled_constant", "size_expression", "guard"]
)
def test_the_payloads_are_real(kind: str, base: Path, tmp_path: Path) -> None:
    """torch.export.load runs them, so that the tests above do prove something."""
    marker = malicious_pt2.build(kind, base, tmp_path / "evil.pt2")
    code = f"import torch; torch.export.load({str(tmp_path / 'evil.pt2')!r}).module()(torch.ones(2, 8))"
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120)
    assert marker.exists()


def test_an_operator_of_a_library_is_named_where_that_is_missing(base: Path, tmp_path: Path) -> None:
    """And read where it is there, which no job may count on: what it compiles is refused either way."""

    class Squashed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.stoker_test.squash(x)  # type: ignore[no-any-return]

    with torch.library._scoped_library("stoker_test", "DEF") as library:
        library.define("squash(Tensor x) -> Tensor")
        library.impl("squash", torch.tanh, "CompositeExplicitAutograd")
        program = torch.export.export(Squashed(), (torch.ones(2, 3),))
        torch.export.save(program, tmp_path / "squashed.pt2")
        loaded = load_program(tmp_path / "squashed.pt2")
        torch.testing.assert_close(loaded.module(check_guards=False)(torch.ones(2, 3)), torch.tanh(torch.ones(2, 3)))
        known.check(loaded.graph_module, on_gpu=False)
    with pytest.raises(MissingOperator, match="^stoker_test::squash is not one of torch's own operators"):
        load_program(tmp_path / "squashed.pt2")


ODD_VALUES: list[Any] = [None, -1, 2**63, 2**70, 1e308, float("nan"), "", "x y", "__import__('os')", [], {}, [[]], True]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything inside a JSON value."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield (*path, key)
        yield from _places(child, (*path, key))


@pytest.mark.parametrize("member", [malicious_pt2.GRAPH, malicious_pt2.WEIGHTS_CONFIG])
def test_odd_values_anywhere_end_in_a_refusal_at_most(member: str, base: Path, tmp_path: Path) -> None:
    """No other exception escapes, whichever field of whichever description is wrong."""
    rng = random.Random(7)
    document = Archive(base).read_json(member, 1 << 20)
    places = list(_places(document))
    refused = 0
    for _ in range(100):
        *parents, last = rng.choice(places)
        damaged = copy.deepcopy(document)
        parent = damaged
        for key in parents:
            parent = parent[key]
        parent[last] = rng.choice(ODD_VALUES)
        path = malicious_pt2.replace_member(base, tmp_path / "odd.pt2", member, json.dumps(damaged).encode())
        try:
            load_program(path)
        except ArchiveError:
            refused += 1
    assert refused > 50  # what is left stood in fields that nothing depends on


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not an archive" * 100, b"\0" * 4096])
def test_files_of_another_kind(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="expected a file with content|not an archive"):
        load_program(path)


def test_a_missing_file_and_a_folder_are_os_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_program(tmp_path / "model.pt2")
    with pytest.raises(IsADirectoryError):
        load_program(tmp_path)


def test_a_device_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="expected a file with content"):
        load_program("/dev/zero")


def test_a_damaged_graph_is_noticed(base: Path, tmp_path: Path) -> None:
    member = Archive(base).members["models/model.json"]
    content = bytearray(base.read_bytes())
    content[member.offset + member.size // 2] ^= 1
    path = tmp_path / "model.pt2"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="checksum"):
        load_program(path)


def test_overlapping_members(tmp_path: Path) -> None:
    """A directory entry that leads into another member's content."""
    path = tmp_path / "model.pt2"
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("model/small", b"12345678")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/large", inner.getvalue())
        archive.writestr("model/small", b"12345678")
        large, _small = archive.infolist()
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"model/small") - 46
    assert content[entry : entry + 4] == b"PK\x01\x02"
    at = large.header_offset + 30 + len("model/large")
    content[entry + 42 : entry + 46] = at.to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="'large' and 'small' overlap"):
        Archive(path)


def test_a_header_that_differs_from_the_directory(base: Path, tmp_path: Path) -> None:
    content = base.read_bytes().replace(b"model/byteorder", b"model/evil_name", 1)
    path = tmp_path / "model.pt2"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="another name in its header"):
        Archive(path)


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s43', positive=True, integer=True)",
        "Mul(Integer(2), Symbol('s53', positive=True, integer=True))",
        "FloorDiv(Add(Symbol('s0', integer=True), Integer(-1)), Integer(2))",
        "Pow(Symbol('u0', integer=True), Integer(2))",
        "Equality(Mod(Symbol('s0', integer=True), Integer(4)), Integer(0))",
        "Float('0.5', precision=53)",
        "s0*2 + 1",
        "Max(1, s0)",
    ],
)
def test_expressions_of_sizes(text: str) -> None:
    check_expression(text, "here")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "open('x', 'w')",
        "Symbol('s0').__class__",
        "Symbol(open('x', 'w'))",
        "(lambda: 1)()",
        "[1, 2]",
        "9**9**9",
        "Pow(Pow(Pow(9, 16), 16), 16)",
        "Pow(9, Integer(999999999))",
        "LShift(1, 1000000)",
        "s0 if s1 else s2",
        "sympify('1')",
        "preview",
        "f'{s0}'",
        "Symbol('s0', integer=open('x', 'w'))",
        "1\n+1",
        "(" * 5000 + ")" * 5000,
        "-" * 4000 + "1",
        "",
    ],
)
def test_expressions_that_are_more_than_sizes(text: str) -> None:
    with pytest.raises(ArchiveError, match="here: not a size expression"):
        check_expression(text, "here")
    assert not os.path.exists("x")
