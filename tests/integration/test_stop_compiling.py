"""Proves that a stop or kill -9 in the middle of a compile leaves no process and no partial entry."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.integration.clients import check_mlp
from tests.integration.daemon import Daemon, eventually, write_yaml


def gone(pid: int) -> bool:
    """Ended; a zombie that its new parent has not looked at yet counts."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def left_in(cache: Path) -> list[Path]:
    """Entries and drafts of them."""
    return [*cache.glob("v1/entries/*/*"), *cache.glob("v1/staging/*")]


def wait_for_phase(daemon: Daemon, phase: str) -> list[int]:
    """Waits until a bucket is in this phase; the pids of all of the daemon's descendants then."""

    def there() -> bool:
        with daemon.client() as client:
            models = client.get_model_repository_index().models  # none before the folder was read
        return any(f": {phase}, " in model.reason for model in models)

    eventually(there, f"a compile is in phase {phase}:\n{daemon.log()}", 240)
    children = daemon.children()
    assert children
    return children


def all_gone(pids: list[int]) -> None:
    eventually(lambda: all(map(gone, pids)), f"processes {pids} end", 20)


def test_sigterm_while_a_worker_hangs(repository, start, fake_compiler, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with start(repository("mlp"), fake_compiler("--job", "hang"), cache=cache) as daemon:
        children = wait_for_phase(daemon, "build")
        assert daemon.stop(15) == 0
    all_gone(children)
    assert not left_in(cache)


def test_sigterm_while_a_worker_starts(repository, start, fake_compiler, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with start(repository("mlp"), fake_compiler("--start", "silent"), cache=cache) as daemon:
        eventually(lambda: bool(daemon.children()), "the worker starts")
        children = daemon.children()
        assert daemon.stop(15) == 0
    all_gone(children)
    assert not left_in(cache)


def test_sigterm_while_the_compiler_works(repository, start, fresh_cache: Path) -> None:
    with start(repository("mlp"), cache=fresh_cache) as daemon:
        children = wait_for_phase(daemon, "lower")
        assert len(children) >= 2  # the worker and a job of it
        assert daemon.stop(15) == 0
    all_gone(children)
    assert not left_in(fresh_cache)
    assert not list((fresh_cache / "v1/scratch/work").glob("*"))


def test_kill_while_the_compiler_works(repository, start, kept: Path, fresh_cache: Path) -> None:
    root = repository("mlp")
    with start(root) as daemon:  # whatever compiled entries there are, come from here
        daemon.wait_ready()
        assert daemon.stop() == 0
    for folder in ("entries", "notes"):
        shutil.copytree(kept / "kernels/v1" / folder, fresh_cache / "v1" / folder)
    before = set(left_in(fresh_cache))
    write_yaml(root / "mlp", max_batch_size=8, buckets={"batch": [1, 5, 8]}, ready_when="eager")

    with start(root, cache=fresh_cache) as daemon:
        children = wait_for_phase(daemon, "lower")
        daemon.kill()
        all_gone(children)
    drafts = set(left_in(fresh_cache)) - before
    assert drafts and all(draft.parent.name == "staging" for draft in drafts)

    with start(root, "--no-compile", cache=fresh_cache) as daemon, daemon.client() as client:
        eventually(lambda: "warm-up done" in daemon.log(), "the warm-up ends")
        assert daemon.metric("stoker_cache_requests_total", result="damaged") == 0
        for bucket, state in (("batch=1", "compiled"), ("batch=5", "eager"), ("batch=8", "compiled")):
            assert daemon.metric("stoker_bucket_state", bucket=bucket, state=state) == 1, daemon.log()
        for count in (1, 5, 8):
            check_mlp(client, count)
        assert daemon.stop() == 0
    assert set(left_in(fresh_cache)) == before
