"""Proves what the daemon, as it is shipped, does with a GPU from the first load to its loss: on one that isn't there.

torch's own CUDA half runs over a driver that computes nothing (tests/fakes/cuda), and the compiler over a recorded
GPU: order, tiers, errors and exit codes are the daemon's own, answers are zeros.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.fakes.stand_in import stand_in
from tests.integration.daemon import REPO, STOKERD, Daemon, eventually, write_yaml

EXIT_CODE = 5  # GpuGuard::kExitCode
FAKES = STOKERD.parents[2] / "tests/fakes/cuda"
# A launch takes the host so long that a graph of many gains something.
HEALTHY = "answers zeros\nlaunch_us 300\n"
BUCKETS = ("batch=4", "batch=1")
PATIENCE = 900  # seconds; two artifacts are compiled the first time


class Scale(torch.nn.Module):
    """Nothing that asks for cuBLAS, which the driver that isn't there can't start."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(1.0, 65.0))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for _ in range(3):
            x = torch.softmax(x * self.weight, 1)
        return {"y": x}


class Gpu:
    """A daemon's environment, its models, and what its GPU does next."""

    def __init__(self, folder: Path, cache: Path, nvml: Path) -> None:
        self.folder, self.cache, self.nvml = folder, cache, nvml
        self.script = folder / "script"
        self.behave("")
        self.root = folder / "models"
        self.add("scale")

    def behave(self, faults: str) -> None:
        """From the next call of CUDA's on; the file changes as a whole."""
        new = self.folder / "script.new"
        new.write_text(HEALTHY + faults + "\n")
        new.rename(self.script)

    def add(self, name: str) -> None:
        version = self.root / name / "1"
        version.mkdir(parents=True)
        batch = torch.export.Dim("batch", min=1, max=64)
        program = torch.export.export(Scale().eval(), (torch.ones(2, 64),), dynamic_shapes=({0: batch},))
        torch.export.save(program, version / "model.pt2")
        write_yaml(self.root / name, device="cuda:0", max_batch_size=8, buckets={"batch": [1, 4]})

    def start(self, *arguments: str) -> Daemon:
        preload = [FAKES / "libcuda.so.1", FAKES / "libcudart.so.13", self.nvml]
        environment = {
            **os.environ, "LD_PRELOAD": ":".join(map(str, preload)), "FAKE_CUDA_SCRIPT": str(self.script),
        }  # fmt: skip
        python = stand_in(self.folder / "python", "recorded_gpu.py")
        count = len(list(self.folder.glob("*.log")))
        return Daemon(
            self.root, self.cache, self.folder / f"{count}.log", f"--compiler-python={python}",
            *arguments, environment=environment,
        )  # fmt: skip


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    soname = "-Wl,-soname,libnvidia-ml.so.1"
    source = REPO / "tests/fakes/fake_nvml.c"
    subprocess.run(["gcc", "-shared", "-fPIC", soname, "-o", library, source], check=True)
    return library


@pytest.fixture(scope="module")
def cache(kept: Path) -> Path:
    return kept / "kernels-of-no-gpu"


@pytest.fixture
def gpu(tmp_path: Path, cache: Path, nvml: Path) -> Gpu:
    return Gpu(tmp_path, cache, nvml)


def captured(daemon: Daemon) -> bool:
    return daemon.metric("stoker_graph_captures_total", outcome="kept") == len(BUCKETS)


def ask(client: triton.InferenceServerClient, rows: int = 1, model: str = "scale") -> np.ndarray:
    x = np.ones((rows, 64), dtype=np.float32)
    given = triton.InferInput("x", x.shape, "FP32")
    given.set_data_from_numpy(x)
    return client.infer(model, [given], client_timeout=60).as_numpy("y")


@pytest.fixture
def served(gpu: Gpu) -> Iterator[tuple[Gpu, Daemon, triton.InferenceServerClient]]:
    arguments = ("--gpu-run-limit-seconds=2", "--drain-seconds=3", "--repository-poll-seconds=1")
    with gpu.start(*arguments) as daemon, daemon.client() as client:
        daemon.wait_ready(PATIENCE, ["scale"])
        eventually(lambda: captured(daemon), "both buckets are captured", PATIENCE)
        yield gpu, daemon, client


Served = tuple[Gpu, Daemon, triton.InferenceServerClient]


def test_from_the_first_load_to_the_end(served: Served) -> None:
    _, daemon, client = served
    for rows in (1, 3, 4):
        np.testing.assert_array_equal(ask(client, rows), np.zeros((rows, 64)))
    assert daemon.metric("stoker_tier_requests_total", tier="graph") == 3
    assert daemon.metric("stoker_graph_replays_total") >= 3
    assert daemon.metric("stoker_gpu_memory_bytes", use="weights") == 256
    assert daemon.metric("stoker_gpu_memory_bytes", use="eager") == 0
    assert daemon.stop() == 0


def test_want_of_memory_is_that_requests_alone(served: Served) -> None:
    gpu, daemon, client = served
    ask(client)
    # What is left is little, and nothing more is to be had: the graph is dropped, and what it was captured of
    # finds none either.
    gpu.behave("free 1000000\ncudaGraphLaunch 0 -1 2\ncuLaunchKernel 0 -1 2")
    with pytest.raises(InferenceServerException) as refused:
        ask(client)
    assert refused.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
    gpu.behave("")
    ask(client)
    assert daemon.metric("stoker_tier_requests_total", tier="aot") >= 1
    assert daemon.metric("stoker_fallbacks_total", reason="run") == 0
    assert daemon.stop() == 0


def test_graphs_then_eager_go_for_a_load(served: Served) -> None:
    gpu, daemon, client = served
    ask(client, 5)  # fits no bucket: eager is opened, over the weights that are there
    assert daemon.metric("stoker_gpu_memory_bytes", use="eager") == 0
    assert daemon.metric("stoker_gpu_memory_bytes", use="weights") == 256
    # A little less than has to stay free, so that the graphs' and eager's memory would be enough, and never is: the
    # driver says the same all the time.
    gpu.behave(f"free {(256 << 20) - 1000}")
    gpu.add("other")
    eventually(lambda: "other:1: loading -> failed: weights of" in daemon.log(), "it is refused", PATIENCE)
    log = daemon.log()
    graphs = log.index("no graph (memory: its memory was wanted by")
    eager = log.index("scale:1: eager tier let go, its memory was wanted by")
    assert graphs < eager < log.index("other:1: loading -> failed")
    assert daemon.metric("stoker_gpu_memory_bytes", use="graphs") == 0
    assert daemon.metric("stoker_gpu_memory_bytes", use="eager") == 0
    ask(client, 4)
    assert daemon.metric("stoker_tier_requests_total", tier="aot") == 1
    gpu.behave("")
    daemon.wait_ready(PATIENCE, ["other"])
    ask(client, 4, "other")


def test_a_version_that_nobody_asks_for_goes_last_and_comes_back(gpu: Gpu) -> None:
    arguments = ("--repository-poll-seconds=1", "--gpu-idle-seconds=1")
    with gpu.start(*arguments) as daemon, daemon.client() as client:
        daemon.wait_ready(PATIENCE, ["scale"])
        # A little less than another model needs beside the reserve: without this one's weights there would be enough.
        gpu.behave(f"free {(256 << 20) + 100}")
        gpu.add("other")
        eventually(lambda: "scale:1: rests: nobody has asked for it for" in daemon.log(), "it goes", PATIENCE)
        gpu.behave("")
        daemon.wait_ready(PATIENCE, ["other"])
        ask(client, 1, "other")
        assert daemon.metric("stoker_idle_unloads_total", device="cuda:0") == 1
        assert daemon.metric("stoker_gpu_memory_bytes", use="weights") == 256
        reasons = {line.name: line.reason for line in client.get_model_repository_index().models}
        assert reasons["scale"] == "rests: its memory on cuda:0 was wanted for other:1; a request has it loaded again"
        assert client.is_model_ready("scale")
        np.testing.assert_array_equal(ask(client), np.zeros((1, 64)))
        assert daemon.stop() == 0


def test_what_cannot_fit_takes_nothing_from_others(served: Served) -> None:
    gpu, daemon, client = served
    gpu.behave("free 1000000")
    gpu.add("other")
    eventually(lambda: "other:1: loading -> failed: weights of" in daemon.log(), "it is refused")
    gpu.behave("")
    ask(client, 4)
    assert daemon.metric("stoker_tier_requests_total", tier="graph") == 1


def test_a_graph_that_fails_is_answered_by_what_it_was_captured_of(served: Served) -> None:
    gpu, daemon, client = served
    gpu.behave("cudaGraphLaunch 0 1 1")
    np.testing.assert_array_equal(ask(client, 4), np.zeros((4, 64)))
    assert daemon.metric("stoker_graph_captures_total", outcome="failed") == 1
    assert daemon.metric("stoker_tier_requests_total", tier="aot") == 1


def test_versions_that_come_and_go_give_their_memory_back(served: Served) -> None:
    gpu, daemon, client = served
    before = daemon.metric("stoker_gpu_memory_bytes")
    for _ in range(2):
        (gpu.root / "scale").rename(gpu.folder / "away")
        eventually(lambda: daemon.metric("stoker_gpu_memory_bytes") == 0, "all of it is given back")
        (gpu.folder / "away").rename(gpu.root / "scale")
        daemon.wait_ready(PATIENCE, ["scale"])
        eventually(lambda: daemon.metric("stoker_gpu_memory_bytes") == before, "it is as it was", PATIENCE)
        ask(client)


@pytest.mark.parametrize("fault", ["kernel 0 1 700", "cudaMemcpyAsync 0 1 719"])
def test_an_error_that_poisons_ends_the_process(served: Served, fault: str) -> None:
    gpu, daemon, client = served
    gpu.behave(fault)
    with pytest.raises(InferenceServerException) as refused:
        ask(client)
    assert refused.value.status() == "StatusCode.UNAVAILABLE"
    assert daemon.process.wait(timeout=60) == EXIT_CODE
    assert "has to be started again" in daemon.log()


def hang(gpu: Gpu, daemon: Daemon, client: triton.InferenceServerClient) -> threading.Thread:
    """A request that is never answered, on its way."""
    gpu.behave("kernel 0 1 hang")
    replays = daemon.metric("stoker_graph_replays_total")

    def asking() -> None:
        with pytest.raises(InferenceServerException):
            ask(client)

    thread = threading.Thread(target=asking)
    thread.start()
    eventually(lambda: daemon.metric("stoker_graph_replays_total") > replays, "it runs")
    return thread


def test_a_run_that_does_not_end_ends_the_process(served: Served) -> None:
    gpu, daemon, client = served
    thread = hang(gpu, daemon, client)
    assert daemon.process.wait(timeout=60) == EXIT_CODE
    assert "hangs: a run has not ended" in daemon.log()
    thread.join(60)


def test_also_while_the_daemon_drains(served: Served) -> None:
    gpu, daemon, client = served
    thread = hang(gpu, daemon, client)
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(timeout=60) == EXIT_CODE
    thread.join(60)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("cudaGetDeviceCount 0 -1 35", "no NVIDIA driver, or one before 580"),
        ("cudaGetDeviceCount 0 -1 802", "no GPU can be used"),
    ],
)
def test_a_driver_that_does_not_start_is_a_reason(gpu: Gpu, fault: str, said: str) -> None:
    gpu.behave(fault)
    with gpu.start("--no-compile") as daemon:
        eventually(lambda: said in daemon.log(), "it says why")
        assert daemon.stop() == 0
