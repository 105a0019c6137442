"""A first start compiles each bucket once; a second start compiles nothing and answers the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tritonclient.grpc as triton


def infer(client: triton.InferenceServerClient, rows: np.ndarray) -> np.ndarray:
    x = triton.InferInput("x", rows.shape, "FP32")
    x.set_data_from_numpy(rows)
    return client.infer("mlp", [x]).as_numpy("y")


def test_second_start_compiles_nothing(repository, start, fresh_cache: Path) -> None:
    root = repository("mlp")
    rows = np.random.default_rng(0).standard_normal((3, 16), dtype=np.float32)

    with start(root, cache=fresh_cache) as daemon, daemon.client() as client:
        # Listening before anything is loaded: live, not ready, and it says why.
        assert client.is_server_live()
        daemon.wait_ready()
        first = infer(client, rows)
        assert daemon.metric("stoker_cache_requests_total", result="hit") == 0
        assert daemon.metric("stoker_compile_seconds_count", outcome="ok") == 2
        assert daemon.metric("stoker_bucket_state", state="compiled") == 2
        assert daemon.metric("stoker_tier_requests_total", tier="aot", bucket="batch=8") == 1
        assert daemon.stop() == 0

    with start(root, cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready(20)
        assert daemon.metric("stoker_compile_worker_starts_total") == 0
        assert daemon.metric("stoker_compile_seconds_count") == 0
        assert daemon.metric("stoker_cache_requests_total", result="hit") == 2
        assert daemon.metric("stoker_cache_requests_total", result="miss") == 0
        assert daemon.metric("stoker_bucket_state", state="compiled") == 2
        np.testing.assert_array_equal(infer(client, rows), first)
        assert daemon.stop() == 0
