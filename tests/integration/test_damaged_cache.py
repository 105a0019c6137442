"""Proves that a damaged cache entry is set aside, and its bucket served eager or compiled anew."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.clients import check_mlp

Copy = Callable[[Path], Path]
PROMOTED = re.compile(r"mlp:1 batch=8: compiled, .* key (\w+)")


@pytest.fixture
def copy_entries(repository, start, kept: Path) -> Copy:
    """copy_entries(cache) gives a cache mlp's good entries; returns that of the larger bucket."""
    with start(repository("mlp")) as daemon:
        daemon.wait_ready()
        assert daemon.metric("stoker_bucket_state", state="compiled") == 2
        promoted = PROMOTED.search(daemon.log())
        assert promoted, daemon.log()
        short_key = promoted[1]
        assert daemon.stop() == 0

    def copy(cache: Path) -> Path:
        for folder in ("entries", "notes"):
            shutil.copytree(kept / "kernels/v1" / folder, cache / "v1" / folder)
        (entry,) = cache.glob(f"v1/entries/*/{short_key}*")
        return entry

    return copy


def flip_a_bit(entry: Path) -> None:
    code = bytearray((entry / "model.so").read_bytes())
    code[len(code) // 2] ^= 1
    rewrite(entry / "model.so", bytes(code))


def cut_the_manifest(entry: Path) -> None:
    rewrite(entry / "manifest.json", (entry / "manifest.json").read_bytes()[:100])


def lose_the_code(entry: Path) -> None:
    (entry / "model.so").unlink()


def rewrite(path: Path, content: bytes) -> None:
    path.unlink()  # whatever its permissions are
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(flip_a_bit, "checksum"), (cut_the_manifest, "manifest"), (lose_the_code, "missing_file")],
)
def test_served_eager_without_a_compiler(
    repository, start, copy_entries: Copy, tmp_path: Path, damage: Callable[[Path], None], reason: str
) -> None:
    cache = tmp_path / "cache"
    entry = copy_entries(cache)
    damage(entry)
    with start(tmp_path / "models", "--no-compile", cache=cache) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        assert daemon.metric("stoker_cache_requests_total", result="damaged") == 1
        assert daemon.metric("stoker_cache_rejections_total", reason=reason) == 1
        assert daemon.metric("stoker_fallbacks_total", reason="no_compiler") == 1
        assert daemon.metric("stoker_bucket_state", state="compiled", bucket="batch=1") == 1
        assert daemon.metric("stoker_bucket_state", state="eager", bucket="batch=8") == 1
        check_mlp(client, 1)
        check_mlp(client, 8)
        assert daemon.metric("stoker_tier_requests_total", tier="aot", bucket="batch=1") == 1
        assert daemon.metric("stoker_tier_requests_total", tier="eager", bucket="batch=8") == 1
        assert daemon.stop() == 0
    assert not entry.exists()
    (aside,) = (cache / "v1/quarantine").iterdir()
    assert (aside / "reason.txt").read_text().strip()
    assert "set aside" in daemon.log()


def test_compiled_anew(start, copy_entries: Copy, tmp_path: Path, fresh_cache: Path) -> None:
    entry = copy_entries(fresh_cache)
    flip_a_bit(entry)
    with start(tmp_path / "models", cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        assert daemon.metric("stoker_cache_rejections_total", reason="checksum") == 1
        assert daemon.metric("stoker_compile_seconds_count", outcome="ok") == 1
        assert daemon.metric("stoker_bucket_state", state="compiled") == 2
        check_mlp(client, 8)
        assert daemon.metric("stoker_tier_requests_total", tier="aot", bucket="batch=8") == 1
        assert daemon.stop() == 0
    assert entry.exists()
