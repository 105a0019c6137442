"""What a report says of a program that was really compiled and run: its kernels and their lines, what
is left to libtorch, where the time went; and what it says of programs that can't be compiled."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compiler.explain.measure import FEWEST_TURNS
from compiler.explain.page import page
from compiler.explain.report import explain
from compiler.job.job import Job
from compiler.program import origins
from tests.compiler.conftest import ROOT, Compiler

HERE = Path(__file__)
BATCH, TOKENS = 2, 32


class Mixed(nn.Module):
    """A line for each kind of kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 64)
        self.project = nn.Linear(64, 512)

    def forward(self, ids: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.project(self.embedding(ids) + x)
        gated = torch.sigmoid(hidden) * hidden
        running = torch.cumsum(gated, 1)
        mixed = torch.linalg.matrix_exp(running[:, :4, :4])
        return gated.sum(-1), mixed


class Ragged(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        shifted = x + 1
        return torch.unique(shifted)


class Gated(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(x) * 2


def place(text: str) -> str:
    """ "test_explain.py:37" of the first line with that text."""
    lines = HERE.read_text().splitlines()
    return f"{HERE.name}:{1 + next(i for i, line in enumerate(lines) if text in line)}"


def explained(compiler: Compiler, path: Path, sizes: dict[str, int], ranges: list[Any] | None = None) -> dict[str, Any]:
    job = Job.parse(compiler.request(path, sizes))
    work = job.stage.parent / "work"
    work.mkdir()
    phases: list[str] = []
    report = explain(job, 2, ranges or [], work, phases.append)
    assert phases[0] == "load" and phases[-1] == "measure"
    # It is what stokerctl gets, as JSON.
    return json.loads(json.dumps(report))


@pytest.fixture(scope="module")
def mixed(compiler: Compiler) -> dict[str, Any]:
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=1, max=16)
    # One input by place and one by name: the exporter's own are all by name.
    ids, by_name = (torch.zeros(3, TOKENS, dtype=torch.long),), {"x": torch.randn(3, TOKENS, 64)}
    program = torch.export.export(Mixed().eval(), ids, by_name, dynamic_shapes=({0: batch}, {0: batch}))
    (symbol,) = map(str, program.range_constraints)
    return explained(compiler, compiler.save(program), {symbol: BATCH}, [[0, 49], None])


@pytest.mark.slow
def test_every_kernel_knows_its_operators_and_lines(mixed: dict[str, Any]) -> None:
    by_kind: dict[str, list[dict[str, Any]]] = {"fused": [], "library": [], "fallback": []}
    for kernel in mixed["kernels"]:
        by_kind[kernel["kind"]].append(kernel)
    (linear,) = by_kind["library"]
    assert "linear" in linear["kernel"] and linear["operators"] == ["mkldnn._linear_pointwise.default"]
    assert linear["places"] == [place("hidden = self.project")] and linear["functions"] == ["forward"]
    left = {kernel["operators"][0]: kernel for kernel in by_kind["fallback"]}
    assert left.keys() == {"aten.cumsum.default", "aten.linalg_matrix_exp.default"}
    running, mixing = left["aten.cumsum.default"], left["aten.linalg_matrix_exp.default"]
    assert running["places"] == [place("running = torch.cumsum")] and not running["by_proxy"]
    assert mixing["places"] == [place("mixed = torch.linalg")] and mixing["by_proxy"]
    (gate,) = [kernel for kernel in by_kind["fused"] if "aten.sigmoid.default" in kernel["operators"]]
    assert place("gated = torch.sigmoid") in gate["places"] and gate["kernel"].startswith("cpp_fused")
    compiled = mixed["compiled"]
    assert compiled["fused_kernels"] == len({kernel["kernel"] for kernel in by_kind["fused"]})
    assert (compiled["library_calls"], compiled["fallback_calls"], compiled["packed_weights"]) == (1, 2, 1)
    assert [guard["operator"] for guard in compiled["guards"]] == ["aten.embedding.default"]
    assert mixed["not_compiled"] is None


@pytest.mark.slow
def test_times_are_measured_and_add_up(mixed: dict[str, Any]) -> None:
    times = mixed["times"]
    assert times["turns"] >= FEWEST_TURNS
    assert min(times["eager_ms"], times["compiled_ms"], times["profiled_ms"]) > 0
    assert 0 < times["explained"] <= 1
    # matrix_exp alone, a fallback with many operators inside, is most of the run.
    assert times["explained"] > 0.5
    calls, kernels, places = mixed["calls"], mixed["kernels"], mixed["places"]
    assert all(call["runs"] == 1 and call["us"] > 0 for call in calls)
    for rows in (calls, kernels, places, mixed["eager_operators"]):
        assert sum(row["share"] for row in rows) == pytest.approx(1)
    total = sum(call["us"] for call in calls)
    assert sum(kernel["total_us"] for kernel in kernels) == pytest.approx(total)
    assert sum(row["compiled_us"] for row in places) == pytest.approx(total)
    assert sum(row["compiled_us"] for row in mixed["modules"]) == pytest.approx(total)
    assert total / 1e3 == pytest.approx(times["explained"] * times["profiled_ms"])


@pytest.mark.slow
def test_eager_is_measured_line_by_line(mixed: dict[str, Any]) -> None:
    eager = {row["operator"]: row for row in mixed["eager_operators"]}
    assert {"aten.embedding.default", "aten.linear.default", "aten.cumsum.default"} <= eager.keys()
    assert all(row["calls"] == 1 for row in eager.values() if row["operator"] != "aten.slice.Tensor")
    places = {row["name"]: row for row in mixed["places"]}
    both = places[place("gated = torch.sigmoid")]
    assert both["eager_us"] > 0 and both["compiled_us"] > 0
    assert both["origin"]["code"] == "gated = torch.sigmoid(hidden) * hidden"
    guards = places["Stoker's guards"]
    assert guards["eager_us"] == 0 and guards["compiled_us"] > 0
    modules = {row["name"] for row in mixed["modules"]}
    assert {"", "embedding", "project", "Stoker's guards"} == modules


@pytest.mark.slow
def test_the_graph_is_counted(mixed: dict[str, Any]) -> None:
    graph = mixed["graph"]
    counts = {row["operator"]: row["count"] for row in graph["by_operator"]}
    assert counts["aten.linear.default"] == counts["aten.sigmoid.default"] == 1
    assert graph["operators"] == sum(counts.values())
    assert graph["parameters"] == 50 * 64 + 64 * 512 + 512
    assert graph["weight_bytes"] == 4 * graph["parameters"]
    assert (graph["inputs"], graph["outputs"]) == (2, 2)


class Reader(HTMLParser):
    """Notes what a page would fetch, and tags that are not closed in order."""

    EMPTY = frozenset({"meta", "rect", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "data")]
        if tag in ("script", "link", "iframe", "img", "object"):
            self.fetched.append(tag)
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def read_page(report: dict[str, Any]) -> str:
    text = page(report)
    reader = Reader()
    reader.feed(text)
    assert reader.fetched == reader.wrong == reader.open == []
    assert "http" not in text and "@import" not in text and "url(" not in text
    return text


@pytest.mark.slow
def test_the_page_is_whole_and_fetches_nothing(mixed: dict[str, Any]) -> None:
    text = read_page(mixed)
    for expected in ("aten.linalg_matrix_exp.default", place("running = torch.cumsum"), "the whole program"):
        assert expected in text
    hostile = json.loads(json.dumps(mixed).replace("gated = torch", "<script>alert(1)</script>"))
    assert "<script>alert" in json.dumps(hostile) and "<script>" not in read_page(hostile)


@pytest.mark.slow
def test_a_refused_program_is_explained_as_far_as_it_goes(compiler: Compiler) -> None:
    program = torch.export.export(Ragged(), (torch.randn(8),))
    report = explained(compiler, compiler.save(program), {})
    why = report["not_compiled"]
    assert why["kind"] == "refused" and "depends on the data" in why["reason"]
    assert why["origin"]["place"] == place("return torch.unique")
    assert why["origin"]["code"] == "return torch.unique(shifted)"
    assert report["compiled"] is None and report["kernels"] == report["calls"] == []
    assert report["graph"]["operators"] >= 2 and report["times"]["eager_ms"] > 0
    assert "compiled_ms" not in report["times"]
    assert place("shifted = x + 1") in {row["name"] for row in report["places"]}
    assert "depends on the data" in read_page(report)


@pytest.mark.slow
def test_a_failure_of_the_compiler_names_the_line(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import lowering

    def broken(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("no code for this")

    monkeypatch.setitem(lowering.lowerings, torch.ops.aten.erf.default, broken)
    program = torch.export.export(Gated(), (torch.randn(8),))
    report = explained(compiler, compiler.save(program), {})
    why = report["not_compiled"]
    assert why["kind"] == "error" and "no code for this" in why["reason"]
    assert why["origin"]["place"] == place("torch.erf(x) * 2")


@pytest.mark.slow
def test_without_a_size_nothing_is_run(compiler: Compiler) -> None:
    batch = torch.export.Dim("batch", min=1, max=16)
    program = torch.export.export(Gated(), (torch.randn(8),), dynamic_shapes=({0: batch},))
    report = explained(compiler, compiler.save(program), {})
    assert "the bucket does not say how large" in report["not_run"]
    assert report["times"] is None
    read_page(report)


class Picky(nn.Module):
    """Eager refuses the values that are drawn for it."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.ones(8, dtype=torch.long) // x


@pytest.mark.slow
def test_a_program_that_can_not_be_run_is_still_explained(compiler: Compiler) -> None:
    program = torch.export.export(Picky(), (torch.ones(8, dtype=torch.long),))
    report = explained(compiler, compiler.save(program), {}, [[0, 0]])
    assert "ZeroDivisionError" in report["not_run"] and report["times"] is None
    assert report["not_compiled"] is None and report["compiled"]["fused_kernels"] == 1
    assert "ZeroDivisionError" in read_page(report)


def test_what_is_no_program_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(b"nothing")
    command = [sys.executable, "-m", "compiler.explain", f"--program={tmp_path}/model.pt2"]
    command.append(f"--scratch={tmp_path}/scratch")
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1 and ended.stdout == ""
    assert ended.stderr.splitlines()[-1].startswith(f"{tmp_path}/model.pt2: not an archive")


TRACE = """  File "/home/me/venv/lib/python3.11/site-packages/zoo/model.py", line 12, in forward
    x = self.linear(x)
  File "/home/me/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward
    return F.linear(input, self.weight, self.bias)
"""
STACK = "L__self__,,zoo.Model;L__self___layers_0_linear,layers.0.linear,torch.nn.modules.linear.Linear"


def test_the_models_own_line_is_read() -> None:
    origin = origins.read({"stack_trace": TRACE, "nn_module_stack": STACK})
    assert origin == origins.Origin("zoo/model.py", 12, "forward", "x = self.linear(x)", "layers.0.linear", "Linear")
    assert origin.place == "model.py:12"
    assert origins.read({"nn_module_stack": STACK}).place == "layers.*.linear"
    assert origins.read({"nn_module_stack": STACK.partition(";")[0]}).place == "Model"
    only_torch = TRACE[TRACE.index("  File", 5) :]
    assert origins.read({"stack_trace": only_torch}).place == "linear.py:134"
    generated = TRACE + '  File "<eval_with_key>.6", line 9, in forward\n    add = x + 1\n'
    assert origins.read({"stack_trace": generated}).place == "model.py:12"
    windows = 'File "C:\\zoo\\model.py", line 3, in forward\n'
    assert origins.read({"stack_trace": windows}).place == "model.py:3"


@pytest.mark.parametrize(
    "note",
    [
        None,
        [],
        {},
        {"stack_trace": 5, "nn_module_stack": []},
        {"stack_trace": "File", "nn_module_stack": ";,"},
    ],
)
def test_what_is_not_understood_stays_unknown(note: Any) -> None:
    assert origins.read(note) == origins.UNKNOWN


def test_text_of_an_archive_is_fit_for_a_terminal() -> None:
    trace = 'File "/a/\x1b[31m.py", line 1, in \x07f\n    x = "\x1b]0;title\x07' + "y" * 1000 + "\n"
    origin = origins.read({"stack_trace": trace})
    assert all(text.isprintable() and len(text) <= 200 for text in (origin.file, origin.function, origin.code))


def test_a_portable_line_names_no_folder_of_this_machine(tmp_path: Path, monkeypatch: Any) -> None:
    trace = f'File "{tmp_path}/zoo/model.py", line 7, in forward\n    return x\n'
    expected = '  File "{}", line 7, in forward\n    return x\n'
    assert origins.portable(trace) == expected.format("model.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert origins.portable(trace) == expected.format("zoo/model.py")
    assert origins.read({"stack_trace": origins.portable(trace)}).place == "model.py:7"
    assert origins.portable("") is None
