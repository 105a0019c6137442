"""Proves that a `ready_when: eager` version answers at once, fails nobody while compiling, then speeds up."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import grpc
import torch

from tests.integration.daemon import Daemon, eventually, write_yaml
from tests.integration.wire import assert_same, eager, raw_request, read, stub

FIRST_ANSWER_SECONDS = 10  # of a busy machine; on an idle one it takes less than one
EAGER_ANSWERS = 500


class Traffic:
    """Bursts of concurrent requests, one of each batch size."""

    def __init__(self, channel: grpc.Channel) -> None:
        torch.manual_seed(0)
        self.answered = 0
        self._infer = stub(channel).ModelInfer
        self._inputs = [{"x": torch.randn(rows, 16)} for rows in range(1, 9)]

    def burst(self) -> None:
        """Raises what any of the requests met."""
        calls = [self._infer.future(raw_request("mlp", inputs), timeout=30) for inputs in self._inputs]
        for inputs, call in zip(self._inputs, calls, strict=True):
            assert_same(read(call.result()), eager("mlp", inputs))
        self.answered += len(calls)

    def until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Bursts with pauses between them: what is waited for needs the cores too."""

        def burst_and_look() -> bool:
            self.burst()
            return condition()

        eventually(burst_and_look, what, seconds)


def test_eager_first(repository: Callable[..., Path], start: Callable[..., Daemon], fresh_cache: Path) -> None:
    root = repository("mlp")
    write_yaml(root / "mlp", max_batch_size=8, buckets={"batch": [8]}, ready_when="eager")
    launched = time.monotonic()
    with (
        # Whether compiled code pays for so small a model is not the question here.
        start(root, "--no-promotion-checks", cache=fresh_cache) as daemon,
        grpc.insecure_channel(daemon.address) as channel,
    ):

        def served(tier: str) -> float:
            return daemon.metric("stoker_tier_requests_total", model="mlp", tier=tier)

        def compiled() -> bool:
            return daemon.metric("stoker_bucket_state", state="compiled") == 1

        daemon.wait_ready(FIRST_ANSWER_SECONDS)
        traffic = Traffic(channel)
        traffic.burst()
        assert time.monotonic() - launched < FIRST_ANSWER_SECONDS
        assert served("eager") == traffic.answered
        with daemon.client() as client:
            (index,) = client.get_model_repository_index().models
        assert index.state == "READY"
        assert index.reason.startswith("warming up: 0 of 1 buckets settled"), index.reason

        while served("eager") < EAGER_ANSWERS:
            traffic.burst()
            assert not compiled(), "the compile ended before the test could look"
        traffic.until(compiled, f"the bucket is compiled:\n{daemon.log()}", 900)
        by_eager = served("eager")
        while traffic.answered < by_eager + 100:
            traffic.burst()
        assert served("eager") == by_eager
        assert served("aot") == traffic.answered - by_eager
        assert daemon.metric("stoker_requests_total") == traffic.answered
        assert daemon.metric("stoker_requests_total", outcome="ok") == traffic.answered
        eventually(lambda: "eager tier let go" in daemon.log(), "eager is let go")
