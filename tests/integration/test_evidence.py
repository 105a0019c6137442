"""What the daemon finds out before it promotes, what it keeps of that, and what an operator sees of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.integration.clients import check_mlp, infer, rows
from tests.integration.daemon import Daemon, ctl, eventually, write_yaml

Repository = Callable[..., Path]
Start = Callable[..., Daemon]
Unjudged = Callable[[Path], Path]


def verdicts(cache: Path) -> list[Path]:
    return sorted(cache.glob("v1/notes/*/verdict-*.json"))


def judged(root: Path, start: Start, unjudged: Unjudged) -> Path:
    """A kernel cache with today's verdicts on the repository."""
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

    assert len(verdicts(cache)) == 2
    verdict = json.loads(verdicts(cache)[0].read_text())
    assert verdict["refusal"] in ("", "profit") and verdict["pairs"] >= 11
    assert verdict["speedup_low"] <= verdict["speedup"] <= verdict["speedup_high"]
    arguments = ("--cache", cache, "parity", "mlp", "--model-repository", root)
    listed = json.loads(ctl(*arguments, "--json"))
    cases = {row["bucket"]: [case["sizes"] for case in row["verdict"]["cases"]] for row in listed}
    assert cases == {
        "batch=1": ["batch=1", "batch=1"],
        "batch=8": ["batch=8", "batch=7", "batch=8", "batch=4"],
    }
    header, first, second = ctl(*arguments).splitlines()
    assert header.split()[:3] == ["MODEL", "BUCKET", "VERDICT"]
    assert first.startswith("mlp:1  batch=1") and second.startswith("mlp:1  batch=8")

    # Another tolerance is another question: nobody has answered it yet.
    write_yaml(root / "mlp", max_batch_size=8, buckets={"batch": [1, 8]}, parity={"rtol": 1e-5})
    assert "no daemon has checked it" in ctl(*arguments, code=1)


def test_a_verdict_of_another_machine_is_timed_again_behind_traffic(
    repository: Repository, start: Start, unjudged: Unjudged
) -> None:
    root = repository("mlp")
    cache = judged(root, start, unjudged)
    for note in verdicts(cache):
        changed = json.loads(note.read_text())
        changed.update(measured_on="elsewhere", clear=True, promote=True, refusal="")
        note.write_text(json.dumps(changed))
    with start(root, "--frozen", cache=cache) as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            eventually(lambda: daemon.log().count("timed again") == 2, f"both are:\n{daemon.log()}")
            check_mlp(client)
        assert daemon.stop() == 0
    assert all(json.loads(note.read_text())["measured_on"] != "elsewhere" for note in verdicts(cache))
    # A clear verdict of this machine is not questioned, unless somebody asks.
    for note in verdicts(cache):
        note.write_text(json.dumps({**json.loads(note.read_text()), "clear": True, "rtol": 0.5}))
    with start(root, "--frozen", cache=cache) as daemon:
        daemon.wait_ready()
        assert daemon.stop() == 0
        assert "timed again" not in daemon.log() and "eager tier opened" not in daemon.log()
    with start(root, "--frozen", "--recheck-promotions", cache=cache) as daemon:
        daemon.wait_ready()
        assert daemon.stop() == 0
    assert all(json.loads(note.read_text())["rtol"] == 3e-5 for note in verdicts(cache))


def only_failure(daemon: Daemon) -> str:
    """Why the one version failed to load."""

    def failed() -> bool:
        with daemon.client() as client:
            return [line.state for line in client.get_model_repository_index().models] == ["UNAVAILABLE"]

    eventually(failed, f"the version fails:\n{daemon.log()}")
    with daemon.client() as client:
        (line,) = client.get_model_repository_index().models
        return line.reason


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
    (note,) = verdicts(cache)
    verdict = json.loads(note.read_text())
    arbitrated = [case for case in verdict["cases"] if "compiled_rmse" in case]
    assert arbitrated, verdict
    for case in arbitrated:
        assert case["eager_rmse"] > 0
        assert (case["difference"] == "") == (case["compiled_rmse"] <= 2 * case["eager_rmse"])


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
    assert verdicts(cache) == []
    with start(root, cache=cache) as daemon:
        daemon.wait_ready()
        assert daemon.metric("stoker_fallbacks_total", reason="unjudged") == 0
        assert daemon.stop() == 0
    assert len(verdicts(cache)) == 1
