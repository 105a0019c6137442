"""What callers of a policy may ask for, by real clients over gRPC and HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
import torch
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.integration.bearer import bearer, digest
from tests.integration.daemon import Daemon, eventually
from tests.integration.http1 import ask
from tests.integration.openapi import ASKED, PATHS, body_for, concrete
from tests.integration.wire import raw_request, stub

X = {"x": torch.linspace(-1, 1, 16).reshape(1, 16)}
SLOW, FEW, NOBODY = "slow-token-2Bd8", "few-token-9Qz1", "nobody-token-4Kx7"


def value() -> triton.InferInput:
    made = triton.InferInput("x", [1, 16], "FP32")
    made.set_data_from_numpy(X["x"].numpy())
    return made


def write(path: Path, **slow: float) -> None:
    callers = {
        "slow": {"tokens": [{"sha256": digest(SLOW)}], **slow},
        "few": {"tokens": [{"sha256": digest(FEW)}], "concurrent": 1},
        "nobody": {"tokens": [{"sha256": digest(NOBODY)}]},
        "anonymous": {"requests_per_second": 0.01},
    }
    rules = [
        {"callers": ["anonymous"], "groups": ["health", "metrics", "metadata"]},
        {"callers": ["slow", "few"], "groups": ["infer"]},
    ]
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"callers": callers, "rules": rules}))
    fresh.replace(path)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    write(path, requests_per_second=0.01, burst=2)
    return path


@pytest.fixture
def daemon(
    policy: Path, repository: Callable[..., Path], start: Callable[..., Daemon]
) -> Iterator[Daemon]:
    with start(repository("identity"), "--no-compile", f"--policy={policy}") as daemon:
        eventually(lambda: "ready " in daemon.log(), "it is ready")
        yield daemon


def refused(daemon: Daemon, **labels: str) -> float:
    return daemon.metric("stoker_access_refused_total", **labels)


def test_a_rate_over_both_protocols(daemon: Daemon, policy: Path) -> None:
    """Of one caller, however he comes; others are not touched by it."""
    body = {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [0.5] * 16}]}

    def over_http(token: str) -> tuple[int, dict[str, str]]:
        path = "/v2/models/identity/infer"
        answer = ask(daemon.http_port, "POST", path, json.dumps(body).encode(), bearer(token))
        return answer.status, answer.headers

    assert over_http(SLOW)[0] == 200
    with daemon.client() as client:
        client.infer("identity", [value()], headers=bearer(SLOW))
        with pytest.raises(InferenceServerException) as error:
            client.infer("identity", [value()], headers=bearer(SLOW))
        assert error.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
        assert "caller 'slow' may ask for 0.01 requests a second" in error.value.message()
        client.infer("identity", [value()], headers=bearer(FEW))
    status, headers = over_http(SLOW)
    assert status == 429 and 90 <= int(headers["retry-after"]) <= 100
    assert refused(daemon, caller="slow", reason="rate") == 2
    assert "audit:" not in daemon.log()

    write(policy, requests_per_second=1000)
    eventually(lambda: daemon.metric("stoker_policy_reloads_total", outcome="ok") == 1, "it is read", 30)
    assert [over_http(SLOW)[0] for _ in range(20)] == [200] * 20


def test_anonymous_has_limits_too(daemon: Daemon) -> None:
    metadata = [ask(daemon.http_port, "GET", "/v2/models/identity").status for _ in range(3)]
    assert metadata == [200, 429, 429]
    assert [ask(daemon.http_port, "GET", "/v2/health/live").status for _ in range(5)] == [200] * 5
    assert ask(daemon.http_port, "GET", "/v2/models/identity", headers=bearer("unknown")).status == 401


def test_requests_of_one_stream_under_way(daemon: Daemon) -> None:
    """Sent together, one at most is under way; each refused one says which it was."""
    requests = []
    for i in range(50):
        requests.append(raw_request("identity", X))
        requests[-1].id = str(i)
    with grpc.insecure_channel(daemon.address) as channel:
        answers = list(stub(channel).ModelStreamInfer(iter(requests), metadata=list(bearer(FEW).items()), timeout=60))
    assert [answer.infer_response.id for answer in answers] == [str(i) for i in range(50)]
    good = [answer for answer in answers if not answer.error_message]
    told = {answer.error_message for answer in answers if answer.error_message}
    assert good and told <= {"caller 'few' may have 1 requests under way, and has as many: try again later"}
    assert refused(daemon, caller="few", reason="concurrent") == 50 - len(good)


def test_callers_do_not_wait_for_each_other(daemon: Daemon) -> None:
    """One that asks for far too much is refused, and takes nothing from another."""
    stop = threading.Event()

    def flood() -> None:
        with triton.InferenceServerClient(daemon.address) as client:
            while not stop.is_set():
                try:
                    client.infer("identity", [value()], headers=bearer(SLOW))
                except InferenceServerException as error:
                    assert error.status() == "StatusCode.RESOURCE_EXHAUSTED"

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        with daemon.client() as client:
            for _ in range(100):
                client.infer("identity", [value()], headers=bearer(FEW))
        assert refused(daemon, caller="slow", reason="rate") > 0
        assert refused(daemon, caller="few") == 0
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, exported: Callable[[str], Path]) -> Iterator[Daemon]:
    """Where one caller may everything, once in a long time, and another nothing."""
    folder = tmp_path_factory.mktemp("described")
    callers = {
        "slow": {"tokens": [{"sha256": digest(SLOW)}], "requests_per_second": 0.0001},
        "nobody": {"tokens": [{"sha256": digest(NOBODY)}]},
    }
    groups = ["health", "metadata", "infer", "control", "statistics", "shared_memory", "trace"]
    policy = {"callers": callers, "rules": [{"callers": ["slow"], "groups": groups}]}
    (folder / "policy.yaml").write_text(json.dumps(policy))
    (folder / "models").mkdir()
    (folder / "models/mlp").symlink_to(exported("mlp"))
    flags = ["--no-compile", "--allow-client-shm", "--model-control=explicit", "--load-model=mlp"]
    flags.append(f"--policy={folder / 'policy.yaml'}")
    with Daemon(folder / "models", folder / "cache", folder / "stokerd.log", *flags) as daemon:
        eventually(lambda: "ready " in daemon.log(), "it is ready")
        yield daemon


@pytest.mark.parametrize(("path", "verb"), ASKED)
def test_refusals_are_described(guarded: Daemon, path: str, verb: str) -> None:
    """In openapi.json: who is nobody, who may not, and who asks for too much."""
    responses = PATHS[path][verb]["responses"]
    body = body_for(path, verb)
    for status, token in ((401, "unknown"), (403, NOBODY)):
        answer = ask(guarded.http_port, verb.upper(), concrete(path), body, bearer(token))
        assert answer.status == status and str(status) in responses, answer
        assert set(answer.json()) == {"error"}
    limited = [ask(guarded.http_port, verb.upper(), concrete(path), body, bearer(SLOW)) for _ in range(2)]
    assert limited[1].status == 429 or "/health/" in path or path.endswith("/ready")
    assert all(str(answer.status) in responses for answer in limited)
    assert "retry-after" in limited[1].headers or limited[1].status != 429
