"""Proves that a watched repository is followed without a failed request: versions come, go and change."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests import models
from tests.integration.clients import expected, infer, rows
from tests.integration.daemon import Daemon, eventually, write_yaml

POLL = "--repository-poll-seconds=0.2"
MLP, IDENTITY = 4, 16  # values in a row of the answer


class Traffic:
    """Requests without a pause, each of which has to be answered."""

    def __init__(self, daemon: Daemon) -> None:
        self.answered = 0
        self.answer = np.empty((0, 0))  # the newest
        self.answers: dict[bytes, np.ndarray] = {}  # each different one
        self.failure: Exception | None = None
        self._daemon = daemon
        self._stop = threading.Event()

    def run(self) -> None:
        with self._daemon.client() as client:
            while not self._stop.is_set():
                try:
                    self.answer = infer(client, rows(2))
                    self.answers[self.answer.tobytes()] = self.answer
                    self.answered += 1
                except Exception as error:
                    self.failure = error
                    return

    def sees(self, width: int) -> None:
        """Waits for an answer of this width."""
        self.waits_for(lambda: self.answer.shape[1] == width, f"answers of width {width}")

    def waits_for(self, condition: Callable[[], bool], what: str) -> None:
        eventually(lambda: self.failure is not None or condition(), what)
        assert self.failure is None

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def traffic(daemon: Daemon) -> Iterator[Traffic]:
    requests = Traffic(daemon)
    thread = threading.Thread(target=requests.run)
    thread.start()
    try:
        yield requests
    finally:
        requests.stop()
        thread.join()
    assert requests.failure is None
    assert requests.answered > 0


def same(answer: np.ndarray, right: np.ndarray) -> bool:
    return answer.shape == right.shape and np.allclose(answer, right, atol=1e-5)


def put(version: Path, source: Path) -> None:
    """As an operator should: complete at once."""
    half = version.with_name(version.name + ".part")
    shutil.copytree(source, half)
    half.rename(version)


def series_of(daemon: Daemon) -> set[str]:
    """The versions of mlp that have any series, on the whole page."""
    return set(re.findall(r'model="mlp"[^}]*version="(\d+)"', daemon.metrics_page()))


def test_versions_come_and_go_under_traffic(repository, start, exported) -> None:
    root = repository("mlp", "renamed")
    versions = root / "mlp"
    with start(root, POLL, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        with traffic(daemon) as requests:
            requests.sees(MLP)
            put(versions / "2", exported("identity") / "1")
            requests.sees(IDENTITY)
            eventually(lambda: not client.is_model_ready("mlp", "1"), "version 1 is unloaded")
            shutil.rmtree(versions / "2")
            requests.sees(MLP)  # the older version is the newest again
            eventually(lambda: series_of(daemon) == {"1"}, "the series of version 2 end with it")
        assert client.is_model_ready("mlp", "1") and client.is_model_ready("renamed")
        # Those of the version 1 that came back: no request failed.
        answered = daemon.metric("stoker_requests_total", model="mlp", outcome="ok")
        assert 0 < answered == daemon.metric("stoker_requests_total", model="mlp") < requests.answered
        assert daemon.stop() == 0


def test_the_old_version_serves_while_the_new_one_compiles(
    repository, start, exported, fake_compiler
) -> None:
    root = repository("mlp")
    # mlp's artifacts are in the cache; the one of identity's larger bucket never will be.
    with start(root) as daemon:
        daemon.wait_ready()
        assert daemon.stop() == 0
    with start(root, POLL, fake_compiler("--job", "hang")) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        with traffic(daemon) as requests:
            put(root / "mlp/2", exported("identity") / "1")
            eventually(lambda: daemon.metric("stoker_compiles_after_ready_total") >= 1, "a compile starts")
            before = requests.answered
            eventually(lambda: requests.answered > before + 3, "version 1 still answers")
            assert requests.answer.shape[1] == MLP
            lines = {line.version: line for line in client.get_model_repository_index().models}
            assert lines["1"].state == "READY" and lines["2"].state == "LOADING"
            assert "batch=" in lines["2"].reason
            assert client.is_server_ready() and client.is_model_ready("mlp")
        assert daemon.stop() == 0


def test_retrained_weights_start_without_a_compile(repository, start, tmp_path: Path) -> None:
    root = repository("mlp")
    retrained = models.write("mlp", tmp_path / "retrained", seed=1).parent
    old, new = expected(rows(2)), expected(rows(2), seed=1)
    # Whether compiled code pays for so small a model is not the question here.
    flags = (POLL, "--no-promotion-checks")
    with start(root, *flags) as daemon:
        daemon.wait_ready()
        assert daemon.stop() == 0
    with start(root, *flags) as daemon:
        daemon.wait_ready(60)
        with traffic(daemon) as requests:
            put(root / "mlp/2", retrained)
            requests.waits_for(lambda: same(requests.answer, new), "the new answers")
        assert all(same(answer, old) or same(answer, new) for answer in requests.answers.values())
        assert daemon.metric("stoker_bucket_state", version="2", state="compiled") == 2
        assert daemon.metric("stoker_tier_requests_total", version="2", tier="aot") > 0
        assert daemon.metric("stoker_tier_requests_total", tier="eager") == 0
        assert daemon.metric("stoker_compile_worker_starts_total") == 0
        assert daemon.metric("stoker_cache_requests_total", result="miss") == 0
        assert daemon.stop() == 0


def test_a_version_that_cannot_load_replaces_nothing(repository, start, exported, tmp_path: Path) -> None:
    root = repository("mlp")
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "model.pt2").write_bytes(b"not an archive")
    with start(root, POLL, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        with traffic(daemon) as requests:
            put(root / "mlp/2", bad)
            eventually(lambda: "mlp:2: new -> failed" in daemon.log(), "version 2 was refused")
            before = requests.answered
            eventually(lambda: requests.answered > before + 3, "version 1 still answers")
        assert client.is_server_ready() and client.is_model_ready("mlp", "1")
        assert daemon.stop() == 0


def test_a_version_that_is_mended_is_no_longer_called_failed(repository, start) -> None:
    root = repository("mlp")
    settings = root / "mlp/model.yaml"
    right = settings.read_text()
    settings.write_text("buckets: 7\n")
    with start(root, POLL, "--no-compile") as daemon, daemon.client() as client:
        eventually(lambda: daemon.metric("stoker_model_state", state="failed") == 1, "version 1 was refused")
        settings.write_text("buckets: 8\n")
        eventually(lambda: "got 8" in daemon.log(), "and again")
        assert daemon.metric("stoker_model_state", state="failed") == 1
        settings.write_text(right)
        eventually(lambda: client.is_model_ready("mlp"), "version 1 serves")
        eventually(lambda: daemon.metric("stoker_model_state") == 1, "it is in one state")
        assert daemon.metric("stoker_model_state", state="serving") == 1
        assert daemon.stop() == 0


def test_a_removed_model_is_unloaded(repository, start) -> None:
    root = repository("mlp", "renamed")
    with start(root, POLL, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        shutil.rmtree(root / "mlp")
        eventually(lambda: not client.is_model_ready("mlp"), "mlp is unloaded")
        with pytest.raises(InferenceServerException, match="unknown model: 'mlp'"):
            infer(client, rows(2))
        eventually(lambda: "mlp:1: draining -> unloaded" in daemon.log(), "mlp is gone")
        assert client.is_model_ready("renamed") and client.is_server_ready()
        assert [line.name for line in client.get_model_repository_index().models] == ["renamed"]
        assert daemon.stop() == 0


def test_a_changed_model_yaml_is_read_again(repository, start) -> None:
    root = repository("mlp")
    with start(root, POLL, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        with traffic(daemon):
            write_yaml(root / "mlp", max_batch_size=2, buckets={"batch": [2]})
            eventually(lambda: client.get_model_config("mlp").config.max_batch_size == 2, "the new limit")
        assert daemon.stop() == 0
