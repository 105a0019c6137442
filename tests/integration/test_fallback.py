"""Proves that whatever becomes of a compile, the version serves on eager, says why and counts it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.clients import check_mlp
from tests.integration.daemon import Daemon, ctl

BUCKETS = 2  # of mlp


def expect_eager(daemon: Daemon, reason: str, words: str) -> None:
    """Ready, right answers by the eager tier; `reason` for each bucket in the counter and the log."""
    daemon.wait_ready(60)
    with daemon.client() as client:
        check_mlp(client)
        (line,) = client.get_model_repository_index().models
        assert line.state == "READY"
    warnings = re.findall(r"warning\S* mlp:1 batch=\d+: stays on eager \((\w+)\): (.*)", daemon.log())
    assert [warning[0] for warning in warnings] == [reason] * BUCKETS, daemon.log()
    assert all(words in warning[1] for warning in warnings), daemon.log()
    assert daemon.metric("stoker_fallbacks_total", model="mlp", reason=reason) == BUCKETS
    assert daemon.metric("stoker_fallbacks_total") == BUCKETS
    assert daemon.metric("stoker_bucket_state", state="eager") == BUCKETS
    assert daemon.metric("stoker_tier_requests_total", tier="eager") == 1
    assert daemon.metric("stoker_tier_requests_total") == 1
    assert daemon.stop() == 0


def no_entry(cache: Path) -> bool:
    return not list((cache / "v1/entries").glob("*/*")) and not list((cache / "v1/staging").iterdir())


@pytest.mark.parametrize("flag", ["--no-compile", "--compiler-python=/nonexistent/python"])
def test_no_compiler(repository, start, tmp_path: Path, flag: str) -> None:
    with start(repository("mlp"), flag, cache=tmp_path / "cache") as daemon:
        expect_eager(daemon, "no_compiler", "there is no compiler on this host")


def test_a_compiler_that_never_starts(repository, start, fake_compiler, tmp_path: Path) -> None:
    with start(repository("mlp"), fake_compiler("--start", "die"), cache=tmp_path / "cache") as daemon:
        expect_eager(daemon, "no_compiler", "the compile worker did not start: exit status 3")


@pytest.mark.parametrize(
    ("job", "reason", "outcome", "words"),
    [
        ("error", "compile", "failed", "g++: fatal error: no input files"),
        ("timeout", "timeout", "timeout", "took longer than the limit"),
        ("memory", "memory", "memory", "took more than the limit"),
        ("refuse", "refused", "refused", "an unguarded check is left in the code"),
        ("crash", "compile", "crashed", "killed by signal 9"),
        ("garbage", "compile", "crashed", "expected a JSON object"),
        ("half", "compile", "failed", "the artifact was not accepted"),
    ],
)
def test_a_compile_that_fails(
    repository, start, fake_compiler, tmp_path: Path, job: str, reason: str, outcome: str, words: str
) -> None:
    cache = tmp_path / "cache"
    with start(repository("mlp"), fake_compiler("--job", job), cache=cache) as daemon:
        daemon.wait_ready(60)
        assert daemon.metric("stoker_compile_seconds_count", outcome=outcome) >= BUCKETS
        assert daemon.metric("stoker_compile_seconds_count", outcome="ok") == 0
        expect_eager(daemon, reason, words)
    assert no_entry(cache)


def test_a_refusal_is_known_at_the_next_start(repository, start, fake_compiler, tmp_path: Path) -> None:
    """It is no reason not to be ready, and nothing that another start would compile."""
    models, cache = repository("mlp"), tmp_path / "cache"
    words = "an unguarded check is left in the code"
    with start(models, fake_compiler("--job", "refuse"), cache=cache) as daemon:
        daemon.wait_ready(60)
    plan = ctl("--cache", cache, "plan", f"--model-repository={models}")
    assert plan.count(words) == BUCKETS and "a start here needs 0 compiles" in plan
    with start(models, "--frozen", "--require-cache", cache=cache) as daemon:
        daemon.wait_ready(60)
        expect_eager(daemon, "refused", words)
    with start(models, fake_compiler("--job", "refuse"), "--recheck-promotions", cache=cache) as daemon:
        daemon.wait_ready(60)
        assert daemon.metric("stoker_compile_seconds_count", outcome="refused") == BUCKETS


def test_an_artifact_that_cannot_be_opened(repository, start, fake_compiler, tmp_path: Path) -> None:
    """Checksums and key are right, the machine code is text."""
    cache = tmp_path / "cache"
    with start(repository("mlp"), fake_compiler("--job", "ok"), cache=cache) as daemon:
        daemon.wait_ready(60)
        assert daemon.metric("stoker_cache_commits_total", result="ok") == BUCKETS
        assert daemon.metric("stoker_promotions_total", outcome="open") == BUCKETS
        assert daemon.metric("stoker_cache_rejections_total", reason="open") == BUCKETS
        expect_eager(daemon, "open", "model.so")
    assert no_entry(cache)  # set aside: the next start must not meet them again
