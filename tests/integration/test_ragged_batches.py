"""Proves that requests of any length are run end to end in one batch, and answered as each alone would be."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from torch.export import Dim
from tritonclient.utils import InferenceServerException

from tests.integration.daemon import Daemon, ctl, write_yaml

LENGTHS = (3, 1, 5, 2, 4, 1)
KINDS = {
    "counts": "BATCH_ELEMENT_COUNT",
    "ends": "BATCH_ACCUMULATED_ELEMENT_COUNT",
    "marks": "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "longest": "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
}
TYPES = {"counts": "TYPE_INT64", "ends": "TYPE_INT64", "marks": "TYPE_INT64", "longest": "TYPE_FP32"}


class Ragged(torch.nn.Module):
    """Of each request its sum, its elements less their mean, and its elements in a row of their own."""

    def forward(
        self, x: torch.Tensor, counts: torch.Tensor, ends: torch.Tensor, marks: torch.Tensor, longest: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        sums = torch.cat([x.new_zeros(1), torch.cumsum(x, 0)])
        total = sums[ends] - sums[ends - counts]
        mean = total / counts.clamp(min=1)
        request = (torch.arange(x.shape[0])[:, None] >= marks[None, 1:]).sum(1).clamp(max=counts.shape[0] - 1)
        places = marks[:-1, None] + torch.arange(longest.shape[0])[None, :]
        row = torch.where(places < marks[1:, None], x[places.clamp(max=x.shape[0] - 1)], 0.0)
        return {"sum": total, "less_mean": x - mean[request], "row": row}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ragged") / "model.pt2"
    elements, requests, longest = Dim("elements", min=1), Dim("requests", min=1), Dim("longest", min=1)
    counts = torch.tensor([2, 3, 1])
    given = (torch.ones(6), counts, counts.cumsum(0), torch.tensor([0, 2, 5, 6]), torch.zeros(4))
    shapes = ({0: elements}, {0: requests}, {0: requests}, {0: requests + 1}, {0: longest})
    torch.export.save(torch.export.export(Ragged().eval(), given, dynamic_shapes=shapes), path)
    return path


@pytest.fixture
def model(tmp_path: Path, program: Path) -> Path:
    """The model's folder."""
    folder = tmp_path / "models/ragged"
    (folder / "1").mkdir(parents=True)
    (folder / "1/model.pt2").symlink_to(program)
    return folder


BATCHING = {"max_queue_delay_microseconds": 300_000}


def configure(model: Path, **fields: object) -> None:
    made = {name: {"kind": kind, "source": "x"} for name, kind in KINDS.items()}
    dimensions = {"elements": {"axis": "x.0"}, "longest": {"axis": "longest.0"}}
    buckets = {"elements": [8, 24], "longest": [6]}
    write_yaml(model, ragged=made, dimensions=dimensions, buckets=buckets, dynamic_batching=BATCHING, **fields)


def elements(length: int) -> np.ndarray:
    """Whole numbers, so that sums are the same in any order."""
    return np.random.default_rng(length).integers(-9, 9, length).astype(np.float32)


def ask(daemon: Daemon, x: np.ndarray) -> dict[str, np.ndarray]:
    given = triton.InferInput("x", x.shape, "FP32")
    given.set_data_from_numpy(x)
    with daemon.client() as client:
        answer = client.infer("ragged", [given])
    return {name: answer.as_numpy(name) for name in ("sum", "less_mean", "row")}


def check(answer: dict[str, np.ndarray], x: np.ndarray) -> None:
    """As the program answers the request alone."""
    count = torch.tensor([len(x)])
    with torch.no_grad():
        alone = Ragged()(torch.from_numpy(x), count, count, torch.tensor([0, len(x)]), torch.zeros(len(x)))
    for name, value in alone.items():
        assert answer[name].shape == value.shape, name
        np.testing.assert_array_equal(answer[name], value.numpy(), err_msg=name)


def check_batches(daemon: Daemon, shaped: Callable[[np.ndarray], np.ndarray] = lambda x: x) -> None:
    """Several rounds of requests at once; some share a batch."""
    inputs = [elements(length) for length in LENGTHS]
    with ThreadPoolExecutor(len(inputs)) as pool:
        for _ in range(5):
            for x, answer in zip(inputs, pool.map(lambda x: ask(daemon, shaped(x)), inputs), strict=True):
                check(answer, x)
    batches = sum(value for _, value in daemon.samples("stoker_batch_requests_count"))
    requests = sum(value for _, value in daemon.samples("stoker_batch_requests_sum"))
    assert requests == 5 * len(inputs)
    assert batches < 0.7 * requests


@pytest.mark.parametrize("flags", [["--no-compile"], []], ids=["eager", "compiled"])
def test_each_is_answered_as_if_alone(model, start, flags: list[str]) -> None:
    configure(model)
    with start(model.parent, *flags) as daemon:
        daemon.wait_ready()
        check_batches(daemon)
        for length in (1, 7, 8, 9, 24):
            check(ask(daemon, elements(length)), elements(length))
        if not flags:
            assert daemon.metric("stoker_tier_requests_total", tier="aot") > 0


def test_what_clients_see(model, start) -> None:
    configure(model, max_batch_size=3)
    with start(model.parent, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready()
        metadata = client.get_model_metadata("ragged")
        assert [(tensor.name, list(tensor.shape)) for tensor in metadata.inputs] == [("x", [-1])]
        config = client.get_model_config("ragged").config
        assert config.max_batch_size == 3
        assert [(tensor.name, tensor.allow_ragged_batch) for tensor in config.input] == [("x", True)]
        check_batches(daemon, lambda x: x[None, :])  # as Triton's clients have it
        given = [triton.InferInput("x", [2], "FP32"), triton.InferInput("marks", [2], "INT64")]
        given[0].set_data_from_numpy(np.ones(2, np.float32))
        given[1].set_data_from_numpy(np.zeros(2, np.int64))
        with pytest.raises(InferenceServerException, match="'marks' of model 'ragged' is made of each batch here"):
            client.infer("ragged", given)
        with pytest.raises(InferenceServerException, match="elements must be <= 24 for 'ragged', got 25"):
            ask(daemon, elements(25))


def test_a_folder_of_triton(model, start) -> None:
    made = "".join(
        f'batch_input {{ kind: {kind} target_name: "{name}" data_type: {TYPES[name]} source_input: "x" }}\n'
        for name, kind in KINDS.items()
    )
    (model / "config.pbtxt").write_text(
        f"""max_batch_size: 4
input {{ name: "x" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true }}
output [ {{ name: "sum" data_type: TYPE_FP32 dims: [] }}, {{ name: "less_mean" data_type: TYPE_FP32 dims: -1 }},
         {{ name: "row" data_type: TYPE_FP32 dims: -1 }} ]
{made}batch_output {{ kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "less_mean" source_input: "x" }}
dynamic_batching {{ max_queue_delay_microseconds: 300000 }}
"""
    )
    with start(model.parent, "--no-compile") as daemon:
        daemon.wait_ready()
        check_batches(daemon, lambda x: x[None, :])
    ctl("convert", model)
    written = (model / "model.yaml").read_text()
    assert "ragged:\n  counts: {kind: BATCH_ELEMENT_COUNT, source: x}\n" in written
