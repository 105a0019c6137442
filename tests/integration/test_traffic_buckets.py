"""Buckets proposed by recorded traffic: asked for, pasted, and applied by `buckets: auto`."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from loadtest.servers.process import wait_until
from tests.integration.daemon import Daemon, ctl
from tests.models import TOKENS_YAML

# Between two requests of a client, so that the compiler has the cores most of the time.
PAUSE_SECONDS = 0.01
DIMENSIONS = TOKENS_YAML.split("max_batch_size: 4\n")[1].split("buckets:")[0]


def ask(client: triton.InferenceServerClient, length: int) -> np.ndarray:
    """What "tokens" answers for one text of that many tokens."""
    given = []
    for name, value in (("ids", np.arange(length) % 100), ("mask", np.ones(length))):
        tensor = triton.InferInput(name, [1, length], "INT64")
        tensor.set_data_from_numpy(value.astype(np.int64)[None])
        given.append(tensor)
    return client.infer("tokens", given).as_numpy("token_embeddings")


def send_mix(daemon: Daemon) -> None:
    """Two hundred texts, most of them of 10 to 12 tokens: 8 and 32 are bad buckets for them."""
    with daemon.client() as client:
        for i in range(200):
            ask(client, 10 + i % 3 if i % 20 else 5)


@pytest.fixture
def model(repository: Callable[..., Path]) -> Path:
    return repository("tokens") / "tokens"


def write(model: Path, buckets: str, head: str = "max_batch_size: 1\n") -> None:
    (model / "model.yaml").write_text(head + DIMENSIONS + buckets)


def test_propose_paste_restart(
    model: Path, fresh_cache: Path, start: Callable[..., Daemon]
) -> None:
    write(model, "buckets: {batch: [1], tokens: [8, 32]}\n")
    buckets = ["--cache", fresh_cache, "buckets", "tokens", f"--model-repository={model.parent}"]
    with start(model.parent, cache=fresh_cache) as daemon:
        daemon.wait_ready()
        assert "no traffic of model tokens was recorded" in ctl(*buckets, code=4)
        send_mix(daemon)
        assert daemon.stop() == 0
    traffic = fresh_cache / "v1/traffic/tokens.json"
    recorded = json.loads(traffic.read_text())
    assert sum(shape["count"] for shape in recorded["requests"]) == 200
    assert {shape["sizes"][1] for shape in recorded["requests"]} == {5, 10, 11, 12}

    text = ctl(*buckets)
    assert "200 requests were recorded" in text and "as 2 buckets were measured" in text
    assert "batch=1,tokens=12" in text and "saving: " in text
    proposal = json.loads(ctl("--json", *buckets))
    assert proposal["unit"] == "seconds" and proposal["measured_buckets"] == 2
    assert proposal["saving"] > 0 and proposal["compiles"] >= 1
    assert len(proposal["proposal"]["buckets"]) == 2
    assert sum(use["requests"] for use in proposal["proposal"]["buckets"]) > 0.99
    one = json.loads(ctl("--json", *buckets, "--max-buckets=1"))
    assert len(one["proposal"]["buckets"]) == 1
    assert json.loads(ctl("--json", *buckets, "--max-compile-seconds=0.1"))["proposal"] == one["proposal"]
    assert "no model 'none'" in ctl(*buckets[:2], "buckets", "none", buckets[-1], code=4)
    # With another compiler nothing was measured, and it says so.
    assert "none was measured here" in ctl(*buckets, "--cxx=g++ 99.1.0")

    # What is printed to be pasted can be.
    assert text.endswith(proposal["yaml"])
    write(model, proposal["yaml"], head="")
    with start(model.parent, cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        ask(client, 12)
        assert daemon.metric("stoker_tier_requests_total", tier="aot", bucket="batch=1,tokens=12") == 1
        assert daemon.stop() == 0
    again = json.loads(ctl("--json", *buckets))
    assert again["requests"] == 201 and again["measured_buckets"] == 2 + proposal["compiles"]


def test_automatic_buckets(model: Path, fresh_cache: Path, start: Callable[..., Daemon]) -> None:
    write(model, "buckets: auto\n")
    # Without a compiler: it is about which buckets are chosen. The program allows 1 to 64 tokens.
    with start(model.parent, "--no-compile", cache=fresh_cache) as daemon:
        daemon.wait_ready()
        assert "buckets: auto: the default ones, no traffic of model tokens" in daemon.log()
        send_mix(daemon)
        assert daemon.stop() == 0
    chosen = []
    for expected in ("in place of 4, they save", "those chosen last stay"):
        with start(model.parent, "--no-compile", cache=fresh_cache) as daemon:
            daemon.wait_ready()
            (line,) = [line for line in daemon.log().splitlines() if "buckets: auto: " in line]
            assert expected in line
            chosen.append({labels["bucket"] for labels, _ in daemon.samples("stoker_bucket_state")})
            assert daemon.stop() == 0
    assert "batch=1,tokens=12" in chosen[0] and chosen[0] == chosen[1]
    models = f"--model-repository={model.parent}"
    plan = json.loads(ctl("--json", "--cache", fresh_cache, "plan", models))
    assert {row["bucket"] for row in plan["buckets"]} == chosen[0]


@pytest.fixture
def artifacts(fresh_cache: Path, kept: Path) -> Iterator[Path]:
    """A kernel cache with the artifacts of earlier runs, and nothing else that they left."""
    entries, earlier = fresh_cache / "v1/entries", kept / "kernels/v1/entries"
    if earlier.exists():
        shutil.copytree(earlier, entries, copy_function=os.link)
    yield fresh_cache
    for entry in entries.glob("*/*"):
        target = earlier / entry.parent.name / entry.name
        if not target.exists():
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(OSError):  # another process was faster
                entry.rename(target)


def test_buckets_are_changed_behind_traffic(
    model: Path, artifacts: Path, start: Callable[..., Daemon]
) -> None:
    """The version that serves is replaced by itself with other buckets; nobody notices. The first run
    on a machine compiles them meanwhile. Half of what the default bucket of 64 tokens computes for these
    texts is padding: as little as this program takes, that is well above what a change must save."""
    write(model, "buckets: auto\n")
    stop = threading.Event()
    failures: list[Any] = []
    answered: list[Any] = []

    def load() -> None:
        with daemon.client() as client:
            while not stop.wait(PAUSE_SECONDS):
                try:
                    answered.append(ask(client, 18 + len(answered) % 3).shape[1])
                except triton.InferenceServerException as error:
                    failures.append(error)

    with start(model.parent, "--rebucket-seconds=1", "--compile-jobs=1", cache=artifacts) as daemon:
        daemon.wait_ready()
        clients = [threading.Thread(target=load) for _ in range(2)]
        for client in clients:
            client.start()

        def serves_them() -> bool:
            return daemon.metric("stoker_tier_requests_total", tier="aot", bucket="batch=1,tokens=20") > 100

        try:
            assert wait_until(serves_them, 300), f"other buckets don't serve:\n{daemon.log()}"
        finally:
            stop.set()
            for client in clients:
                client.join()
        assert failures == [] and set(answered) == {18, 19, 20}
        assert "in place of" in daemon.log()
        assert daemon.stop() == 0


def test_damaged_traffic_is_set_aside(model: Path, tmp_path: Path, start: Callable[..., Daemon]) -> None:
    write(model, "buckets: auto\n")
    cache = tmp_path / "cache"
    (cache / "v1/traffic").mkdir(parents=True, mode=0o700)
    cache.chmod(0o700)
    (cache / "v1").chmod(0o700)
    (cache / "v1/traffic/tokens.json").write_text('{"schema": 1, "requests": [{"count": -1}]}')
    with start(model.parent, "--no-compile", cache=cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        assert "is set aside: traffic: expected" in daemon.log()
        ask(client, 7)
        assert daemon.stop() == 0
    assert (cache / "v1/traffic/tokens.json.damaged").exists()
    (shape,) = json.loads((cache / "v1/traffic/tokens.json").read_text())["requests"]
    assert shape == {"sizes": [1, 7], "count": 1}
