"""Proves that a model that is made of others is served like any, in the queues of its steps' models."""

from __future__ import annotations

import json
import queue
import shutil
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.integration.clients import expected, infer, rows
from tests.integration.daemon import Daemon, ctl, eventually, write_yaml
from tests.integration.tensor_asks import Given, by_grpc
from tests.integration.test_model_control import EXPLICIT, index, refusal

CHAIN = """\
pipeline:
  inputs: [x]
  outputs: [y]
  steps:
  - {name: copy, model: identity, inputs: {x: x}, outputs: {y: hidden}}
  - {name: head, model: mlp, inputs: {x: hidden}, outputs: {y: y}}
"""
ENSEMBLE = """\
platform: "ensemble"
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 16 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling {
  step [
    { model_name: "identity" model_version: -1
      input_map { key: "x" value: "x" } output_map { key: "y" value: "hidden" } },
    { model_name: "mlp" model_version: 1
      input_map { key: "x" value: "hidden" } output_map { key: "y" value: "y" } }
  ]
}
"""


def pipeline(root: Path, name: str, text: str, file: str = "model.yaml") -> Path:
    folder = root / name
    folder.mkdir()
    (folder / file).write_text(text)
    return folder


def ready(daemon: Daemon, model: str) -> None:
    with daemon.client() as client:
        eventually(lambda: client.is_model_ready(model), f"{model} serves:\n{daemon.log()}", 60)


def test_served_like_any_model(repository, start) -> None:
    root = repository("identity", "mlp")
    pipeline(root, "chain", CHAIN)
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        np.testing.assert_allclose(infer(client, rows(3), "chain"), expected(rows(3)), atol=1e-5)
        metadata = client.get_model_metadata("chain")
        assert metadata.platform == "ensemble"
        assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [("x", "FP32", [-1, 16])]
        assert [(t.name, t.datatype, list(t.shape)) for t in metadata.outputs] == [("y", "FP32", [-1, 4])]
        config = client.get_model_config("chain").config
        assert config.max_batch_size == 8
        assert [step.model_name for step in config.ensemble_scheduling.step] == ["identity", "mlp"]
        assert dict(config.ensemble_scheduling.step[1].input_map) == {"x": "hidden"}
        assert index(client)["chain:1"] == ("READY", "")

        # In the model's own figures and queue, and in the pipeline's.
        stats = {s.name: s for s in client.get_inference_statistics().model_stats}
        assert [stats[name].inference_count for name in ("chain", "identity", "mlp")] == [3, 3, 3]
        assert daemon.metric("stoker_pipeline_steps_total", model="chain", step="head", outcome="ok") == 1
        assert daemon.metric("stoker_pipeline_step_seconds_count", model="chain", step="copy") == 1
        assert daemon.metric("stoker_requests_total", model="chain", outcome="ok") == 1

        # Over HTTP.
        given = {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": rows(1)[0].tolist()}]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{daemon.http_port}/v2/models/chain/infer", json.dumps(given).encode()
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            (output,) = json.load(answer)["outputs"]
        np.testing.assert_allclose(output["data"], expected(rows(1))[0], atol=1e-5)

        # In a stream, many at a time.
        received: queue.Queue = queue.Queue()
        client.start_stream(lambda result, error: received.put((result, error)))
        x = triton.InferInput("x", [2, 16], "FP32")
        x.set_data_from_numpy(rows(2))
        for i in range(50):
            client.async_stream_infer("chain", [x], request_id=str(i))
        for i in range(50):
            result, error = received.get(timeout=30)
            assert error is None
            assert result.get_response().id == str(i)
        client.stop_stream()
        assert daemon.stop() == 0


def test_a_step_shares_batches_with_its_models_clients(repository, start) -> None:
    root = repository("identity", "mlp")
    pipeline(root, "chain", CHAIN)
    write_yaml(
        root / "mlp",
        max_batch_size=8,
        buckets={"batch": [1, 8]},
        dynamic_batching={"max_queue_delay_microseconds": 2_000_000, "preferred_batch_size": [8]},
    )
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        with ThreadPoolExecutor(2) as pool:
            by_pipeline = pool.submit(infer, client, rows(3), "chain")
            direct = pool.submit(infer, client, rows(5), "mlp")
            np.testing.assert_allclose(by_pipeline.result(30), expected(rows(3)), atol=1e-5)
            np.testing.assert_allclose(direct.result(30), expected(rows(5)), atol=1e-5)
        (stats,) = client.get_inference_statistics("mlp").model_stats
        assert (stats.inference_count, stats.execution_count) == (8, 1)


LOOKUP = """\
pipeline:
  inputs: [ids, mask]
  outputs: [pooled]
  steps:
  - {name: body, model: tokens, inputs: [ids, mask], outputs: [pooled]}
"""


def test_errors_name_the_step(repository, start) -> None:
    root = repository("identity", "mlp", "tokens")
    pipeline(root, "chain", CHAIN)
    pipeline(root, "lookup", LOOKUP)
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        code, text = refusal(lambda: infer(client, rows(9), "chain"))
        assert code == "INVALID_ARGUMENT" and "batch-size must be <= 8 for 'chain'" in text
        code, text = refusal(lambda: infer(client, rows(1)[:, :3], "chain"))
        assert code == "INVALID_ARGUMENT" and "for model 'chain'" in text
        # A value that only the step's model finds fault with.
        mask = np.ones((1, 3), np.int64)
        assert by_grpc(client, "lookup", Given("ids", 7 * mask), Given("mask", mask))["pooled"].shape == (1, 16)
        code, text = refusal(lambda: by_grpc(client, "lookup", Given("ids", 1000 * mask), Given("mask", mask)))
        assert text.startswith("step 'body': ")
        assert daemon.metric("stoker_pipeline_steps_total", model="lookup", step="body") == 2
        assert daemon.metric("stoker_pipeline_steps_total", model="lookup", step="body", outcome="ok") == 1
        np.testing.assert_allclose(infer(client, rows(3), "chain"), expected(rows(3)), atol=1e-5)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CHAIN.replace("model: mlp", "model: nobody"), "step 'head': expected model 'nobody' to serve, found none"),
        (
            CHAIN.replace("model: identity", "model: mlp"),
            "input 'x' of model 'mlp' takes FP32 [-1,16], and 'y' of step 'copy' is FP32 [-1,4]: no size of axis 1",
        ),
        (CHAIN.replace("{x: hidden}", "{x: lost}"), "got 'lost', which nobody makes"),
        (CHAIN.replace("inputs: [x]", "inputs: [x, z]"), "got 'z', which none does"),
        (CHAIN.replace("outputs: [y]", "outputs: [y, z]"), "got 'z', which nobody makes"),
        (CHAIN.replace("{x: x}", "{x: y}"), "expected steps without a circle"),
        (CHAIN.replace("model: mlp", "model: bad"), "expected pipelines without a circle, got bad -> bad"),
        (CHAIN.replace("{x: hidden}", "{z: hidden}"), "step 'head': expected an input of model 'mlp' (x), got z"),
        (
            CHAIN.replace("inputs: [x]", "inputs: {x: {datatype: INT64}}"),
            "input 'x' of the pipeline: expected FP32 [-1,16]",
        ),
    ],
)
def test_what_cannot_be_served_says_why(repository, start, text: str, reason: str) -> None:
    root = repository("identity", "mlp")
    pipeline(root, "bad", text)
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)  # the others serve
        (told,) = [why for line, (_, why) in index(client).items() if line.startswith("bad:")]
        assert reason in told
        assert not client.is_model_ready("bad")
        np.testing.assert_allclose(infer(client, rows(1)), expected(rows(1)), atol=1e-5)


def test_it_is_ready_while_its_models_are(repository, start, tmp_path: Path) -> None:
    root = repository("identity", "mlp")
    pipeline(root, "chain", CHAIN)
    pipeline(root, "outer", CHAIN.replace("model: mlp", "model: chain"))
    with start(root, "--repository-poll-seconds=0.2", "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        np.testing.assert_allclose(infer(client, rows(2), "outer"), expected(rows(2)), atol=1e-5)
        shutil.move(root / "mlp", tmp_path / "away")
        eventually(lambda: not client.is_model_ready("outer"), "the pipelines go with the model")
        code, text = refusal(lambda: infer(client, rows(1), "chain"))
        assert code == "UNAVAILABLE" and "expected model 'mlp' to serve" in text
        assert client.is_model_ready("identity")
        shutil.move(tmp_path / "away", root / "mlp")
        ready(daemon, "outer")
        np.testing.assert_allclose(infer(client, rows(2), "outer"), expected(rows(2)), atol=1e-5)


def test_steps_are_loaded_and_unloaded_with_it(repository, start) -> None:
    root = repository("identity", "mlp")
    pipeline(root, "chain", CHAIN)
    with start(root, *EXPLICIT) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        client.load_model("mlp")
        client.load_model("chain")  # and identity
        np.testing.assert_allclose(infer(client, rows(2), "chain"), expected(rows(2)), atol=1e-5)
        client.unload_model("identity")
        assert not client.is_model_ready("chain")
        assert refusal(lambda: infer(client, rows(1), "chain"))[0] == "UNAVAILABLE"
        client.load_model("chain")
        assert client.is_model_ready("identity")
        client.unload_model("chain", unload_dependents=True)
        # What was asked for by name stays.
        assert client.is_model_ready("mlp")
        eventually(lambda: not client.is_model_ready("identity"), "it goes with the pipeline")


def test_an_ensemble_of_tritons(repository, start) -> None:
    root = repository("identity", "mlp")
    folder = pipeline(root, "chain", ENSEMBLE, "config.pbtxt")
    (folder / "1").mkdir()
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        np.testing.assert_allclose(infer(client, rows(3), "chain"), expected(rows(3)), atol=1e-5)
        assert client.get_model_config("chain").config.max_batch_size == 4
    assert "model.yaml: written" in ctl("convert", folder)
    (folder / "config.pbtxt").unlink()
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        np.testing.assert_allclose(infer(client, rows(3), "chain"), expected(rows(3)), atol=1e-5)
        assert client.get_model_config("chain").config.max_batch_size == 4
