"""Proves that `update: replace` stops what serves before the next is loaded, says so, and goes back where it fails."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.integration.clients import expected, infer, rows
from tests.integration.daemon import Daemon, eventually, write_yaml

MODEL = "mlp"
MLP, IDENTITY = 4, 16  # values in a row of the answer


class Refusing(torch.nn.Module):
    """Which rows it takes is known when it runs, and there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.full((4,), 99))
        self.register_buffer("table", torch.ones(8, 16))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + torch.nn.functional.embedding(self.rows, self.table).sum(0)}


@pytest.fixture
def root(repository) -> Path:
    root = repository(MODEL)
    write_yaml(root / MODEL, update="replace")
    return root


def width(daemon: Daemon) -> int:
    """Of the answers; 0 in a gap."""
    with daemon.client() as client:
        try:
            return infer(client, rows(1)).shape[1]
        except InferenceServerException as refused:
            assert refused.status() == "StatusCode.UNAVAILABLE", refused
            return 0


def states(daemon: Daemon) -> dict[str, tuple[str, str]]:
    with daemon.client() as client:
        return {line.version: (line.state, line.reason) for line in client.get_model_repository_index().models}


def add(root: Path, version: Path, number: int) -> None:
    """As a whole."""
    new = shutil.copytree(version, root / MODEL / "coming")
    new.rename(root / MODEL / str(number))


def test_the_next_version_takes_the_old_ones_place(start, root: Path, exported) -> None:
    with start(root, "--no-compile", "--repository-poll-seconds=0.2") as daemon, daemon.client() as client:
        daemon.wait_ready(60, [MODEL])
        np.testing.assert_allclose(infer(client, rows(3)), expected(rows(3)), atol=1e-5)
        add(root, exported("identity") / "1", 2)
        eventually(lambda: width(daemon) == IDENTITY, "version 2 serves")
        log = daemon.log()
        stopped = log.index("mlp:1: stopped for version 2, which loads when it is gone")
        assert stopped < log.index("mlp:1: draining -> unloaded") < log.index("mlp:2: new -> loading")
        assert re.search(r"mlp:2: serves after a gap of [0-9.]+m?s", log)
        assert daemon.stop() == 0


def test_a_gap_is_said_to_pass(start, root: Path, exported) -> None:
    """The old version has runs to end, of tens of milliseconds each."""
    write_yaml(root / MODEL, update="replace", max_batch_size=1, threads=1)
    shutil.rmtree(root / MODEL / "1")
    shutil.copytree(exported("slow") / "1", root / MODEL / "1")
    with start(root, "--no-compile", "--repository-poll-seconds=0.2") as daemon, daemon.client() as client:
        daemon.wait_ready(60, [MODEL])
        x = rows(1)
        given = triton.InferInput("x", x.shape, "FP32")
        given.set_data_from_numpy(x)
        asked, errors = 0, []
        add(root, exported("identity") / "1", 2)
        said: dict[str, str] = {}
        while not said:
            assert asked < 10_000
            asked += 1
            client.async_infer(MODEL, [given], callback=lambda result, error: errors.append(error))
            try:
                client.get_model_metadata(MODEL)
            except InferenceServerException as refused:
                said[""] = str(refused)
                for version in ("1", "2"):
                    with pytest.raises(InferenceServerException) as refused_too:
                        client.get_model_metadata(MODEL, version)
                    said[version] = str(refused_too.value)
                assert not client.is_server_ready()
        for version, text in said.items():
            assert "UNAVAILABLE" in text and "update: replace" in text and "this passes" in text, version
        eventually(lambda: width(daemon) == IDENTITY, "version 2 serves")
        eventually(lambda: len(errors) == asked, "all are told what became of them")
        told = [str(error) for error in errors if error is not None]
        assert all("queue" in text or "update: replace" in text for text in told), told
        assert daemon.stop() == 0


def test_what_served_is_loaded_again_where_the_next_fails(start, root: Path, tmp_path: Path) -> None:
    with start(root, "--no-compile", "--repository-poll-seconds=0.2") as daemon:
        daemon.wait_ready(60, [MODEL])
        broken = tmp_path / "broken"
        broken.mkdir()
        batch = torch.export.Dim("batch", min=1, max=16)
        program = torch.export.export(Refusing().eval(), (torch.ones(2, 16),), dynamic_shapes=({0: batch},))
        torch.export.save(program, broken / "model.pt2")
        add(root, broken, 2)
        eventually(lambda: states(daemon).get("2", ("", ""))[1].endswith("is loaded again"), "version 2 fails")
        eventually(lambda: width(daemon) == MLP, "version 1 serves again")
        log = daemon.log()
        assert "mlp: version 1 is loaded again, as version 2 failed" in log
        assert re.search(r"mlp:1: serves after a gap of [0-9.]+m?s", log)
        assert daemon.stop() == 0
