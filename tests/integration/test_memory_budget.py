"""Proves that versions rest within a budget of the host's memory, and that clients notice nothing but latency."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.integration.clients import infer, rows
from tests.integration.daemon import Daemon, eventually, health_page, write_yaml

WIDTH = 20_000  # 1.3 MB of weights: a budget is 1 MiB at least
MODELS = ("a", "b", "c")


@functools.cache
def weights() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(16, WIDTH).eval()


class Wide(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = weights()

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.linear(x)}


def check(client: triton.InferenceServerClient, model: str, count: int = 2, **options) -> None:
    x = rows(count)
    with torch.no_grad():
        wanted = weights()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(infer(client, x, model, **options), wanted, atol=1e-4)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Seeds torch: before threads ask.
    path = tmp_path_factory.mktemp("wide") / "model.pt2"
    batch = torch.export.Dim("batch", min=1, max=16)
    exported = torch.export.export(Wide().eval(), (torch.ones(2, 16),), dynamic_shapes=({0: batch},))
    torch.export.save(exported, path)
    return path


@pytest.fixture
def root(tmp_path: Path, program: Path) -> Path:
    """Three models of the same program, each with a file of its own."""
    for model in MODELS:
        (tmp_path / "models" / model / "1").mkdir(parents=True)
        shutil.copy(program, tmp_path / "models" / model / "1/model.pt2")
        write_yaml(tmp_path / "models" / model, buckets={"batch": [2]}, max_batch_size=16)
    return tmp_path / "models"


@pytest.fixture
def budget(start: Callable[..., Daemon], root: Path, tmp_path: Path) -> Callable[..., str]:
    """The flag for so many versions and a half."""

    def flag(versions: int, *arguments: str) -> str:
        with start(root, *arguments) as daemon:
            daemon.wait_ready(300, list(MODELS))
            with daemon.client() as client:
                for model in MODELS:
                    check(client, model)
            each = daemon.metric("stoker_version_memory_bytes", model="a")
            assert daemon.metric("stoker_version_memory_bytes", model="a", use="weights") > 1 << 20
            assert daemon.metric("stoker_memory_budget_bytes") == 0
            assert daemon.stop() == 0
        return f"--memory-budget={int((versions + 0.5) * each)}"

    return flag


def resting(daemon: Daemon) -> list[str]:
    return sorted(labels["model"] for labels, value in daemon.samples("stoker_model_state")
                  if labels["state"] == "resting" and value == 1)  # fmt: skip


def asleep(daemon: Daemon, model: str) -> None:
    """Asks others until it rests."""
    with daemon.client() as client:
        for other in MODELS:
            if other != model:
                check(client, other)
    eventually(lambda: resting(daemon) == [model], f"{model} rests", 30)


def test_requests_to_all_by_turns(start, root: Path, budget) -> None:
    flag = budget(2)
    with start(root, flag) as daemon, daemon.client() as client:
        daemon.wait_ready(300, list(MODELS))
        assert client.is_server_ready()
        for turn in range(9):
            model = MODELS[turn % 3]
            check(client, model)
            # The last one goes when the next metrics are taken.
            eventually(lambda: len(resting(daemon)) == 1, "two are in memory", 30)
        for model in MODELS:
            assert client.is_model_ready(model)
            assert client.get_model_metadata(model).versions == ["1"]
            assert health_page(daemon, "readiness") == (200, "serving\n")
            figures = client.get_inference_statistics(model).model_stats
            assert figures[0].inference_count == 6
        lines = {line.name: (line.state, line.reason) for line in client.get_model_repository_index().models}
        assert {state for state, _ in lines.values()} == {"READY"}
        (asleep_now,) = resting(daemon)
        assert "a request has it loaded again" in lines[asleep_now][1]
        assert daemon.metric("stoker_idle_unloads_total", device="cpu") >= 7
        assert daemon.metric("stoker_cold_wait_seconds_count") >= 6
        # From the cache each time.
        assert daemon.metric("stoker_compile_worker_starts_total") == 0
        assert daemon.metric("stoker_tier_requests_total", tier="aot") in (0, 9)
        budget_bytes = daemon.metric("stoker_memory_budget_bytes")
        assert 0 < daemon.metric("stoker_version_memory_bytes") <= budget_bytes
        assert daemon.stop() == 0


def test_cold_requests_share_a_load(start, root: Path, budget) -> None:
    flag = budget(2, "--no-compile")
    with start(root, flag, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60, list(MODELS))
        asleep(daemon, "a")
        before = daemon.log().count("a:1: asked for, loaded again")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda count: check(client, "a", count), range(1, 9)))
        assert daemon.log().count("a:1: asked for, loaded again") == before + 1
        assert daemon.stop() == 0


def test_a_wait_ends_with_its_deadline(start, root: Path, budget) -> None:
    flag = budget(2, "--no-compile")
    with start(root, flag, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60, list(MODELS))
        asleep(daemon, "b")
        with pytest.raises(InferenceServerException) as late:
            check(client, "b", client_timeout=0.0005)
        assert "DEADLINE_EXCEEDED" in str(late.value.status()), late.value
        check(client, "b")
        assert daemon.stop() == 0


def test_a_folder_that_vanished(start, root: Path, budget) -> None:
    flag = budget(2, "--no-compile")
    with start(root, flag, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60, list(MODELS))
        # Nobody reads the repository again: what was read is held open.
        asleep(daemon, "a")
        shutil.rmtree(root / "a")
        check(client, "a")
        # Written to in its place, it isn't what was read.
        asleep(daemon, "b")
        os.truncate(root / "b/1/model.pt2", 1000)
        with pytest.raises(InferenceServerException) as refused:
            check(client, "b")
        assert refused.value.status() == "StatusCode.UNAVAILABLE"
        assert "b/1/model.pt2" in str(refused.value) and "tried again in" in str(refused.value)
        for model in ("a", "c"):
            check(client, model)
        assert daemon.stop() == 0


def test_a_folder_that_vanished_where_the_repository_is_followed(start, root: Path, budget) -> None:
    flag = budget(2, "--no-compile")
    with start(root, flag, "--no-compile", "--repository-poll-seconds=0.2") as daemon, daemon.client() as client:
        daemon.wait_ready(60, list(MODELS))
        asleep(daemon, "a")
        shutil.rmtree(root / "a")
        eventually(lambda: "a" not in {line.name for line in client.get_model_repository_index().models}, "it goes", 30)
        with pytest.raises(InferenceServerException) as refused:
            check(client, "a")
        assert refused.value.status() == "StatusCode.NOT_FOUND"
        assert daemon.stop() == 0


def test_clients_unload_and_load_what_rests(start, root: Path, budget) -> None:
    flag = budget(2, "--no-compile")
    arguments = (flag, "--no-compile", "--model-control=explicit", "--load-model=*")
    with start(root, *arguments) as daemon, daemon.client() as client:
        daemon.wait_ready(60, list(MODELS))
        asleep(daemon, "a")
        client.unload_model("a")
        with pytest.raises(InferenceServerException):
            check(client, "a")
        client.load_model("a")
        check(client, "a")
        asleep(daemon, "b")
        client.load_model("b")
        check(client, "b")
        # One that rests has nothing to drain.
        asleep(daemon, "c")
        assert daemon.stop() == 0


def test_what_is_kept_stays_and_a_budget_below_one_serves_one_at_a_time(start, root: Path) -> None:
    with start(root, "--memory-budget=1M", "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60, list(MODELS))
        for model in MODELS * 2:
            check(client, model)
        assert "more than the memory budget of 1.0 MB: it is served" in daemon.log()
        assert daemon.stop() == 0
    write_yaml(root / "a", buckets={"batch": [2]}, max_batch_size=16, memory={"keep": True})
    with start(root, "--memory-budget=1M", "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60, list(MODELS))
        for model in MODELS * 2:
            check(client, model)
        eventually(lambda: resting(daemon) == ["b"], "a is kept, and who was asked last stays", 30)
        assert "a:1: rests" not in daemon.log()
        assert daemon.stop() == 0
