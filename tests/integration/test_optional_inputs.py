"""Proves that a request may leave out an input for which there is a default, as at Triton an optional one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.integration.clients import rows
from tests.integration.daemon import ctl, only_failure
from tests.integration.tensor_asks import Given, asked, by_grpc, by_http

PBTXT = """\
max_batch_size: 8
input [
  { name: "x" data_type: TYPE_FP32 dims: [ 16 ] },
  { name: "scale" data_type: TYPE_FP32 dims: [ 1 ] reshape { } optional: true }
]
dynamic_batching { max_queue_delay_microseconds: 20000 }
parameters { key: "default.scale" value { string_value: "2.5" } }
"""
YAML = """\
max_batch_size: 8
inputs:
  scale: {dims: [1], default: 2.5}
dynamic_batching: {max_queue_delay_microseconds: 20000}
"""
MISSING = (
    "expected number of inputs between 1 and 2 but got 1 inputs for model 'scaled'. "
    "Got input(s) ['scale'], but missing required input(s) ['x']"
)


@pytest.mark.parametrize(("file", "text"), [("config.pbtxt", PBTXT), ("model.yaml", YAML)])
def test_with_and_without(configured, start, file: str, text: str) -> None:
    with start(configured("scaled", file, text), "--no-compile") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:

            def ask(seed: int) -> None:
                """Every second request leaves the input out; several are in a batch."""
                x = rows(1 + seed % 3, seed)
                scale = np.full((len(x), 1), seed, np.float32)
                inputs = [Given("x", x)] if seed % 2 else [Given("x", x), Given("scale", scale)]
                answer = by_grpc(client, "scaled", *inputs)
                np.testing.assert_allclose(answer["y"], x * (2.5 if seed % 2 else seed), rtol=1e-6)

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(ask, range(64)))
            (stats,) = client.get_inference_statistics("scaled").model_stats
            assert stats.execution_count < 64  # there were batches of several
            config = client.get_model_config("scaled").config
            assert [tensor.optional for tensor in config.input] == [False, True]
            with pytest.raises(InferenceServerException) as caught:
                by_grpc(client, "scaled", Given("scale", np.ones((1, 1), np.float32)))
            assert caught.value.message() == MISSING
        x = Given("x", rows(2))
        asks = [asked("scaled", binary, x) for binary in (False, True)]
        wrong = asked("scaled", True, Given("scale", np.ones((1, 1), np.float32)))
        *answers, refused = by_http(daemon, [*asks, wrong])
        for answer in answers:
            np.testing.assert_allclose(answer["y"]["data"], (rows(2) * 2.5).reshape(-1), rtol=1e-6)
        assert refused == MISSING
        assert daemon.stop() == 0


def test_what_convert_writes_means_the_same(configured, start) -> None:
    root = configured("scaled", "config.pbtxt", PBTXT)
    assert "model.yaml: written" in ctl("convert", root / "scaled")
    with start(root, "--no-compile") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            answer = by_grpc(client, "scaled", Given("x", rows(3)))
        np.testing.assert_allclose(answer["y"], rows(3) * 2.5, rtol=1e-6)
        assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        (
            "config.pbtxt",
            PBTXT.replace("default.scale", "scale"),
            "config.pbtxt:4: input[1].optional: expected parameters with the key default.scale",
        ),
        (
            "config.pbtxt",
            PBTXT.replace('"2.5"', '"much"'),
            'config.pbtxt:7: inputs.scale.default: expected a number, got the text "much"',
        ),
        (
            "model.yaml",
            YAML.replace("  scale", "  x: {default: 0}\n  scale"),
            "model.yaml:3: inputs.x.default: expected inputs without default that have the dimension batch, got none",
        ),
    ],
)
def test_what_is_missing_is_said(configured, start, file: str, text: str, reason: str) -> None:
    with start(configured("scaled", file, text), "--no-compile") as daemon:
        assert reason in only_failure(daemon)
