"""Proves that a folder of Triton's, with config.pbtxt and no model.yaml, is served as the file says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
import yaml
from tritonclient.utils import InferenceServerException

from tests.integration.clients import check_mlp, expected, rows
from tests.integration.daemon import Daemon, ctl, eventually, only_failure

CONFIG = """\
name: "mlp"
platform: "torch_aoti"
max_batch_size: 8
input [
  { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 16 ] }
]
output [
  { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 4 ] }
]
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching {
  preferred_batch_size: [ 4 ]
  max_queue_delay_microseconds: 200
  priority_levels: 2
  default_priority_level: 1
  default_queue_policy { max_queue_size: 16 timeout_action: REJECT }
}
optimization { cuda { graphs: true } }
parameters { key: "INFERENCE_MODE" value { string_value: "true" } }
version_policy { latest { num_versions: 1 } }
model_warmup {
  name: "one"
  batch_size: 1
  inputs { key: "INPUT__0" value { data_type: TYPE_FP32 dims: 16 random_data: true } }
}
"""


@pytest.fixture
def triton_repository(configured: Callable[[str, str, str], Path]) -> Callable[[str], Path]:
    """triton_repository(text) is a repository with mlp, as Triton has it."""
    return lambda text: configured("mlp", "config.pbtxt", text)


def infer(client: triton.InferenceServerClient, count: int) -> np.ndarray:
    """OUTPUT__0 by the names of the file."""
    x = rows(count)
    given = triton.InferInput("INPUT__0", x.shape, "FP32")
    given.set_data_from_numpy(x)
    return client.infer("mlp", [given], outputs=[triton.InferRequestedOutput("OUTPUT__0")]).as_numpy("OUTPUT__0")


def check_is_served(daemon: Daemon) -> None:
    """Clients see and get what CONFIG says."""
    with daemon.client() as client:
        for count in (1, 3, 8):
            np.testing.assert_allclose(infer(client, count), expected(rows(count)), atol=1e-5)
        with pytest.raises(InferenceServerException, match="INPUT__0"):
            check_mlp(client)  # by the program's own names
        with pytest.raises(InferenceServerException, match="<= 8"):
            infer(client, 9)
        metadata = client.get_model_metadata("mlp")
        config = client.get_model_config("mlp").config
    assert [(tensor.name, tensor.datatype, list(tensor.shape)) for tensor in metadata.inputs] == [
        ("INPUT__0", "FP32", [-1, 16])
    ]
    assert [tensor.name for tensor in metadata.outputs] == ["OUTPUT__0"]
    assert config.max_batch_size == 8
    assert [(tensor.name, list(tensor.dims)) for tensor in config.input] == [("INPUT__0", [16])]
    assert config.instance_group[0].count == 2
    batching = config.dynamic_batching
    assert list(batching.preferred_batch_size) == [4]
    assert batching.max_queue_delay_microseconds == 200
    assert (batching.priority_levels, batching.default_priority_level) == (2, 1)
    assert batching.default_queue_policy.max_queue_size == 16
    assert batching.default_queue_policy.allow_timeout_override is False
    assert config.parameters["buckets"].string_value == "batch=1;batch=4;batch=8"


def test_it_is_served_as_the_file_says(triton_repository, start) -> None:
    root = triton_repository(CONFIG)
    with start(root, "--no-compile") as daemon:
        daemon.wait_ready()
        check_is_served(daemon)
        log = daemon.log()
        assert "config.pbtxt:18: optimization has no meaning here" in log
        assert "config.pbtxt:19: parameters[0] has no meaning here: INFERENCE_MODE" in log
        assert daemon.stop() == 0


def test_what_convert_writes_means_the_same(triton_repository, start) -> None:
    root = triton_repository(CONFIG)
    said = ctl("convert", root / "mlp")
    assert "config.pbtxt:18: optimization has no meaning here" in said
    assert said.rstrip().endswith("mlp/model.yaml: written")
    written = yaml.safe_load((root / "mlp/model.yaml").read_text())
    assert written["inputs"] == {"x": {"name": "INPUT__0"}}
    assert written["max_batch_size"] == 8
    with start(root, "--no-compile") as daemon:
        daemon.wait_ready()
        check_is_served(daemon)
        # Both are there by now.
        assert "config.pbtxt is not read: there is a model.yaml beside it" in daemon.log()
        assert daemon.stop() == 0
    assert "model.yaml, found one" in ctl("convert", root / "mlp", code=4)


def test_model_yaml_wins(triton_repository, start) -> None:
    root = triton_repository(CONFIG)
    (root / "mlp/model.yaml").write_text("max_batch_size: 2\n")
    with start(root, "--no-compile") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            check_mlp(client, 2)
            assert client.get_model_config("mlp").config.max_batch_size == 2
        assert "config.pbtxt is not read" in daemon.log()
        assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CONFIG.replace("dims: [ 4 ]", "dims: [ 5 ]"), "config.pbtxt:8: output[0].dims: expected the program's [4]"),
        (CONFIG.replace("max_batch", "max_bath"), 'config.pbtxt:3: Message type "triton.ModelConfig" has no field'),
        (CONFIG + "sequence_batching { }\n", "config.pbtxt"),
        (CONFIG.replace('"mlp"', '"other"'), "config.pbtxt:1: name: expected the folder's, mlp, got other"),
    ],
)
def test_what_cannot_be_honoured_is_said(triton_repository, start, text: str, reason: str) -> None:
    root = triton_repository(text)
    with start(root, "--no-compile") as daemon:
        assert reason in only_failure(daemon)
    assert reason in ctl("convert", root / "mlp", code=4)
    assert not (root / "mlp/model.yaml").exists()


def test_without_max_batch_size_a_request_has_all_dims(triton_repository, start) -> None:
    root = triton_repository(
        'backend: "pytorch"\n'
        'input { name: "x" data_type: TYPE_FP32 dims: [ -1, 16 ] }\n'
        'output { name: "y" data_type: TYPE_FP32 dims: [ -1, 4 ] }\n'
    )
    with start(root, "--no-compile") as daemon:
        daemon.wait_ready()
        with daemon.client() as client:
            check_mlp(client, 3)
            config = client.get_model_config("mlp").config
        assert config.max_batch_size == 0
        assert list(config.input[0].dims) == [-1, 16]
        assert daemon.stop() == 0


def test_what_is_compiled_answers_by_its_names(triton_repository, start) -> None:
    root = triton_repository(
        "max_batch_size: 8\n"
        'input { name: "INPUT__0" data_type: TYPE_FP32 dims: 16 }\n'
        'output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: 4 }\n'
    )
    with start(root) as daemon:
        daemon.wait_ready()
        states = {labels["bucket"] for labels, value in daemon.samples("stoker_bucket_state") if value == 1}
        assert states == {"batch=1", "batch=8"}
        assert daemon.metric("stoker_promotions_total", outcome="parity") == 0
        with daemon.client() as client:
            for count in (1, 8):
                np.testing.assert_allclose(infer(client, count), expected(rows(count)), atol=1e-5)
        compiled = sum(
            value for labels, value in daemon.samples("stoker_tier_requests_total") if labels["tier"] == "aot"
        )
        # A busy hour may find one of them no faster than eager.
        assert compiled >= 1
        assert daemon.stop() == 0


def test_a_change_of_the_file_is_followed(triton_repository, start) -> None:
    root = triton_repository(CONFIG)
    with start(root, "--no-compile", "--repository-poll-seconds", "0.2") as daemon:
        daemon.wait_ready()
        (root / "mlp/config.pbtxt").write_text(CONFIG.replace("OUTPUT__0", "answer__0"))
        with daemon.client() as client:

            def has_changed() -> bool:
                return client.get_model_metadata("mlp").outputs[0].name == "answer__0"

            eventually(has_changed, "the new name is served")
        assert daemon.stop() == 0
