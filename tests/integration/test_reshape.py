"""Proves that clients see the shapes of a model's configuration, and the program its own: Triton's `reshape`."""

from __future__ import annotations

import numpy as np
import pytest
import tritonclient.grpc as triton
import yaml
from tritonclient.utils import InferenceServerException

from tests.integration.clients import rows
from tests.integration.daemon import Daemon, ctl, only_failure
from tests.integration.tensor_asks import Given, asked, by_grpc, by_http

PBTXT = """\
max_batch_size: 8
input [
  { name: "x" data_type: TYPE_FP32 dims: [ 4, 4 ] reshape { shape: [ 16 ] } },
  { name: "scale" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }
]
output [
  { name: "y" data_type: TYPE_FP32 dims: [ 2, 8 ] reshape { shape: [ 16 ] } },
  { name: "total" data_type: TYPE_FP32 dims: [ 1 ] reshape { } }
]
"""
YAML = """\
max_batch_size: 8
inputs:
  x: {dims: [4, 4]}
  scale: {dims: [1]}
outputs:
  y: {dims: [2, 8], reshape: [16]}
  total: {dims: [1], reshape: []}
"""


def given(count: int) -> list[Given]:
    scale = np.arange(1, count + 1, dtype=np.float32)
    return [Given("x", rows(count).reshape(count, 4, 4)), Given("scale", scale.reshape(count, 1))]


def right(count: int) -> tuple[np.ndarray, np.ndarray]:
    y = rows(count) * np.arange(1, count + 1, dtype=np.float32)[:, None]
    return y.reshape(count, 2, 8), y.sum(1).reshape(count, 1)


def check_answer(answer: dict[str, np.ndarray], count: int) -> None:
    y, total = right(count)
    assert answer["y"].shape == (count, 2, 8) and answer["total"].shape == (count, 1)
    np.testing.assert_allclose(answer["y"], y, rtol=1e-6)
    np.testing.assert_allclose(answer["total"], total, rtol=1e-4, atol=1e-5)


def check_grpc(client: triton.InferenceServerClient) -> None:
    for count in (1, 3, 8):
        check_answer(by_grpc(client, "scaled", *given(count)), count)
    metadata = client.get_model_metadata("scaled")
    assert [list(tensor.shape) for tensor in metadata.inputs] == [[-1, 4, 4], [-1, 1]]
    assert [list(tensor.shape) for tensor in metadata.outputs] == [[-1, 2, 8], [-1, 1]]
    config = client.get_model_config("scaled").config
    assert [(list(tensor.dims), list(tensor.reshape.shape)) for tensor in config.input] == [([4, 4], [16]), ([1], [])]
    assert [(list(tensor.dims), list(tensor.reshape.shape)) for tensor in config.output] == [([2, 8], [16]), ([1], [])]
    assert all(tensor.HasField("reshape") for tensor in [*config.input, *config.output])
    x, scale = given(3)
    for wrong, text in (
        (Given("x", rows(3)), r"Expected \[-1,4,4\], reshaped to \[-1,16\] for the program, got \[3,16\]: the first"),
        (Given("x", rows(3).reshape(3, 2, 8)), r"got \[3,2,8\]: sizes other than -1 are fixed"),
        (Given("x", rows(2).reshape(2, 4, 4)), "input 'scale' batch size does not match"),
    ):
        with pytest.raises(InferenceServerException, match=text):
            by_grpc(client, "scaled", wrong, scale)
    with pytest.raises(InferenceServerException, match=r"shape for input 'scale'.*Expected \[-1,1\]"):
        by_grpc(client, "scaled", x, Given("scale", scale.elements.reshape(3)))


def check_http(daemon: Daemon) -> None:
    asks = [asked("scaled", binary, *given(3)) for binary in (False, True)]
    wrong = asked("scaled", False, Given("x", rows(3)), given(3)[1])
    *answers, refused, (metadata, config) = by_http(daemon, [*asks, wrong, {"metadata": "scaled"}])
    for answer in answers:
        arrays = {name: np.array(out["data"], np.float32).reshape(out["shape"]) for name, out in answer.items()}
        check_answer(arrays, 3)
    assert "got [3,16]" in refused
    assert [tensor["shape"] for tensor in metadata["inputs"]] == [[-1, 4, 4], [-1, 1]]
    assert config["input"][0]["reshape"] == {"shape": [16]} or config["input"][0]["reshape"] == {"shape": ["16"]}


@pytest.mark.parametrize(("file", "text"), [("config.pbtxt", PBTXT), ("model.yaml", YAML)])
def test_clients_and_program_have_their_own_shapes(configured, start, file: str, text: str) -> None:
    with start(configured("scaled", file, text), "--no-compile") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            check_grpc(client)
        check_http(daemon)
        assert daemon.stop() == 0


def test_what_convert_writes_means_the_same(configured, start) -> None:
    root = configured("scaled", "config.pbtxt", PBTXT)
    assert "model.yaml: written" in ctl("convert", root / "scaled")
    written = yaml.safe_load((root / "scaled/model.yaml").read_text())
    assert written["inputs"] == {"x": {"dims": [4, 4], "reshape": [16]}, "scale": {"dims": [1], "reshape": []}}
    with start(root, "--no-compile") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            check_grpc(client)
        assert daemon.stop() == 0


def test_what_is_compiled_serves_them_too(configured, start) -> None:
    with start(configured("scaled", "model.yaml", YAML)) as daemon:
        daemon.wait_ready()
        assert daemon.metric("stoker_promotions_total", outcome="parity") == 0
        with daemon.client() as client:
            for count in (1, 3, 8):
                check_answer(by_grpc(client, "scaled", *given(count)), count)
        assert daemon.stop() == 0


def test_sizes_that_requests_choose(repository, start) -> None:
    """Several requests of different sizes, in one batch or not, each with the other rank."""
    root = repository("tokens")
    (root / "tokens/model.yaml").write_text(
        "max_batch_size: 4\n"
        "inputs: {ids: {dims: [1, -1, 1]}, mask: {dims: [-1, 1]}}\n"
        "outputs: {token_embeddings: {dims: [1, -1, 2, 8], reshape: [-1, 16]}}\n"
    )
    with start(root, "--no-compile") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            for count, length in ((1, 3), (4, 7)):
                ids = np.arange(count * length, dtype=np.int64) % 10
                mask = Given("mask", np.ones((count, length, 1), np.int64))
                answer = by_grpc(client, "tokens", Given("ids", ids.reshape(count, 1, length, 1)), mask)
                assert answer["token_embeddings"].shape == (count, 1, length, 2, 8)
                assert answer["pooled"].shape == (count, 16)
            short = Given("mask", np.ones((1, 2, 1), np.int64))
            with pytest.raises(InferenceServerException, match="dimension 'ids.1' is 3 in input 'ids'"):
                by_grpc(client, "tokens", Given("ids", np.ones((1, 1, 3, 1), np.int64)), short)
        assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        (
            "config.pbtxt",
            PBTXT.replace("[ 4, 4 ]", "[ 4, 5 ]"),
            "config.pbtxt:3: input[0].reshape: expected as many elements as dims [4, 5], got [16]",
        ),
        (
            "config.pbtxt",
            PBTXT.replace("reshape { }", ""),
            "config.pbtxt:8: output[1].dims: expected the program's [], without the batch, got [1]",
        ),
        (
            "model.yaml",
            YAML.replace("[4, 4]", "[4, 5]"),
            "model.yaml:3: inputs.x.dims: expected as many elements as the program's [16], got [4, 5]",
        ),
        ("model.yaml", YAML.replace("[16]", "[8, 2]"), "outputs.y.reshape: expected the program's [16]"),
        ("model.yaml", YAML.replace("dims: [1], ", ""), "outputs.total.reshape: expected dims beside it, got none"),
    ],
)
def test_what_does_not_fit_is_said(configured, start, file: str, text: str, reason: str) -> None:
    with start(configured("scaled", file, text), "--no-compile") as daemon:
        assert reason in only_failure(daemon)
