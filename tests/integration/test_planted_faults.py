"""Proves that machine code with a planted fault is never served, and that healthy code is not taken for
spoiled: that of the same programs, and that of random ones."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
import torch

from tests.fakes.stand_in import stand_in
from tests.faults import healthy_artifacts, spoiled_programs
from tests.faults.spoiled_programs import BATCH, PROGRAMS
from tests.integration import wire
from tests.integration.daemon import REPO, Daemon
from tests.kept import COMPILER, digest

FAULTY_COMPILER = REPO / "tests/fakes/faulty_compiler.py"
RANDOM_PROGRAMS = 6
# What eager in the daemon and in Python may differ by: they don't always take the same kernels.
TOLERANCES = {torch.float32: (1e-4, 1e-6), torch.float64: (1e-12, 1e-14), torch.bfloat16: (2e-2, 2e-2)}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("spoiled") / "models"
    spoiled_programs.write(root)
    return root


@pytest.fixture(scope="module")
def spoiled(
    programs: Path,
    kept: Path,
    fresh_caches: Callable[[], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Daemon]:
    """A daemon that has warmed up with the faulty compiler. Its cache is nobody else's; the artifacts,
    not what was found about them, are kept for as long as neither compiler changes."""
    sources = [*COMPILER, FAULTY_COMPILER, Path(spoiled_programs.__file__)]
    artifacts = kept / f"spoiled-{digest(sources)}"
    cache = fresh_caches()
    if artifacts.exists():
        shutil.copytree(artifacts, cache / "v1/entries")
    folder = tmp_path_factory.mktemp("spoiled")
    python = stand_in(folder / "python", FAULTY_COMPILER.name)
    with Daemon(programs, cache, folder / "stokerd.log", f"--compiler-python={python}") as daemon:
        daemon.wait_ready()
        if daemon.metric("stoker_compile_seconds_count") > 0:
            shutil.rmtree(artifacts, ignore_errors=True)
            shutil.copytree(cache / "v1/entries", artifacts)
        yield daemon


@pytest.fixture(scope="module")
def healthy(
    programs: Path, unjudged: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemon]:
    """A daemon with the same programs and the real compiler."""
    log = tmp_path_factory.mktemp("healthy") / "stokerd.log"
    with Daemon(programs, unjudged(programs), log, "--no-compile") as daemon:
        daemon.wait_ready()
        yield daemon


def ask(daemon: Daemon, model: str, x: torch.Tensor) -> torch.Tensor:
    with grpc.insecure_channel(daemon.address) as channel:
        return wire.read(wire.stub(channel).ModelInfer(wire.raw_request(model, {"x": x})))["y"]


@pytest.mark.parametrize("model", list(PROGRAMS))
def test_a_spoiled_artifact_stays_out(spoiled: Daemon, model: str) -> None:
    warning = rf"warning\S* {re.escape(model)}:1 batch={BATCH}: stays on eager \((\w+)\): (.*)"
    reasons = re.findall(warning, spoiled.log())
    largest = spoiled.metric("stoker_parity_max_abs_error", model=model)
    assert [reason for reason, _ in reasons] == ["parity"], f"{reasons}, largest difference {largest:.2g}"
    assert spoiled.metric("stoker_promotions_total", model=model, outcome="parity") == 1
    assert spoiled.metric("stoker_promotions_total", model=model) == 1
    assert spoiled.metric("stoker_bucket_state", model=model, state="eager") == 1
    for rows in (BATCH, 3):
        x = spoiled_programs.example(model, rows, seed=rows)
        with torch.no_grad():
            expected = spoiled_programs.module(model)(x)["y"]
        rtol, atol = TOLERANCES[expected.dtype]
        torch.testing.assert_close(ask(spoiled, model, x), expected, rtol=rtol, atol=atol)
    assert spoiled.metric("stoker_tier_requests_total", model=model, tier="eager") == 2
    assert spoiled.metric("stoker_tier_requests_total", model=model) == 2


def test_the_same_programs_in_health(healthy: Daemon) -> None:
    assert healthy.metric("stoker_bucket_state") == len(PROGRAMS)
    refused = re.findall(r"stays on eager \((?!profit).*", healthy.log())
    assert refused == []
    assert healthy.metric("stoker_promotions_total", outcome="parity") == 0


def test_random_programs_in_health(unjudged: Callable[[Path], Path], tmp_path: Path) -> None:
    """`python -m tests.faults.healthy_artifacts` does more of it."""
    described = healthy_artifacts.write_all(range(RANDOM_PROGRAMS), tmp_path)
    outcomes = healthy_artifacts.check(described, tmp_path, unjudged(tmp_path))
    assert [outcome for outcome in outcomes if outcome.is_false_alarm or not outcome.is_checked] == []
    assert len(outcomes) == RANDOM_PROGRAMS
