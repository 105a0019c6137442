"""Proves that a platform can drive which models are served, without a failed request of those that it swaps."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.integration.clients import check_mlp, expected, infer, rows
from tests.integration.daemon import STOKERD, ctl, eventually, write_yaml
from tests.integration.test_repository_poll import IDENTITY, MLP, put, traffic

EXPLICIT = ("--model-control=explicit", "--no-compile")


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(InferenceServerException) as error:
        call()
    return str(error.value.status()).removeprefix("StatusCode."), error.value.message()


def index(client: triton.InferenceServerClient) -> dict[str, tuple[str, str]]:
    """The state and reason of each line, by model and version."""
    lines = client.get_model_repository_index().models
    return {f"{line.name}:{line.version}": (line.state, line.reason) for line in lines}


def test_nothing_is_loaded_unless_chosen(repository, start) -> None:
    root = repository("mlp", "renamed")
    with start(root, *EXPLICIT) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        unloaded = ("UNAVAILABLE", "unloaded")
        assert index(client) == {"mlp:": unloaded, "renamed:": unloaded}
        assert not client.is_model_ready("mlp")
        assert refusal(lambda: infer(client, rows(2)))[0] == "NOT_FOUND"
        client.load_model("mlp")  # answered when it serves
        check_mlp(client)
        assert index(client) == {"mlp:1": ("READY", ""), "renamed:": unloaded}
        client.unload_model("mlp")  # answered when nobody finds it any more
        assert not client.is_model_ready("mlp")
        assert refusal(lambda: infer(client, rows(2)))[0] in ("NOT_FOUND", "UNAVAILABLE")
        eventually(lambda: index(client).get("mlp:") == unloaded, "it is gone")
        client.load_model("mlp")
        check_mlp(client)
        assert client.is_server_ready()
        assert daemon.stop() == 0


def test_chosen_at_the_start(repository, start) -> None:
    root = repository("mlp", "renamed", "identity")
    with start(root, *EXPLICIT, "--load-model=mlp", "--load-model=nobody") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        lines = index(client)
        assert lines["mlp:1"] == ("READY", "")
        assert lines["nobody:"][0] == "UNAVAILABLE"
        assert "/models/nobody, found none" in lines["nobody:"][1]
        assert lines["renamed:"] == lines["identity:"] == ("UNAVAILABLE", "unloaded")
        assert daemon.stop() == 0
    with start(root, *EXPLICIT, "--load-model=*") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        assert {state for state, _ in index(client).values()} == {"READY"}
        assert daemon.stop() == 0


def test_what_cannot_be_loaded(repository, start) -> None:
    root = repository("mlp")
    with start(root, *EXPLICIT) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        code, text = refusal(lambda: client.load_model("nobody"))
        assert code == "INTERNAL"
        assert text.startswith("failed to load 'nobody', failed to poll from model repository: there is none"), text
        client.load_model("mlp")
        (root / "mlp/2").mkdir()
        (root / "mlp/2/model.pt2").write_bytes(b"not an archive")
        code, text = refusal(lambda: client.load_model("mlp"))
        assert code == "INTERNAL"
        assert text.startswith("failed to load 'mlp', no version is available: version 2: "), text
        assert "mlp/2/model.pt2" in text
        check_mlp(client)  # the old version
        assert index(client)["mlp:1"] == ("READY", "")
        assert index(client)["mlp:2"][0] == "UNAVAILABLE"
        assert client.is_server_ready()
        shutil.rmtree(root / "mlp/2")
        client.load_model("mlp")
        assert index(client) == {"mlp:1": ("READY", "")}
        write_yaml(root / "mlp", buckets=7)
        code, text = refusal(lambda: client.load_model("mlp"))
        assert "model.yaml:" in text and "got 7" in text
        check_mlp(client)
        shutil.rmtree(root / "mlp")
        assert refusal(lambda: client.load_model("mlp"))[0] == "INTERNAL"
        check_mlp(client)
        assert daemon.stop() == 0


def test_what_a_request_may_not_say(repository, start) -> None:
    root = repository("mlp")
    with start(root, *EXPLICIT) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        client.load_model("mlp")
        client.unload_model("mlp", unload_dependents=True)
        client.unload_model("nobody")
        assert refusal(lambda: client.unload_model(""))[0] == "INVALID_ARGUMENT"
        assert refusal(lambda: client.load_model(""))[0] == "INTERNAL"
        assert daemon.stop() == 0


def test_versions_follow_the_folder_only_on_request(repository, start, exported) -> None:
    root = repository("mlp")
    write_yaml(root / "mlp", versions={"latest": 2})
    with start(root, *EXPLICIT, "--load-model=mlp") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        for version in ("2", "3"):
            put(root / "mlp" / version, exported("identity") / "1")
        assert list(index(client)) == ["mlp:1"]
        client.load_model("mlp")
        assert client.get_model_metadata("mlp").versions == ["2", "3"]
        assert infer(client, rows(2)).shape == (2, IDENTITY)
        assert daemon.stop() == 0


def test_swaps_under_traffic(repository, start, exported) -> None:
    """The model that is asked for all the time is swapped, and others come and go beside it."""
    root = repository("mlp", "renamed")
    with start(root, *EXPLICIT, "--load-model=mlp") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        with traffic(daemon) as requests:
            for cycle in range(2, 42):
                put(root / f"mlp/{cycle}", exported("identity" if cycle % 2 == 0 else "mlp") / "1")
                client.load_model("mlp")
                answer = infer(client, rows(2))  # of the version that was loaded
                assert answer.shape[1] == (IDENTITY if cycle % 2 == 0 else MLP)
                shutil.rmtree(root / f"mlp/{cycle - 1}")
                client.load_model("renamed")
                client.unload_model("renamed")
                assert requests.failure is None
            requests.sees(MLP)
        assert daemon.metric("stoker_requests_total", model="mlp") == daemon.metric(
            "stoker_requests_total", model="mlp", outcome="ok"
        )
        eventually(lambda: list(index(client)) == ["mlp:41", "renamed:"], "one version is left")
        assert daemon.stop() == 0


def test_many_at_once(repository, start) -> None:
    """Loads and unloads of one model by several clients: each is answered, and the last one counts."""
    root = repository("mlp")
    with start(root, *EXPLICIT) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        answers: list[str] = []

        def change(load: bool) -> None:
            with daemon.client() as other:
                for _ in range(10):
                    try:
                        (other.load_model if load else other.unload_model)("mlp")
                        answers.append("OK")
                    except InferenceServerException as error:
                        answers.append(error.message())

        threads = [threading.Thread(target=change, args=(number % 2 == 0,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 40
        assert set(answers) <= {"OK", "failed to load 'mlp', it was unloaded meanwhile"}
        client.load_model("mlp")
        check_mlp(client)
        assert daemon.stop() == 0


def test_a_daemon_that_stops_keeps_no_load_waiting(repository, start, fake_compiler) -> None:
    root = repository("mlp")
    write_yaml(root / "mlp", ready_when="warm")
    flags = ("--model-control=explicit", "--drain-seconds=60", fake_compiler("--job", "hang"))
    with start(root, *flags, cache=root.parent / "empty") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        failures: list[tuple[str, str]] = []
        thread = threading.Thread(target=lambda: failures.append(refusal(lambda: client.load_model("mlp"))))
        thread.start()
        eventually(lambda: "mlp:1: loading -> warming" in daemon.log(), "it warms up")
        assert daemon.stop() == 0
        thread.join()
        assert failures[0][0] == "UNAVAILABLE"


def test_stokerctl(repository, start) -> None:
    root = repository("mlp")
    with start(root, *EXPLICIT) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        assert ctl("model", "load", "mlp", "--grpc", daemon.address) == "mlp: loaded\n"
        check_mlp(client)
        assert ctl("model", "unload", "mlp", "--grpc", daemon.address) == "mlp: unloaded\n"
        assert not client.is_model_ready("mlp")
        said = ctl("model", "load", "nobody", "--grpc", daemon.address, code=4)
        assert "failed to load 'nobody', failed to poll from model repository" in said
        assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--load-model=mlp"], "--load-model: expected --model-control explicit, got none"),
        (["--model-control=poll", "--load-model=mlp"], "--load-model: expected --model-control explicit, got poll"),
        (
            ["--model-control=explicit", "--repository-poll-seconds=1"],
            "--repository-poll-seconds: expected --model-control poll, got explicit",
        ),
        (
            ["--model-control=none", "--repository-poll-seconds=1"],
            "--repository-poll-seconds: expected --model-control poll, got none",
        ),
        (["--model-control=maybe"], "--model-control: maybe not in {none,poll,explicit}"),
    ],
)
def test_options_that_contradict(repository, tmp_path: Path, flags: list[str], said: str) -> None:
    line = [str(STOKERD), f"--model-repository={repository('mlp')}", f"--cache={tmp_path / 'cache'}", *flags]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("flags", [[], ["--model-control=none"]])
def test_without_explicit_control(repository, start, exported, flags: list[str]) -> None:
    root = repository("mlp")
    with start(root, "--no-compile", *flags) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        for call in (client.load_model, client.unload_model):
            code, text = refusal(partial(call, "mlp"))
            assert code == "UNAVAILABLE"
            assert text.startswith("explicit model load / unload is not allowed")
        np.testing.assert_allclose(infer(client, rows(2)), expected(rows(2)), atol=1e-5)
        assert daemon.stop() == 0


def test_poll_follows_the_folder(repository, start, exported) -> None:
    root = repository("mlp")
    with start(root, "--no-compile", "--model-control=poll", "--repository-poll-seconds=0.2") as daemon:
        daemon.wait_ready(60)
        with daemon.client() as client:
            put(root / "mlp/2", exported("identity") / "1")
            eventually(lambda: client.is_model_ready("mlp", "2"), "version 2 serves")
            assert refusal(lambda: client.load_model("mlp"))[0] == "UNAVAILABLE"
        assert daemon.stop() == 0


def test_a_server_without_a_model_is_ready(repository, start) -> None:
    root = repository("mlp")
    with start(root, *EXPLICIT, "--load-model=mlp") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        client.unload_model("mlp")
        assert client.is_server_ready() and client.is_server_live()
        client.load_model("mlp")
        check_mlp(client)
        assert daemon.stop() == 0
