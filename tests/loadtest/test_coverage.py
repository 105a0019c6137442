"""The coverage table: its programs, its arithmetic, its table and page, and two programs taken all the way, with a
run that is killed and goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from loadtest.coverage import __main__ as coverage
from loadtest.coverage import stages
from loadtest.coverage.outcome import OUTCOMES, Result, Speed, Summary
from loadtest.coverage.page import outcome_strip, page, speed_bars
from loadtest.coverage.program import B, Program, by_name, floats, integers
from loadtest.coverage.programs import PROGRAMS
from loadtest.coverage.table import as_json, render
from loadtest.servers.process import ServerProcess
from loadtest.servers.stokerd import REPOSITORY


def result(name: str, outcome: str = "promoted", ratios: tuple[float, ...] = (2.0, 2.0), family: str = "f") -> Result:
    speeds = [Speed(f"batch={n}", "dynamic", ratio, (ratio, ratio), 2 * ratio, 2.0) for n, ratio in enumerate(ratios)]
    return Result(name, family, "d", "b", outcome, speeds=speeds)


def test_there_are_163_programs() -> None:
    assert len(PROGRAMS) == 163
    assert len({program.definition for program in PROGRAMS.values()}) == 163


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=lambda program: program.name)
def test_inputs_are_what_they_say(program: Program) -> None:
    fields = json.loads(program.model_yaml({"dynamic": "only"}))
    assert program.dynamic == ("buckets" in fields) == (program.sizes != ({},))
    assert program.dynamic or program.fixed
    for sizes in program.sizes:
        drawn = program.draw(sizes)
        assert all(np.array_equal(value, drawn[name]) for name, value in program.draw(sizes).items())
        for name, value in drawn.items():
            limits = program.inputs[name].limits
            assert limits is None or (value.min() >= limits[0] and value.max() <= limits[1])
            assert fields.get("inputs", {}).get(name, {}).get("range") == (list(limits) if limits else None)


def test_a_definition_changes_with_the_program() -> None:
    def program(**changed: object) -> Program:
        fields = {"name": "n", "family": "f", "make": Result, "inputs": {"x": floats(B, 3)}} | changed
        return Program(**fields)  # type: ignore[arg-type]

    assert program().definition == program(family="another").definition
    different = [program(), program(inputs={"x": floats(B, 4)}), program(make=Speed), program(sizes=({B: 2},))]
    assert len({each.definition for each in different}) == len(different)
    fixed = program(inputs={"x": floats(B, 3), "ids": integers(9, B, 2)}).without_dynamic("why")
    assert not fixed.dynamic and fixed.sizes == ({},) and fixed.inputs["ids"].shape == (1, 2)
    with pytest.raises(ValueError, match="two programs are called n"):
        by_name([program(), program()])


def test_how_answers_are_compared() -> None:
    expected = np.array([3.0, 4.0, -5.0], np.float32)
    assert stages.difference(expected, expected) == 0
    assert stages.difference(expected * np.float32(1.001), expected) == pytest.approx(0.00055, rel=0.05)
    # What is small beside the rest is held to the rest.
    assert stages.difference(np.array([1e-6, 1], np.float32), np.array([0, 1], np.float32)) < 2e-6
    endless = np.array([np.inf, 1.0], np.float32)
    assert stages.difference(endless, endless) == 0
    assert stages.difference(np.array([1.0, np.nan], np.float32), np.ones(2, np.float32)) == np.inf
    assert stages.difference(expected[:2], expected) == np.inf
    assert stages.difference(expected.astype(np.float64), expected) == np.inf
    assert stages.difference(np.array([1, 2]), np.array([1, 3])) == np.inf


def test_outcomes() -> None:
    promoted = result("a")
    promoted.conclude()
    assert promoted.outcome == "promoted" and promoted.ratio == pytest.approx(2)
    partly = result("b")
    partly.speeds[0].tier, partly.stays = "eager", {"batch=0": "profit: no"}
    partly.conclude()
    assert (partly.outcome, partly.reason) == ("partly promoted", "batch=0: profit: no")
    assert partly.ratio == pytest.approx(2**0.5)  # eager beside itself is 1
    slower = result("c", ratios=(0.9, 2))
    slower.speeds[0].loses = True
    slower.conclude()
    assert (slower.outcome, slower.reason) == ("slower", "batch=0: 0.90 × eager")
    alone = result("d")
    for speed in alone.speeds:
        speed.tier = "eager"
    alone.conclude()
    assert alone.outcome == "eager only" and alone.ratio == 1


def test_the_summary_and_the_table() -> None:
    broken = Result("broken", "g", "d", "b", "not exported", "no\nmore " + "x" * 200)
    results = [result("slow", "slower", (0.5, 0.5)), result("fast", ratios=(4.0, 4.0)), broken]
    summary = Summary.of(results)
    assert (summary.programs, summary.exported, summary.serve, summary.promote, summary.slower) == (3, 2, 2, 2, 1)
    assert summary.mean == pytest.approx(2**0.5)
    lines = render(results).splitlines()
    assert [line.split()[0] for line in lines[:6]] == ["program", "slow", "batch=1", "fast", "batch=1", "broken"]
    assert "no more xx" in lines[5] and lines[5].endswith("…")
    assert lines[-1].startswith("of 3 programs 2 export, 2 serve (goal: all), 2 are promoted, 66.7 %")
    written = json.loads(json.dumps(as_json(results, {"timm": "1"})))
    assert [Result.from_json(each) for each in written["programs"]] == [results[0], results[1], broken]
    assert Summary.of([]).mean is None and render([])


def test_the_page_stands_alone() -> None:
    awkward = Result("a<b", "g", "d", "b", "refused", 'says "no" & <i>')
    results = [result("fast", ratios=(4.0, 4.0)), awkward, *(result(o, o, ()) for o in OUTCOMES)]
    text = page(results, "here")
    assert "http" not in text and "<script" not in text and "a<b" not in text and "<i>" not in text.split("<h2>", 1)[0]
    bars = ElementTree.fromstring(speed_bars(results))
    assert len(bars.findall("rect")) == 1
    assert len(ElementTree.fromstring(outcome_strip(results)).findall("rect")) == len(results)
    assert "Nothing was timed" in speed_bars([awkward])


def test_which_are_chosen() -> None:
    everything = coverage.chosen([], None, 0)
    assert {program.name for program in everything} == PROGRAMS.keys()
    assert everything != list(PROGRAMS.values()) and everything == coverage.chosen([], None, 0)
    assert coverage.chosen([], 5, 1) == coverage.chosen([], None, 1)[:5]
    assert [program.name for program in coverage.chosen(["dlrm"], None, 0)] == ["dlrm"]


NAMES = ("graph_attention", "quantised_mlp")


def command(folder: Path) -> list[str]:
    """Exports with this Python: these programs need no packages of other libraries."""
    line = (
        "import sys; from pathlib import Path; from loadtest.coverage import __main__ as m, stages; "
        "import signal; signal.signal(signal.SIGTERM, lambda number, _: sys.exit(1)); "  # no daemon outlives it
        "stages.SPEED_SECONDS = 0.3; "
        f"programs = [m.PROGRAMS[name] for name in {NAMES}]; "
        f"given = (programs, Path({str(folder)!r}), Path(sys.executable)); "
        "m.compile_ahead(*given, 2); results = m.run(*given, False); print(m.render(results))"
    )
    return [sys.executable, "-c", line]


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    # What other runs compiled is found again, so that this takes seconds.
    kernels = Path(os.environ.get("STOKER_TEST_SCRATCH", tmp_path)) / "coverage-kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    folder = tmp_path / "coverage"
    folder.mkdir()
    (folder / "kernels").symlink_to(kernels)
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    first = folder / NAMES[0] / "result.json"
    with ServerProcess(command(folder), tmp_path / "killed.log", environment=environment, grace_seconds=5) as killed:
        killed.until(first.exists, 120, "the first result is there")
    assert not (folder / NAMES[1] / "result.json").exists()
    before = first.read_bytes()
    done = subprocess.run(command(folder), env=environment, capture_output=True, text=True, timeout=240)
    ahead, *results_said = done.stderr.splitlines()
    assert ahead.startswith("compiled ahead 2/2 ") and ahead.endswith(", ".join(NAMES)), done.stderr
    assert f"1/2  {NAMES[0]}: " in results_said[0] and ", kept" in results_said[0], done.stderr
    assert first.read_bytes() == before
    results = [Result.from_json(json.loads((folder / name / "result.json").read_text())) for name in NAMES]
    assert [(each.name, each.outcome in OUTCOMES) for each in results] == [(name, True) for name in NAMES]
    for each in results:
        assert each.outcome not in ("not exported", "refused", "crashed", "wrong answer"), each.reason
        assert each.difference is not None or each.outcome == "eager only"
        assert len(each.speeds) == (2 if each.name == "quantised_mlp" else 1)
    # Of what an earlier run has compiled, and a busy machine doesn't promote, no log names the key.
    assert all(each.compile_seconds and each.compile_peak_mb for each in results if each.outcome == "promoted")
    assert "of 2 programs 2 export, 2 serve" in done.stdout
