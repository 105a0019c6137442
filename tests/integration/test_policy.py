"""Who may do what: a policy before the daemon, its real clients, and the operator's tool."""

from __future__ import annotations

import http.client
import json
import os
import queue
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from loadtest.servers.process import ServerError
from tests.integration.bearer import bearer, digest
from tests.integration.certificates import Authority
from tests.integration.daemon import REPO, STOKERCTL, Daemon, ctl, eventually
from tests.integration.wire import assert_same, eager, raw_request, read, stub

X = {"x": torch.linspace(-1, 1, 16).reshape(1, 16)}
WEB = "web-token-3mBqYx0Hq9sZ"
OPERATOR = "operator-token-8fK2"
OLD = "old-token-Vw77"

WEB_MAY = {"name": "web", "callers": ["web"], "groups": ["infer", "metadata"], "models": ["ident*"]}
OPERATOR_MAY = {"callers": ["operator"], "groups": ["infer", "metadata", "control", "statistics", "metrics"]}
EVERYBODY_MAY = {"callers": ["anonymous"], "groups": ["health", "metrics"]}
RULES: tuple[Mapping[str, object], ...] = (EVERYBODY_MAY, WEB_MAY, OPERATOR_MAY)


def write_policy(path: Path, *rules: Mapping[str, object]) -> None:
    """A whole file in the place of the one before. JSON is YAML."""
    callers = {
        "web": {"tokens": [{"sha256": digest(WEB)}, {"sha256": digest(OLD), "expires": "2020-01-01T00:00:00Z"}]},
        "operator": {"tokens": [{"sha256": digest(OPERATOR)}], "names": ["operator.example.com"]},
    }
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"callers": callers, "rules": rules}, indent=1))
    fresh.replace(path)


@dataclass
class Guarded:
    daemon: Daemon
    policy: Path
    tokens: Path  # a file for each caller

    def refusals(self, reason: str) -> float:
        return self.daemon.metric("stoker_access_refused_total", reason=reason)

    def audit(self) -> list[str]:
        return [line[line.index("audit: ") :] for line in self.daemon.log().splitlines() if "audit: " in line]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, exported: Callable[[str], Path]) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("policy")
    policy = folder / "policy.yaml"
    (folder / "models").mkdir()
    for model in ("identity", "mlp"):
        (folder / "models" / model).symlink_to(exported(model))
    write_policy(policy, *RULES)
    for name, token in {"web": WEB, "operator": OPERATOR, "old": OLD}.items():
        (folder / name).write_text(token + "\n")
    flags = ["--no-compile", f"--policy={policy}", "--model-control=explicit", "--load-model=*"]
    with Daemon(folder / "models", folder / "cache", folder / "stokerd.log", *flags) as daemon:
        eventually(lambda: "ready " in daemon.log(), "it is ready")
        yield Guarded(daemon, policy, folder)


@pytest.fixture
def client(guarded: Guarded) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(guarded.daemon.address) as made:
        yield made


def value() -> triton.InferInput:
    made = triton.InferInput("x", [1, 16], "FP32")
    made.set_data_from_numpy(X["x"].numpy())
    return made


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(InferenceServerException) as error:
        call()
    return error.value.status(), error.value.message()


def test_who_may(client: triton.InferenceServerClient) -> None:
    client.infer("identity", [value()], headers=bearer(WEB))
    assert client.get_model_metadata("identity", headers=bearer(WEB)).name == "identity"
    assert client.is_server_live()
    assert client.is_model_ready("mlp")
    assert len(client.get_model_repository_index(headers=bearer(OPERATOR)).models) == 2


def test_who_may_not(guarded: Guarded, client: triton.InferenceServerClient) -> None:
    before = guarded.refusals("permission")
    status, text = refusal(lambda: client.infer("mlp", [value()], headers=bearer(WEB)))
    assert status == "StatusCode.PERMISSION_DENIED"
    assert text == "caller 'web' may not call ModelInfer (group infer) on model 'mlp'"
    status, text = refusal(lambda: client.load_model("identity", headers=bearer(WEB)))
    assert (status, text) == (
        "StatusCode.PERMISSION_DENIED",
        "caller 'web' may not call RepositoryModelLoad (group control)",
    )
    assert guarded.refusals("permission") == before + 2


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", "no_credentials"),
        ("wrong", "unknown_token"),
        (OLD, "expired"),
        ("a b", "malformed"),
        ("x" * 9000, "malformed"),
    ],
)
def test_who_is_nobody(guarded: Guarded, client: triton.InferenceServerClient, token: str, reason: str) -> None:
    before = guarded.refusals(reason)
    status, text = refusal(lambda: client.infer("identity", [value()], headers=bearer(token)))
    assert status == "StatusCode.UNAUTHENTICATED"
    assert not token or token not in text
    assert guarded.refusals(reason) == before + 1


def test_a_token_that_is_longer_than_headers_may_be(guarded: Guarded, client: triton.InferenceServerClient) -> None:
    status, text = refusal(lambda: client.infer("identity", [value()], headers=bearer("x" * 20_000)))
    assert status == "StatusCode.RESOURCE_EXHAUSTED"
    assert "xxxx" not in text
    asked = http.client.HTTPConnection("127.0.0.1", guarded.daemon.http_port, timeout=30)
    asked.request("GET", "/v2/models/identity", headers=bearer("x" * 20_000))
    assert asked.getresponse().status == 431
    client.infer("identity", [value()], headers=bearer(WEB))


def test_a_proxy_that_reuses_a_connection_for_many_users(guarded: Guarded) -> None:
    """Calls of all of them at a time: each gets what is his, whoever asked before him."""
    may = {WEB: grpc.StatusCode.PERMISSION_DENIED, OPERATOR: grpc.StatusCode.OK}
    nobody = dict.fromkeys(("", "wrong", OLD, "a b", "x" * 9000), grpc.StatusCode.UNAUTHENTICATED)
    expected = {**may, **nobody}
    with grpc.insecure_channel(guarded.daemon.address) as channel:
        # Few that the log has lines for: other tests look for theirs.
        models = ["mlp"] * 3 + ["identity"] * 40
        pending = [
            (token, model, stub(channel).ModelInfer.future(request, metadata=list(bearer(token).items()), timeout=60))
            for model, request in [(name, raw_request(name, X)) for name in models]
            for token in expected
        ]
        for token, model, one in pending:
            code = grpc.StatusCode.OK if (token, model) == (WEB, "identity") else expected[token]
            assert one.code() == code, (token[:20], model)
    kept = http.client.HTTPConnection("127.0.0.1", guarded.daemon.http_port, timeout=30)
    for token, code in [*expected.items(), *reversed(expected.items())]:
        kept.request("GET", "/v2/models/mlp", headers=bearer(token))
        answer = kept.getresponse()
        answer.read()
        status = {grpc.StatusCode.OK: 200, grpc.StatusCode.PERMISSION_DENIED: 403}
        assert answer.status == status.get(code, 401), token[:20]


def test_a_stream_is_asked_about_every_request(guarded: Guarded) -> None:
    requests = [raw_request(model, X) for model in ("identity", "mlp", "identity")]
    with grpc.insecure_channel(guarded.daemon.address) as channel:
        answers = list(stub(channel).ModelStreamInfer(iter(requests), metadata=list(bearer(WEB).items()), timeout=30))
    assert_same(read(answers[0].infer_response), eager("identity", X))
    assert "may not call ModelStreamInfer (group infer) on model 'mlp'" in answers[1].error_message
    assert_same(read(answers[2].infer_response), eager("identity", X))


def test_what_is_open_ends_with_what_allowed_it(guarded: Guarded) -> None:
    """Within a second of the file's being read; another caller's stream goes on."""

    def reloads() -> float:
        return guarded.daemon.metric("stoker_policy_reloads_total", outcome="ok")

    before = reloads()
    sent: dict[str, queue.Queue] = {WEB: queue.Queue(), OPERATOR: queue.Queue()}
    with grpc.insecure_channel(guarded.daemon.address) as channel:
        streams = {
            token: stub(channel).ModelStreamInfer(
                iter(requests.get, None), metadata=list(bearer(token).items()), timeout=120
            )
            for token, requests in sent.items()
        }
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(
            b"\n\x08identity", metadata=list(bearer(WEB).items()), timeout=120
        )
        assert next(watch) == b"\x08\x01"
        for token, stream in streams.items():
            sent[token].put(raw_request("identity", X))
            assert next(stream).error_message == ""

        write_policy(guarded.policy, {"callers": ["anonymous"], "groups": ["metrics"]}, OPERATOR_MAY)
        eventually(lambda: reloads() == before + 1, "it is read", 30)
        read_at = time.monotonic()
        for call, group in ((watch, "health"), (streams[WEB], "infer")):
            with pytest.raises(grpc.RpcError) as ended:
                next(call)
            assert ended.value.code() == grpc.StatusCode.PERMISSION_DENIED
            assert f"(group {group})" in ended.value.details()
        # 0.25 s between two questions; the rest is for a busy machine.
        assert time.monotonic() - read_at < 5
        sent[OPERATOR].put(raw_request("identity", X))
        assert_same(read(next(streams[OPERATOR]).infer_response), eager("identity", X))
        for requests in sent.values():
            requests.put(None)
    write_policy(guarded.policy, *RULES)
    eventually(lambda: reloads() == before + 2, "it is back", 30)


def test_the_http_client(guarded: Guarded) -> None:
    python = subprocess.run([REPO / "tests/clients.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    script = REPO / "tests/integration/policy_http_client.py"
    done = subprocess.run(
        [python, script, str(guarded.daemon.http_port), WEB], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, dict[str, list[str]]] = json.loads(done.stdout.splitlines()[-1])
    statuses = {who: {what: came[0] for what, came in calls.items()} for who, calls in found.items()}
    closed = {"infer": "401", "other": "401", "metadata": "401", "index": "401", "load": "401"}
    assert statuses["nobody"] == {"live": "ok", **closed}
    assert statuses["basic"] == statuses["wrong"] == {"live": "ok", **closed}  # which the client takes for no
    assert statuses["web"] == {
        "live": "ok", "infer": "ok", "other": "403", "metadata": "ok", "index": "403", "load": "403",
    }  # fmt: skip
    assert found["web"]["other"][1] == "caller 'web' may not call ModelInfer (group infer) on model 'other'"


def get(port: int, path: str, token: str = "") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers=bearer(token))
    return connection.getresponse()


def test_http_names_the_scheme(guarded: Guarded) -> None:
    answer = get(guarded.daemon.http_port, "/v2/models/identity")
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert get(guarded.daemon.http_port, "/v2/models/identity", WEB).status == 200
    assert get(guarded.daemon.http_port, "/v2/health/live", "wrong").status == 401


def test_a_body_is_not_read_of_who_may_not(guarded: Guarded) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", guarded.daemon.http_port, timeout=20)
    connection.putrequest("POST", "/v2/models/identity/infer")
    connection.putheader("Content-Length", str(1 << 20))
    connection.endheaders()
    assert connection.getresponse().status == 401


def test_changes_and_refusals_are_in_the_log(guarded: Guarded, client: triton.InferenceServerClient) -> None:
    client.unload_model("mlp", headers=bearer(OPERATOR))
    client.load_model("mlp", headers=bearer(OPERATOR))
    refusal(lambda: client.unload_model("mlp", headers=bearer(WEB)))
    lines = guarded.audit()
    who = "audit: caller=operator peer=127.0.0.1"
    assert f"{who} method=RepositoryModelUnload object='mlp' let in" in lines
    assert f"{who} method=RepositoryModelLoad object='mlp' let in" in lines
    assert any(
        line.startswith("audit: caller=web peer=127.0.0.1 method=RepositoryModelUnload refused: permission")
        for line in lines
    )
    log = guarded.daemon.log()
    assert not any(token in log for token in (WEB, OPERATOR, OLD))


def test_the_operators_tool(guarded: Guarded) -> None:
    address = ["--grpc", guarded.daemon.address]
    shown = f"--token-file={guarded.tokens / 'operator'}"
    assert ctl("health", *address) == "serving\n"
    assert ctl("health", *address, shown) == "serving\n"
    assert "expired" in ctl("health", *address, f"--token-file={guarded.tokens / 'old'}", code=4)
    assert ctl("model", "load", "mlp", *address, shown) == "mlp: loaded\n"
    assert "may not call RepositoryModelLoad" in ctl("model", "load", "mlp", *address, code=4)
    (guarded.tokens / "empty").write_text("\n")
    assert "expected a token" in ctl("health", *address, f"--token-file={guarded.tokens / 'empty'}", code=4)


def test_a_policy_that_changes(guarded: Guarded, client: triton.InferenceServerClient) -> None:
    """Also closes the metrics port, and opens it again."""

    def reloads(outcome: str) -> float:
        return guarded.daemon.metric("stoker_policy_reloads_total", outcome=outcome)

    ok, failed = reloads("ok"), reloads("failed")
    guarded.policy.write_text("callers: {web: {tokens: [" + WEB + "]}}\n")
    eventually(lambda: reloads("failed") == failed + 1, "the wrong one is found", 30)
    client.infer("identity", [value()], headers=bearer(WEB))
    assert guarded.daemon.log().count("the policy of before stays in force") == 1
    assert f"{guarded.policy}:1: callers.web.tokens[0]: expected a map with sha256, got none" in guarded.daemon.log()
    assert WEB not in guarded.daemon.log()

    page = guarded.daemon.metrics_port
    write_policy(guarded.policy, {"callers": ["anonymous"], "groups": ["health"]}, OPERATOR_MAY)
    eventually(lambda: get(page, "/metrics").status == 401, "the metrics are closed", 30)
    assert get(page, "/", WEB).status == 403
    assert get(page, "/nothing").status == 401
    assert get(page, "/metrics", OPERATOR).status == 200
    metrics = f"http://127.0.0.1:{page}/metrics"
    ctl("status", "--metrics", metrics, code=4)
    assert "identity:1" in ctl("status", "--metrics", metrics, f"--token-file={guarded.tokens / 'operator'}")
    status, _ = refusal(lambda: client.infer("identity", [value()], headers=bearer(WEB)))
    assert status == "StatusCode.PERMISSION_DENIED"

    write_policy(guarded.policy, *RULES)
    eventually(lambda: get(page, "/metrics").status == 200, "the first one is back", 30)
    client.infer("identity", [value()], headers=bearer(WEB))
    assert reloads("ok") == ok + 2


def test_a_name_of_a_certificate(tmp_path: Path, repository: Callable[..., Path]) -> None:
    authority = Authority(tmp_path / "pki")
    certificate, key = authority.sign("server", "DNS:localhost,IP:127.0.0.1")
    policy = tmp_path / "policy.yaml"
    write_policy(policy, *RULES)
    flags = [f"--tls-certificate={certificate}", f"--tls-key={key}", f"--tls-client-ca={authority.certificate}"]
    daemon = Daemon(
        repository("identity"), tmp_path / "cache", tmp_path / "log", "--no-compile", f"--policy={policy}", *flags
    )

    def asked(name: str, token: str = "") -> grpc.StatusCode:
        own, own_key = authority.sign("client", name)
        credentials = grpc.ssl_channel_credentials(
            authority.certificate.read_bytes(), own_key.read_bytes(), own.read_bytes()
        )
        local = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.secure_channel(daemon.address, credentials, options=local) as channel:
            _, call = stub(channel).ModelInfer.with_call(
                raw_request("identity", X), timeout=30, metadata=list(bearer(token).items())
            )
            return call.code()

    def code(name: str, token: str = "") -> grpc.StatusCode:
        try:
            return asked(name, token)
        except grpc.RpcError as error:
            return error.code()

    with daemon:
        eventually(lambda: "ready " in daemon.log(), "it is ready")
        assert code("DNS:operator.example.com") == grpc.StatusCode.OK
        assert code("URI:https://x,DNS:OPERATOR.example.com") == grpc.StatusCode.OK
        assert code("DNS:x.operator.example.com") == grpc.StatusCode.UNAUTHENTICATED
        assert code("DNS:x.operator.example.com", WEB) == grpc.StatusCode.OK
        # A token says more than the certificate of the proxy that brings it.
        assert code("DNS:operator.example.com", "wrong") == grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: [{callers: [anonymous], groups: [inference]}]", ":1: rules[0].groups[0]: expected health or"),
        ("rule: []", ":1: rule: expected one of callers, rules, jwt, got an unknown field"),
        ("", ":1: expected rules"),
    ],
)
def test_a_daemon_with_a_wrong_policy(tmp_path: Path, repository: Callable[..., Path], text: str, said: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(text)
    daemon = Daemon(repository("identity"), tmp_path / "cache", tmp_path / "log", f"--policy={policy}")
    with pytest.raises(ServerError):
        daemon.__enter__()
    assert f"{policy}{said}" in daemon.log()


def test_a_policy_about_models_that_are_none(tmp_path: Path, repository: Callable[..., Path]) -> None:
    policy = tmp_path / "policy.yaml"
    write_policy(policy, EVERYBODY_MAY, {**WEB_MAY, "models": ["identity", "idnetity"]}, OPERATOR_MAY)
    with Daemon(repository("identity"), tmp_path / "cache", tmp_path / "log", f"--policy={policy}") as daemon:
        line = f"policy {policy}: expected names of models, found none that is 'idnetity' (web)"
        eventually(lambda: line in daemon.log(), "it is said", 60)


def test_without_a_policy_changes_are_logged(
    tmp_path: Path, repository: Callable[..., Path], start: Callable[..., Daemon]
) -> None:
    with start(repository("identity"), "--no-compile", "--model-control=explicit") as daemon:
        ctl("model", "load", "identity", "--grpc", daemon.address)
        line = "audit: caller=anonymous peer=127.0.0.1 method=RepositoryModelLoad object='identity' let in"
        assert line in daemon.log()


def test_a_policy_is_tried(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    write_policy(policy, *RULES)
    (tmp_path / "web").write_text(WEB)
    allowed = "allowed: web, group infer, by web\n"
    assert ctl("policy", "test", policy, "--token", WEB, "ModelInfer", "identity") == allowed
    assert ctl("policy", "test", policy, "--token-file", tmp_path / "web", "ModelInfer", "identity") == allowed
    refused = "refused: web, group infer, no rule grants infer on model mlp to web\n"
    assert ctl("policy", "test", policy, "--token", WEB, "ModelInfer", "mlp", code=1) == refused
    assert ctl("policy", "test", policy, "--san", "operator.example.com", "RepositoryModelLoad", "mlp") == (
        "allowed: operator, group control, by rule 3\n"
    )
    assert ctl("policy", "test", policy, "--anonymous", "/metrics") == (
        "allowed: anonymous, group metrics, by rule 1\n"
    )
    assert "refused: web, group metadata" in ctl("policy", "test", policy, "--token", WEB, "RepositoryIndex", code=1)
    assert "nobody has this token" in ctl("policy", "test", policy, "--token", "x", "ModelInfer", "identity", code=1)
    assert "expired at 2020-01-01" in ctl("policy", "test", policy, "--token", OLD, "ModelInfer", "identity", code=1)
    found: dict[str, Any] = json.loads(
        ctl("policy", "test", policy, "--token", WEB, "ModelInfer", "mlp", "--json", code=1)
    )
    assert (found["verdict"], found["caller"], found["group"]) == ("refused", "web", "infer")
    ctl("policy", "test", policy, "ModelInfer", code=2)
    ctl("policy", "test", policy, "--anonymous", "--token", WEB, "ModelInfer", code=2)
    assert "expected one of Check, Watch" in ctl("policy", "test", policy, "--anonymous", "Infer", code=4)
    policy.write_text("rules: 1")
    assert f"{policy}:1: rules: expected a list" in ctl("policy", "test", policy, "--anonymous", "Check", code=4)


def test_the_manuals_example(tmp_path: Path) -> None:
    manual = (REPO / "config/README.md").read_text()
    policy = tmp_path / "policy.yaml"
    policy.write_text(manual.split("```yaml\ncallers:")[1].split("```")[0].join(["callers:", ""]))
    shown = [line for line in manual.splitlines() if line.startswith("$ stokerctl policy test policy.yaml")]
    answers = [manual.split(f"{line}\n")[1].splitlines()[0] for line in shown]
    for line, answer in zip(shown, answers, strict=True):
        arguments = line.split()[5:]
        assert ctl("policy", "test", policy, *arguments, code=int(answer.startswith("refused"))) == f"{answer}\n"
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("token", "code", "said"),
    [
        ("k" * 43, 0, ""),
        ("k" * 43 + "\n", 0, ""),
        ("short", 0, "can be guessed"),
        ("", 4, "expected a token of 1 to 8192 bytes, got 0"),
        ("two words" * 9, 4, "without spaces"),
        ("k" * 9000, 4, "expected a token of 1 to 8192 bytes"),
    ],
)
def test_a_token_is_hashed(token: str, code: int, said: str) -> None:
    done = subprocess.run(
        [STOKERCTL, "policy", "hash"], input=token, capture_output=True, text=True, timeout=60, env=os.environ
    )
    assert done.returncode == code and said in done.stderr
    assert "two words" not in done.stderr
    if code == 0:
        assert done.stdout == digest(token.strip()) + "\n"
