"""The `compile` block of model.yaml: each lever reaches the artifact, its key and the evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.integration.clients import infer, rows
from tests.integration.daemon import Daemon, ctl, eventually, write_yaml
from tests.integration.wire import eager

BUCKET = {"max_batch_size": 8, "buckets": {"batch": [8]}}

def factors(cache: Path, folder: Path) -> dict[str, str]:
    """Those of the only bucket, as `stokerctl cache explain` tells them."""
    plan = json.loads(ctl("--json", "--cache", cache, "plan", f"--model-repository={folder}"))
    (bucket,) = plan["buckets"]
    return json.loads(ctl("--json", "--cache", cache, "cache", "show", bucket["key"]))["manifest"]["factors"]


def test_bfloat16_is_judged_against_the_float32_program(
    repository: Callable[..., Path], start: Callable[..., Daemon], kept: Path
) -> None:
    root = repository("layers")
    write_yaml(root / "layers", **BUCKET, compile={"precision": "bfloat16", "deterministic": True})
    x = rows(8)
    expected = eager("layers", {"x": torch.from_numpy(x)})["y"].numpy()
    with start(root) as daemon:
        daemon.wait_ready()
        largest = daemon.metric("stoker_parity_max_abs_error")
        assert daemon.metric("stoker_promotions_total", outcome="parity") == 0, daemon.log()
        assert daemon.stop() == 0
    assert 1e-5 < largest < 2e-2
    found = factors(kept / "kernels", root)
    assert found["precision"] == "bfloat16" and found["inductor.deterministic"] == "true"
    # Whether this machine is faster in bfloat16 is not the question here.
    with start(root, "--no-promotion-checks") as daemon, daemon.client() as client:
        daemon.wait_ready()
        answer = infer(client, x, "layers")
        assert daemon.metric("stoker_tier_requests_total", tier="aot") == 1
        assert daemon.stop() == 0
    assert 1e-5 < abs(answer - expected).max() < 2e-2 * abs(expected).max()


def test_a_tolerance_that_bfloat16_cannot_meet_keeps_eager(
    repository: Callable[..., Path], start: Callable[..., Daemon]
) -> None:
    root = repository("layers")
    write_yaml(
        root / "layers", **BUCKET,
        compile={"precision": "bfloat16", "deterministic": True}, parity={"rtol": 1e-5, "atol": 1e-5},
    )  # fmt: skip
    with start(root) as daemon:
        daemon.wait_ready()
        assert re.search(r"stays on eager \(parity\): seed .*eager .*, compiled ", daemon.log())
        assert daemon.stop() == 0


def test_int8_is_the_code_of_float32_with_other_weights(
    repository: Callable[..., Path], start: Callable[..., Daemon], kept: Path
) -> None:
    root = repository("layers")
    write_yaml(root / "layers", **BUCKET)
    x = rows(8)
    expected = eager("layers", {"x": torch.from_numpy(x)})["y"].numpy()
    with start(root) as daemon:
        daemon.wait_ready()
        assert daemon.stop() == 0
    exact = factors(kept / "kernels", root)
    write_yaml(root / "layers", **BUCKET, compile={"precision": "int8"})
    assert factors(kept / "kernels", root) == exact
    # The second start finds what the first found out.
    for checks in (1, 0):
        with start(root) as daemon:
            daemon.wait_ready()
            assert daemon.metric("stoker_compile_seconds_count", outcome="ok") == 0, daemon.log()
            assert daemon.metric("stoker_promotions_total", outcome="parity") == 0, daemon.log()
            if checks:
                assert 1e-5 < daemon.metric("stoker_parity_max_abs_error") < 0.1
            assert daemon.stop() == 0
    notes = [path.name for path in (kept / "kernels").rglob("int8-factors-*")]
    assert notes
    with start(root, "--no-promotion-checks") as daemon, daemon.client() as client:
        daemon.wait_ready()
        answer = infer(client, x, "layers")
        assert daemon.metric("stoker_tier_requests_total", tier="aot") == 1
        assert daemon.stop() == 0
    assert 1e-5 < abs(answer - expected).max() < 0.1 * abs(expected).max()


def test_what_has_no_layers_for_integers_is_proved_once(
    repository: Callable[..., Path], start: Callable[..., Daemon], tmp_path: Path
) -> None:
    root = repository("mlp")
    write_yaml(root / "mlp", **BUCKET, compile={"precision": "int8"})
    found: list[dict[str, int]] = []
    for _ in range(2):
        with start(root, cache=tmp_path / "cache") as daemon:
            daemon.wait_ready()
            assert daemon.stop() == 0
        notes = (tmp_path / "cache").rglob("parity-*")
        found.append({note.name: note.stat().st_mtime_ns for note in notes})
    assert len(found[0]) == 1 and found[0] == found[1]


def test_layers_that_integers_are_too_coarse_for_are_made_more_exact(
    repository: Callable[..., Path], start: Callable[..., Daemon]
) -> None:
    root = repository("layers")
    write_yaml(root / "layers", **BUCKET, compile={"precision": "int8"}, parity={"rms": 1e-5})
    with start(root, "--recheck-promotions") as daemon:
        daemon.wait_ready()
        said = r"of (\d+) linear layers \d+ compute with bfloat16 and (\d+) with float32: .*more than 1e-05"
        found = re.search(said, daemon.log())
        assert found and 0 < int(found[2]) <= int(found[1]), daemon.log()
        assert daemon.metric("stoker_promotions_total", outcome="parity") == 0, daemon.log()
        assert daemon.stop() == 0


def test_passes_and_options(
    repository: Callable[..., Path], start: Callable[..., Daemon], kept: Path
) -> None:
    root = repository("mlp")
    (root / "mlp/passes.py").write_text("def apply(graph):\n    graph.eliminate_dead_code()\n")
    write_yaml(root / "mlp", **BUCKET, compile={"passes": "passes.py", "options": {"epilogue_fusion": False}})
    flags = ["--no-promotion-checks", "--allow-passes"]
    # What is compiled is in the cache for those, too, who may not compile it.
    for allowed in (flags, flags[:1]):
        with start(root, *allowed) as daemon, daemon.client() as client:
            daemon.wait_ready()
            x = rows(3)
            np.testing.assert_allclose(
                infer(client, x), eager("mlp", {"x": torch.from_numpy(x)})["y"].numpy(), atol=1e-5
            )
            assert daemon.metric("stoker_tier_requests_total", tier="aot") == 1
            assert daemon.stop() == 0
    found = factors(kept / "kernels", root)
    assert found["inductor.epilogue_fusion"] == "false" and re.fullmatch("[0-9a-f]{64}", found["passes"])


@pytest.mark.parametrize(
    ("levers", "source", "words"),
    [
        ({"options": {"epilogue_fusions": True}}, None, "epilogue_fusions"),
        ({"passes": "passes.py"}, "def apply(graph):\n    raise KeyError('relu')", "apply failed: KeyError: 'relu'"),
        ({"passes": "passes.py"}, "x = 1", "expected a function apply"),
    ],
)
def test_levers_that_the_compiler_cannot_pull_cost_the_compile_only(
    repository: Callable[..., Path],
    start: Callable[..., Daemon],
    fresh_cache: Path,
    levers: dict[str, object],
    source: str | None,
    words: str,
) -> None:
    root = repository("mlp")
    if source is not None:
        (root / "mlp/passes.py").write_text(source)
    write_yaml(root / "mlp", **BUCKET, compile=levers)
    with start(root, "--allow-passes", cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        assert infer(client, rows(2)).shape == (2, 4)
        (line,) = [line for line in daemon.log().splitlines() if "stays on eager" in line]
        assert words in line
        assert daemon.stop() == 0


def test_a_budget_goes_to_what_is_asked_for_most(
    repository: Callable[..., Path], start: Callable[..., Daemon], fake_compiler, tmp_path: Path
) -> None:
    """The stand-in says that a compile took 7.5 s; what it makes can't be opened."""
    root = repository("mlp")
    write_yaml(root / "mlp", max_batch_size=8, buckets={"batch": [1, 8]}, compile={"budget_seconds": 10})
    cache = tmp_path / "cache"
    with start(root, "--no-compile", cache=cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        for _ in range(3):
            infer(client, rows(5))
        infer(client, rows(1))
        assert daemon.stop() == 0
    with start(root, fake_compiler("--job", "ok"), cache=cache) as daemon:
        daemon.wait_ready()
        reasons = re.findall(r"mlp:1 (batch=\d): stays on eager \((\w+)\): (.*)", daemon.log())
        assert [reason[:2] for reason in reasons] == [("batch=8", "open"), ("batch=1", "budget")]
        assert reasons[1][2].startswith("not compiled: 8 of budget_seconds 10 are spent")
        assert daemon.metric("stoker_compile_seconds_count") == 1
        assert daemon.metric("stoker_fallbacks_total", reason="budget") == 1
        assert daemon.stop() == 0


def test_what_does_not_pay_back_is_left(
    repository: Callable[..., Path], start: Callable[..., Daemon], fake_compiler, tmp_path: Path
) -> None:
    """Without traffic nothing is worth a compile. With some, the first one is to show what compiling
    gains; what the stand-in makes can't be opened, so nobody knows and the other is left."""
    root = repository("mlp")
    levers = {"pays_back_within": 1000000}
    write_yaml(root / "mlp", max_batch_size=8, buckets={"batch": [1, 8]}, compile=levers)
    cache = tmp_path / "cache"
    with start(root, fake_compiler("--job", "ok"), cache=cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        assert daemon.metric("stoker_compile_seconds_count") == 0
        assert daemon.log().count("(payback): not compiled: pays_back_within is 1000000, and no traffic") == 2
        for _ in range(3):
            infer(client, rows(5))
        assert daemon.stop() == 0
    with start(root, fake_compiler("--job", "ok"), cache=cache) as daemon:
        daemon.wait_ready()
        reasons = re.findall(r"mlp:1 (batch=\d): stays on eager \((\w+)\): (.*)", daemon.log())
        assert [reason[:2] for reason in reasons] == [("batch=8", "open"), ("batch=1", "payback")]
        assert reasons[1][2].endswith("no bucket of model mlp was measured here yet")
        assert daemon.metric("stoker_fallbacks_total", reason="payback") == 1
        assert daemon.stop() == 0
    plan = json.loads(ctl("--cache", cache, "--json", "plan", f"--model-repository={root}"))
    assert all("pays_back_requests" not in bucket for bucket in plan["buckets"])


def test_traffic_makes_buckets_pay_back_while_serving(
    repository: Callable[..., Path], start: Callable[..., Daemon], fresh_cache: Path
) -> None:
    root = repository("mlp")
    levers = {"pays_back_within": 10**12}
    write_yaml(root / "mlp", max_batch_size=8, buckets={"batch": [8]}, compile=levers)
    with start(root, "--rebucket-seconds=1", cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        infer(client, rows(5))
        eventually(lambda: "batch=8: compiled" in daemon.log(), "the bucket is compiled")
        assert infer(client, rows(5)).shape == (5, 4)
        assert daemon.stop() == 0
    plan = json.loads(ctl("--cache", fresh_cache, "--json", "plan", f"--model-repository={root}"))
    (bucket,) = plan["buckets"]
    assert bucket["hit"] and bucket["pays_back_requests"] > 0


CLAMP = """
import torch

def apply(graph):
    (x,) = graph.find_nodes(op="placeholder")
    with graph.inserting_after(x):
        clamped = graph.call_function(torch.ops.aten.clamp.default, (x, -MOST, MOST))
    clamped.meta = dict(x.meta)
    x.replace_all_uses_with(clamped, delete_user_cb=lambda user: user is not clamped)
"""


def test_passes_run_only_where_that_is_allowed(
    repository: Callable[..., Path], start: Callable[..., Daemon], fresh_cache: Path
) -> None:
    root = repository("mlp")
    trace = root / "trace"
    (root / "mlp/passes.py").write_text(f"open({str(trace)!r}, 'w')\ndef apply(graph):\n    pass\n")
    write_yaml(root / "mlp", **BUCKET, compile={"passes": "passes.py"})
    with start(root, cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        assert infer(client, rows(2)).shape == (2, 4)
        (line,) = [line for line in daemon.log().splitlines() if "stays on eager" in line]
        assert "passes.py, which is code of the model's author: stokerd was started without --allow-passes" in line
        assert daemon.stop() == 0
    assert not trace.exists()


def test_recorded_requests_show_what_made_up_inputs_do_not(
    repository: Callable[..., Path], start: Callable[..., Daemon], fresh_cache: Path
) -> None:
    """The pass is wrong for values that the seeded inputs never have."""
    root = repository("mlp")
    (root / "mlp/passes.py").write_text(CLAMP.replace("MOST", "500.0"))
    levers = {**BUCKET, "compile": {"passes": "passes.py"}}
    write_yaml(root / "mlp", **levers, parity={"recorded": 4})
    with start(root, "--no-compile", cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        infer(client, 1000 * rows(3))
        assert daemon.stop() == 0
    with start(root, "--allow-passes", cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        assert "stays on eager (parity): recorded request 0, batch=3 padded" in daemon.log()
        assert daemon.metric("stoker_promotions_total", outcome="parity") == 1
        assert daemon.stop() == 0
    evidence = ctl("--json", "--cache", fresh_cache, "parity", "mlp", "--model-repository", root, code=1)
    cases = json.loads(evidence)[0]["verdict"]["cases"]
    assert [case.get("recorded", False) for case in cases].count(True) == 1
    write_yaml(root / "mlp", **levers)
    with start(root, "--allow-passes", cache=fresh_cache) as daemon:
        daemon.wait_ready()
        assert daemon.metric("stoker_promotions_total", outcome="promoted") == 1
        assert daemon.stop() == 0
    # The ends of what is made up find more.
    (root / "mlp/passes.py").write_text(CLAMP.replace("MOST", "50.0"))
    with start(root, "--allow-passes", cache=fresh_cache) as daemon:
        daemon.wait_ready()
        assert "stays on eager (parity): extremes of seed" in daemon.log()
        assert daemon.stop() == 0
