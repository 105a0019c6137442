"""`stokerctl explain-graph`, as an operator calls it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.integration.daemon import REPO, STOKERCTL, ctl

Repository = Callable[..., Path]
PYTHON = f"--compiler-python={sys.executable}"


def explain(cache: Path, root: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs the command, which compiles and measures."""
    command: list[str | Path] = [STOKERCTL, f"--cache={cache}", "explain-graph", f"--model-repository={root}", PYTHON]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def line_of(text: str) -> str:
    """ "models.py:37" of the first line of tests/models.py with that text."""
    lines = (REPO / "tests/models.py").read_text().splitlines()
    return f"models.py:{1 + next(i for i, line in enumerate(lines) if text in line)}"


def test_a_model_is_explained(repository: Repository, kept: Path, tmp_path: Path) -> None:
    page = tmp_path / "mlp.html"
    done = explain(kept / "kernels", repository("mlp"), "mlp", f"--html={page}")
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"mlp:1 batch=8, \d+ threads", lines[0])
    assert re.fullmatch(
        r"graph: \d+ operators in \d+ nodes, 1 inputs, 1 outputs, 676 parameters, 2.6 KiB of weights",
        lines[1],
    )
    assert re.search(r"^aten.linear.default +2$", done.stdout, re.MULTILINE)
    assert re.search(
        r"^eager .*, compiled .* x; [\d.]+ % of a compiled run is in kernels$", done.stdout, re.MULTILINE
    )
    (gelu,) = [line for line in lines if line.startswith("cpp_fused") and "gelu" in line]
    assert " fused " in gelu and line_of('return {"y": self.net(x)}') in gelu
    assert lines[-1] == f"written to {page}"
    assert "<svg" in page.read_text() and "mlp:1 batch=8" in page.read_text()
    told = [line.partition("s  ")[2] for line in done.stderr.splitlines()]
    phases = ("load", "specialise", "lower", "build", "measure")
    assert told == [f"mlp:1 batch=8: {phase}" for phase in phases]


def test_another_bucket_as_json(repository: Repository, kept: Path) -> None:
    done = explain(kept / "kernels", repository("tokens"), "tokens", "--bucket=batch=1,tokens=8", "--json")
    report = json.loads(done.stdout)
    assert (report["model"], report["bucket"]) == ("tokens:1", "batch=1,tokens=8")
    assert sorted(report["sizes"].values()) == [1, 8]
    assert report["not_compiled"] is None and report["times"]["compiled_ms"] > 0
    assert sum(kernel["share"] for kernel in report["kernels"]) > 0.999
    places = {row["name"] for row in report["places"]}
    assert {line_of("torch.tanh(self.linear"), line_of("pooled = (tokens * weight)")} <= places


def test_why_a_model_can_not_be_compiled(repository: Repository, kept: Path) -> None:
    done = explain(kept / "kernels", repository("distinct"), "distinct", code=1)
    assert re.search(r"^not compiled: aten._unique2.default .*depends on the data$", done.stdout, re.MULTILINE)
    assert f"  from {line_of('torch.unique(x)')} forward" in done.stdout
    assert re.search(r"^eager: .* a run$", done.stdout, re.MULTILINE)


def test_operators_that_the_server_has_of_its_own(repository: Repository, kept: Path) -> None:
    """Which the compiler only knows of: here torchvision runs them."""
    done = explain(kept / "kernels", repository("detector"), "detector", "--json")
    report = json.loads(done.stdout)
    assert report["not_compiled"] is None and report["not_run"] is None
    called = {operator for kernel in report["kernels"] for operator in kernel["operators"]}
    assert {"torchvision.nms.default", "torchvision.roi_align.default", "torchvision.deform_conv2d.default"} <= called


def test_mistakes_are_one_line(repository: Repository, kept: Path) -> None:
    arguments = ("--cache", kept / "kernels", "explain-graph", f"--model-repository={repository('mlp')}")
    assert "has no model 'other'" in ctl(*arguments, "other", code=4)
    unknown = ctl(*arguments, "mlp", "--bucket=batch=7", code=4)
    assert unknown == ("stokerctl: --bucket: mlp:1 has no bucket 'batch=7', only 'batch=1', 'batch=8'\n")
    assert "takes a compiler" in ctl(*arguments, "mlp", "--compiler-python", "", code=4)
    missing = ctl(*arguments, "mlp", "--compiler-python=/no/such/python", code=4)
    assert missing.startswith("stokerctl: --compiler-python: ") and missing.count("\n") == 1
    # A Python without torch: its last words.
    assert "gave no report" in ctl(*arguments, "mlp", "--compiler-python=/bin/false", code=4)
