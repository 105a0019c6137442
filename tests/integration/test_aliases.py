"""Proves that names stand for versions, share the requests that name none, and move by one call without a failure."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import tritonclient.grpc as triton

from tests.integration.clients import check_mlp, infer, rows
from tests.integration.daemon import Daemon, ctl, eventually
from tests.integration.http1 import ask
from tests.integration.test_model_control import EXPLICIT, index, refusal
from tests.integration.test_repository_poll import IDENTITY, MLP, POLL, put, traffic

ALIASES = "stable: {version: 1, percent: 90}\ncanary: {version: 2, percent: 10}\n"


@pytest.fixture
def two(repository: Callable[..., Path], exported: Callable[[str], Path]) -> Path:
    """A repository with mlp:1, and mlp:2 which is another program."""
    root = repository("mlp")
    put(root / "mlp/2", exported("identity") / "1")
    return root


def widths(client: triton.InferenceServerClient, count: int) -> Counter[int]:
    """Of answers to so many requests without a version."""
    return Counter(infer(client, rows(1)).shape[1] for _ in range(count))


def aliases(daemon: Daemon) -> dict[str, dict[str, int]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.metrics_port}/status.json") as answer:
        models = json.load(answer)["models"]
    return {line["model"]: line["aliases"] for line in models}


def set_aliases(client: triton.InferenceServerClient, text: str) -> None:
    client.load_model("mlp", files={"file:aliases.yaml": text.encode()})


def test_names_and_shares(two: Path, start) -> None:
    (two / "mlp/aliases.yaml").write_text(ALIASES)
    with start(two, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        assert index(client) == {"mlp:1": ("READY", ""), "mlp:2": ("READY", "")}
        assert widths(client, 100) == {MLP: 90, IDENTITY: 10}
        assert infer(client, rows(1), model_version="stable").shape[1] == MLP
        assert infer(client, rows(1), model_version="canary").shape[1] == IDENTITY
        assert infer(client, rows(1), model_version="2").shape[1] == IDENTITY
        assert client.is_model_ready("mlp", "canary")
        assert not client.is_model_ready("mlp", "nobody")
        assert client.get_model_metadata("mlp", "canary").versions == ["2"]
        assert client.get_model_metadata("mlp").outputs[0].shape == [-1, MLP]  # of the larger share
        assert client.get_inference_statistics("mlp", "canary").model_stats[0].version == "2"
        code, text = refusal(lambda: infer(client, rows(1), model_version="nobody"))
        assert code == "INVALID_ARGUMENT"
        assert text.endswith("'nobody': version should be an integral value > 0, or an alias of the model's")
        body = json.dumps({"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [0.0] * 16}]})
        path = "/v2/models/mlp/versions/canary/infer"
        answer = ask(daemon.http_port, "POST", path, body.encode())
        assert answer.status == 200
        assert json.loads(answer.body)["model_version"] == "2"
        assert aliases(daemon) == {"mlp:1": {"stable": 90}, "mlp:2": {"canary": 10}}
        assert daemon.stop() == 0
    with start(two, "--no-compile") as daemon, daemon.client() as client:  # a file outlasts the daemon
        daemon.wait_ready(60)
        assert aliases(daemon) == {"mlp:1": {"stable": 90}, "mlp:2": {"canary": 10}}
        assert daemon.stop() == 0


def test_promotion_by_one_call(two: Path, start) -> None:
    with start(two, *EXPLICIT, "--load-model=mlp") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        assert list(index(client)) == ["mlp:2"]  # the latest
        set_aliases(client, ALIASES)
        with traffic(daemon) as requests:
            assert infer(client, rows(1), model_version="stable").shape[1] == MLP
            requests.sees(IDENTITY)
            ctl("model", "alias", "mlp", "stable=2:100", "--grpc", daemon.address)
            assert infer(client, rows(1), model_version="stable").shape[1] == IDENTITY
            assert refusal(lambda: infer(client, rows(1), model_version="canary"))[0] == "INVALID_ARGUMENT"
            eventually(lambda: list(index(client)) == ["mlp:2"], "the old one is gone")
            assert widths(client, 20) == {IDENTITY: 20}
            ctl("model", "alias", "mlp", "stable=1:100", "--grpc", daemon.address)  # and back
            assert infer(client, rows(1), model_version="stable").shape[1] == MLP
            assert requests.failure is None
        client.load_model("mlp")  # what the repository says
        assert refusal(lambda: infer(client, rows(1), model_version="stable"))[0] == "INVALID_ARGUMENT"
        assert daemon.stop() == 0


def test_an_alias_to_nothing(two: Path, start) -> None:
    with start(two, *EXPLICIT, "--load-model=mlp") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        set_aliases(client, ALIASES)
        for wrong, said in [
            ("stable: 3\n", "aliases.yaml: stable: expected a version that is in"),
            ("stable: one\n", "file:aliases.yaml:1: stable: expected"),
            ("stable: {version: 1, percent: 50}\n", "percents of 100 together, or none, got 50 together"),
            ("- stable\n", "file:aliases.yaml:1: expected a map"),
        ]:
            code, text = refusal(partial(set_aliases, client, wrong))
            assert (code, said in text) == ("INVALID_ARGUMENT", True), text
            assert aliases(daemon) == {"mlp:1": {"stable": 90}, "mlp:2": {"canary": 10}}
        said = ctl("model", "alias", "mlp", "stable=7", "--grpc", daemon.address, code=4)
        assert "expected a version that is in" in said and "(1, 2), got 7" in said
        assert "expected NAME=VERSION or" in ctl("model", "alias", "mlp", "stable", "--grpc", daemon.address, code=4)
        assert refusal(lambda: client.load_model("nobody", files={"file:aliases.yaml": b"a: 1\n"}))[0] == "INTERNAL"
        assert widths(client, 100) == {MLP: 90, IDENTITY: 10}
        assert daemon.stop() == 0


def test_a_watched_repository(two: Path, start) -> None:
    with start(two, "--no-compile", POLL) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        assert widths(client, 4) == {IDENTITY: 4}
        fresh = two / "mlp/aliases.new"
        fresh.write_text("stable: {version: 1, percent: 100}\n")
        fresh.rename(two / "mlp/aliases.yaml")
        eventually(lambda: client.is_model_ready("mlp", "stable"), "it is read")
        check_mlp(client)
        (two / "mlp/aliases.yaml").write_text("stable: 9\n")
        eventually(lambda: "expected a version that is in" in daemon.log(), "it is refused")
        check_mlp(client)  # what was serves on
        assert infer(client, rows(1), model_version="stable").shape[1] == MLP
        assert daemon.stop() == 0
