"""What the daemon finds out before it promotes, what it keeps of that, and what an operator sees of it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests import models
from tests.integration.clients import check_mlp, expected, infer, rows
from tests.integration.daemon import Daemon, ctl, eventually, only_failure, write_yaml

Repository = Callable[..., Path]
Start = Callable[..., Daemon]
Unjudged = Callable[[Path], Path]


def parities(cache: Path) -> list[Path]:
    return sorted(cache.glob("v1/notes/*/parity-*.json"))


def profits(cache: Path) -> list[Path]:
    return sorted(cache.glob("v1/notes/*/profit-*.json"))


def change(note: Path, **fields: object) -> None:
    note.write_text(json.dumps({**json.loads(note.read_text()), **fields}))


def judged(root: Path, start: Start, unjudged: Unjudged) -> Path:
    """A kernel cache with today's evidence on the repository."""
    cache = unjudged(root)
    with start(root, cache=cache) as daemon:
        daemon.wait_ready()
        assert daemon.stop() == 0
    return cache


def test_the_evidence_is_kept_and_shown(repository: Repository, start: Start, unjudged: Unjudged) -> None:
    root = repository("mlp")
    cache = unjudged(root)
    with start(root, cache=cache) as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            for _ in range(20):
                check_mlp(client)
        status = json.loads(ctl("status", "--json", f"--metrics=http://127.0.0.1:{daemon.metrics_port}/metrics"))
        table = ctl("status", "mlp", f"--metrics=http://127.0.0.1:{daemon.metrics_port}/metrics")
        assert daemon.stop() == 0
    assert status["versions"] == {"mlp:1": "serving"}
    by_bucket = {row["bucket"]: row for row in status["buckets"]}
    assert list(by_bucket) == ["batch=1", "batch=8"]
    for row in by_bucket.values():
        if row["state"] == "compiled":
            assert row["compile_seconds"] > 0 and row["speedup"] > 0
    assert sum(row["compiled_requests"] + row["eager_requests"] for row in by_bucket.values()) == 20
    assert table.splitlines()[0].split() == ["MODEL", "STATE"]
    assert [line.split()[:2] for line in table.splitlines()[4:]] == [["mlp:1", "batch=1"], ["mlp:1", "batch=8"]]

    assert len(parities(cache)) == len(profits(cache)) == 2
    assert all(json.loads(note.read_text())["equal"] for note in parities(cache))
    profit = json.loads(profits(cache)[0].read_text())
    assert profit["pairs"] >= 11
    assert profit["speedup_low"] <= profit["speedup"] <= profit["speedup_high"]
    arguments = ("--cache", cache, "parity", "mlp", "--model-repository", root)
    listed = json.loads(ctl(*arguments, "--json"))
    assert all(row["verdict"]["refusal"] in ("", "profit") for row in listed)
    assert listed[0]["verdict"]["pairs"] >= 11
    cases = {row["bucket"]: [case["sizes"] for case in row["verdict"]["cases"]] for row in listed}
    assert cases == {
        "batch=1": ["batch=1", "batch=1", "batch=1"],
        "batch=8": ["batch=8", "batch=7", "batch=8", "batch=1", "batch=8"],
    }
    header, first, second = ctl(*arguments).splitlines()
    assert header.split()[:3] == ["MODEL", "BUCKET", "VERDICT"]
    assert first.startswith("mlp:1  batch=1") and second.startswith("mlp:1  batch=8")

    assert all([case for case in row["verdict"]["cases"] if case.get("extremes")] for row in listed)

    # Another tolerance is another question: nobody has answered it yet.
    write_yaml(root / "mlp", max_batch_size=8, buckets={"batch": [1, 8]}, parity={"rtol": 1e-5})
    assert "no daemon has checked it" in ctl(*arguments, code=1)


def test_a_verdict_of_another_machine_is_timed_again_behind_traffic(
    repository: Repository, start: Start, unjudged: Unjudged
) -> None:
    root = repository("mlp")
    cache = judged(root, start, unjudged)
    for note in profits(cache):
        change(note, measured_on="elsewhere", clear=True, worth=True)
        note.rename(note.with_name(re.sub(r"-\w+-(\d+)\.json$", r"-elsewhere-\1.json", note.name)))
    with start(root, "--frozen", cache=cache) as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            eventually(lambda: daemon.log().count("timed again") == 2, f"both are:\n{daemon.log()}")
            check_mlp(client)
        assert daemon.stop() == 0
    here = [note for note in profits(cache) if "-elsewhere-" not in note.name]
    assert {note.parent for note in here} == {note.parent for note in parities(cache)}
    assert all(json.loads(note.read_text())["measured_on"] != "elsewhere" for note in here)
    # A clear verdict of this machine is not questioned, unless somebody asks.
    threads = re.search(r"1 instance of (\d+) thread", daemon.log())
    assert threads
    for note in here:
        change(note, clear=True, threads=int(threads[1]))
    for note in parities(cache):
        change(note, rtol=0.5)
    with start(root, "--frozen", cache=cache) as daemon:
        daemon.wait_ready()
        assert daemon.stop() == 0
        assert "timed again" not in daemon.log() and "eager tier opened" not in daemon.log()
    with start(root, "--frozen", "--recheck-promotions", cache=cache) as daemon:
        daemon.wait_ready()
        assert daemon.stop() == 0
    assert all(json.loads(note.read_text())["rtol"] == 3e-5 for note in parities(cache))


def test_other_weights_owe_parity_alone(
    repository: Repository, start: Start, unjudged: Unjudged, tmp_path: Path
) -> None:
    """The same code takes as long with them, and may answer something else."""
    root = repository("mlp")
    cache = judged(root, start, unjudged)
    for note in profits(cache):
        change(note, worth=True, clear=True, speedup=123.0)
    models.write("mlp", tmp_path / "retrained", seed=1)
    shutil.copy(tmp_path / "retrained/mlp/1/model.pt2", root / "mlp/1/model.pt2")
    with start(root, "--frozen", cache=cache) as daemon:
        daemon.wait_ready()
        assert daemon.metric("stoker_bucket_state", state="compiled") == 2
        assert daemon.log().count("123.00 x eager") == 2
        with daemon.client() as client:
            np.testing.assert_allclose(infer(client, rows(3)), expected(rows(3), seed=1), rtol=1e-4, atol=1e-6)
        assert daemon.stop() == 0
    assert len(parities(cache)) == 4


@pytest.mark.parametrize("compile", [True, False])
def test_padding_that_changes_the_answer_is_a_mistake(
    repository: Repository, start: Start, tmp_path: Path, compile: bool
) -> None:
    root = repository("averaged")
    if not compile:
        with open(root / "averaged/model.yaml", "a") as yaml:
            yaml.write("compile: false\n")
    with start(root, "--no-compile", cache=tmp_path / "cache") as daemon:
        reason = only_failure(daemon)
        assert "padding along dimension 'length' from batch=2,length=4 to batch=2,length=8" in reason
        assert "changes the answer: output 0[" in reason and "say 'padding: false' in model.yaml" in reason
        assert daemon.stop() == 0


def test_rows_that_depend_on_each_other_can_not_be_batched(
    repository: Repository, start: Start, tmp_path: Path
) -> None:
    root = repository("centred")
    with start(root, "--no-compile", cache=tmp_path / "cache") as daemon:
        reason = only_failure(daemon)
        assert "padding along dimension 'batch' from batch=4 to batch=8" in reason
        assert "say 'max_batch_size: 1' in model.yaml" in reason
        assert daemon.stop() == 0
    write_yaml(root / "centred", max_batch_size=1)
    with start(root, "--no-compile", cache=tmp_path / "cache") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            assert not infer(client, rows(1), "centred").any()
        assert daemon.stop() == 0


def test_rows_that_depend_on_their_number_can_not_be_batched(
    repository: Repository, start: Start, tmp_path: Path
) -> None:
    """Seen with large integers only: those that are tried first are 0 and 1."""
    with start(repository("shared"), "--no-compile", cache=tmp_path / "cache") as daemon:
        reason = only_failure(daemon)
        assert "padding along dimension 'batch'" in reason
        assert "say 'max_batch_size: 1' in model.yaml" in reason
        assert daemon.stop() == 0


def test_a_program_that_answers_differently_each_time_stays_eager(
    repository: Repository, start: Start, kept: Path
) -> None:
    with start(repository("random")) as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            once, again = (infer(client, rows(2), "random") for _ in range(2))
            assert (once != again).any() and (np.abs(once - rows(2)) <= 1).all()
        assert daemon.metric("stoker_bucket_state", state="eager") == 1
        assert "differently each time" in daemon.log() or "stays on eager (refused)" in daemon.log(), daemon.log()
        assert daemon.stop() == 0


def test_rounding_alone_is_judged_by_a_float64_run(
    repository: Repository, start: Start, unjudged: Unjudged
) -> None:
    root = repository("cancelling")
    cache = judged(root, start, unjudged)
    (note,) = parities(cache)
    verdict = json.loads(note.read_text())
    arbitrated = [case for case in verdict["cases"] if "compiled_rmse" in case]
    assert arbitrated, verdict
    for case in arbitrated:
        assert case["eager_rmse"] > 0
        assert case["compiled_rmse"] <= 2 * case["eager_rmse"] or case["difference"]


def test_without_a_float64_run_nothing_is_decided(
    repository: Repository, start: Start, unjudged: Unjudged
) -> None:
    """A host that can't arbitrate refuses nothing for those that can."""
    root = repository("cancelling")
    cache = unjudged(root)
    with start(root, "--frozen", cache=cache) as daemon:
        daemon.wait_ready()
        assert daemon.metric("stoker_fallbacks_total", reason="unjudged") == 1
        assert daemon.metric("stoker_bucket_state", state="eager") == 1
        assert "no float64 run to judge by" in daemon.log()
        assert daemon.stop() == 0
    assert parities(cache) == []
    with start(root, cache=cache) as daemon:
        daemon.wait_ready()
        assert daemon.metric("stoker_fallbacks_total", reason="unjudged") == 0
        assert daemon.stop() == 0
    assert len(parities(cache)) == 1
