"""Proves that two daemons that start at once on one empty cache compile each bucket once between them."""

from __future__ import annotations

from pathlib import Path

from tests.integration.clients import check_mlp

BUCKETS = 2  # of mlp


def test_each_key_is_compiled_once(repository, start, fresh_cache: Path) -> None:
    root = repository("mlp")
    with start(root, cache=fresh_cache) as one, start(root, cache=fresh_cache) as two:
        both = (one, two)
        for daemon in both:
            daemon.wait_ready()
        for daemon in both:
            assert daemon.metric("stoker_bucket_state", state="compiled") == BUCKETS, daemon.log()
            with daemon.client() as client:
                check_mlp(client, 1)
                check_mlp(client, 8)
            assert daemon.metric("stoker_tier_requests_total", tier="aot") == 2

        def total(name: str, **labels: str) -> float:
            return sum(daemon.metric(name, **labels) for daemon in both)

        assert total("stoker_compile_seconds_count", outcome="ok") == BUCKETS
        assert total("stoker_compile_seconds_count") == BUCKETS
        assert total("stoker_cache_commits_total", result="ok") == BUCKETS
        assert total("stoker_cache_commits_total") == BUCKETS
        assert total("stoker_fallbacks_total") == 0
        for daemon in both:
            assert daemon.stop() == 0
    assert len(list(fresh_cache.glob("v1/entries/*/*"))) == BUCKETS
    assert not list((fresh_cache / "v1/staging").iterdir())
