"""A cache that one machine has filled serves another that has no compiler, and says what it lacks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.clients import check_mlp
from tests.integration.daemon import Daemon, ctl, eventually, warm_up, write_yaml


def warm(root: Path, cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_up(root, cache, "--log-level=error", *arguments, seconds=300)


@pytest.fixture(scope="module")
def filled(kept: Path, exported: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with everything that "mlp" needs, made by --warm-only."""
    root = tmp_path_factory.mktemp("warm")
    (root / "models").mkdir()
    (root / "models/mlp").symlink_to(exported("mlp"))
    done = warm(root / "models", kept / "kernels")
    assert done.returncode == 0, done.stderr
    assert "2 compiled, 0 refused on evidence, 0 without an artifact, 0 versions failed" in done.stdout
    header, first, second = done.stdout.splitlines()[:3]
    assert header.split() == ["MODEL", "BUCKET", "KEY", "OUTCOME"]
    assert first.startswith("mlp:1  batch=1") and second.startswith("mlp:1  batch=8")
    assert "2 of 2 buckets settled" in done.stderr
    return kept / "kernels"


def test_a_frozen_daemon_serves_from_a_layer(
    filled: Path, repository: Callable[..., Path], start: Callable[..., Daemon], tmp_path: Path
) -> None:
    layer = f"--cache-layer={filled}"
    with start(repository("mlp"), "--frozen", "--require-cache", layer, cache=tmp_path / "upper") as daemon:
        daemon.wait_ready(30)
        with daemon.client() as client:
            check_mlp(client)
        assert daemon.metric("stoker_cache_requests_total", layer="lower", result="hit") == 2
        assert daemon.metric("stoker_bucket_state", state="compiled") == 2
        assert daemon.metric("stoker_compile_worker_starts_total") == 0
        assert daemon.metric("stoker_compile_seconds_saved_total") > 0
        assert daemon.stop() == 0
    assert list((tmp_path / "upper/v1/entries").iterdir()) == []


def test_a_required_cache_that_lacks_a_bucket(
    filled: Path, repository: Callable[..., Path], start: Callable[..., Daemon], tmp_path: Path
) -> None:
    root = repository("mlp")
    write_yaml(root / "mlp", buckets={"batch": [1, 3]}, max_batch_size=3)
    with start(root, "--frozen", "--require-cache", f"--cache-layer={filled}", cache=tmp_path / "c") as daemon:
        with daemon.client() as client:
            eventually(lambda: bool(client.get_model_repository_index().models), "the repository is read")
            eventually(lambda: "UNAVAILABLE" in str(client.get_model_repository_index()), "it is refused", 30)
            (line,) = client.get_model_repository_index().models
            assert "lacks 1 of 2 buckets: batch=3 (key " in line.reason, line.reason
            assert not client.is_server_ready()
            assert client.is_server_live()


def test_warm_only_says_what_went_wrong(repository: Callable[..., Path], tmp_path: Path) -> None:
    done = warm(repository("mlp"), tmp_path / "cache", "--no-compile")
    assert done.returncode == 1
    assert "no_compiler" in done.stdout and "2 without an artifact" in done.stdout
    (tmp_path / "empty").mkdir()
    assert warm(tmp_path / "empty", tmp_path / "cache").returncode == 1


def test_explain_and_plan(filled: Path, repository: Callable[..., Path], tmp_path: Path) -> None:
    root = repository("mlp")
    models = f"--model-repository={root}"
    explained = json.loads(ctl("--json", "--cache", filled, "cache", "explain", models))
    assert [row["hit"] for row in explained] == [True, True]
    assert "needs 0 compiles" in ctl("--cache", filled, "plan", "mlp", models)

    # Another compiler: the only factor that differs, and its old and new value.
    other = ["--cache", filled, "cache", "explain", models, "--cxx=g++ 99.1.0"]
    assert "cxx: g++ " in ctl(*other, code=1) and "-> g++ 99" in ctl(*other, code=1)
    for row in json.loads(ctl("--json", *other, code=1)):
        (difference,) = row["differences"]
        assert difference["factor"] == "cxx" and difference["wanted"] == "g++ 99"
    plan = json.loads(ctl("--json", "--cache", filled, "plan", models, "--cxx=g++ 99.1.0"))
    assert plan["compiles"] == 2 and plan["expected_seconds"] > 0

    # One artifact is for any number of threads.
    explained = json.loads(ctl("--json", "--cache", filled, "cache", "explain", models, "--cores=64"))
    assert [row["hit"] for row in explained] == [True, True]

    assert "no model 'nothing'" in ctl("--cache", filled, "plan", "nothing", models, code=4)
    assert "there is no folder" in ctl("--cache", tmp_path / "none", "cache", "list", code=4)
    assert not (tmp_path / "none").exists()


def test_house_keeping(filled: Path, repository: Callable[..., Path], tmp_path: Path) -> None:
    models = f"--model-repository={repository('mlp')}"
    ours = [row["key"] for row in json.loads(ctl("--json", "--cache", filled, "cache", "explain", models))]
    entries = {entry["key"]: entry for entry in json.loads(ctl("--json", "--cache", filled, "cache", "list"))}
    first, second = (entries[key] for key in ours)
    shown = ctl("--cache", filled, "cache", "show", first["key"][:16])
    assert "factors of the key" in shown and "cpu.march" in shown and "model.so" in shown
    assert first["compile_seconds"] > 0 and first["bytes"] > 10_000
    differences = ctl("--cache", filled, "cache", "diff", first["key"], second["key"], code=1)
    header, (size, *values) = (line.split() for line in differences.splitlines())
    assert header[0] == "FACTOR" and size.startswith("size.") and values == ["1", "8"]

    mine = tmp_path / "mine"
    subprocess.run(["cp", "-a", filled, mine], check=True)
    assert " 0 bad" in ctl("--cache", mine, "cache", "verify")
    library = mine / f"v1/entries/{first['key'][:2]}/{first['key']}/model.so"
    damaged = bytearray(library.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    library.write_bytes(damaged)
    bad = ctl("--cache", mine, "cache", "verify", code=1)
    assert first["key"][:12] in bad and "has SHA-256" in bad and "/proc/" not in bad
    assert (mine / f"v1/quarantine/{first['key']}.0/reason.txt").exists()

    ctl("--cache", mine, "cache", "pin", second["key"])
    assert "is pinned" in ctl("--cache", mine, "cache", "rm", second["key"], code=4)
    ctl("--cache", mine, "cache", "gc", "--max-mb=1", "--dry-run")
    before = len(json.loads(ctl("--json", "--cache", mine, "cache", "list")))
    assert before >= 1
    os.utime(mine / f"v1/entries/{second['key'][:2]}/{second['key']}/manifest.sha256", (0, 0))
    ctl("--cache", mine, "cache", "gc", "--max-age-days=1")
    assert second["key"] in ctl("--json", "--cache", mine, "cache", "list")
    ctl("--cache", mine, "cache", "unpin", second["key"])
    assert "evicted 1 entries" in ctl("--cache", mine, "cache", "gc", "--max-age-days=1")
    assert second["key"] not in ctl("--json", "--cache", mine, "cache", "list")
    assert json.loads(ctl("--json", "--cache", mine, "cache", "stats"))["entries"] == before - 1


def test_one_entry_is_removed_by_its_key(filled: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    subprocess.run(["cp", "-a", filled, mine], check=True)
    gone, *left = (entry["key"] for entry in json.loads(ctl("--json", "--cache", mine, "cache", "list")))
    assert "is removed" in ctl("--cache", mine, "cache", "rm", gone)
    assert [entry["key"] for entry in json.loads(ctl("--json", "--cache", mine, "cache", "list"))] == left
    assert not (mine / "v1/notes" / gone).exists()
    assert "no entry" in ctl("--cache", mine, "cache", "rm", gone, code=4)
    # What is in a layer is somebody else's.
    layered = ["--cache", tmp_path / "upper", "--cache-layer", filled]
    (tmp_path / "upper").mkdir(mode=0o700)
    assert "only read" in ctl(*layered, "cache", "rm", left[0], code=4)
