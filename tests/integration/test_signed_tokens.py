"""Tokens of an identity provider before the daemon: every algorithm, what is refused, and keys that are exchanged."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch

from tests.integration.daemon import Daemon, ctl, eventually
from tests.integration.http1 import ask
from tests.integration.identity_provider import AUDIENCE, ISSUER, KINDS, Provider, base64url
from tests.integration.wire import assert_same, eager, raw_request, read, stub

X = {"x": torch.linspace(-1, 1, 16).reshape(1, 16)}
ML: dict[str, Any] = {"groups": ["staff", "ml"], "sub": "alice"}


def replace(path: Path, content: object) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content))
    fresh.replace(path)


def rules() -> dict[str, object]:
    return {
        "jwt": {"jwks": "keys.json", "issuer": ISSUER, "audience": AUDIENCE},
        "callers": {"ml": {"claims": [{"groups": "ml"}, {"scope": "infer"}]}},
        "rules": [
            {"callers": ["anonymous"], "groups": ["health", "metrics"]},
            {"callers": ["ml"], "groups": ["infer", "metadata"], "models": ["identity"]},
        ],
    }


@dataclass
class Guarded:
    daemon: Daemon
    provider: Provider
    policy: Path
    keys: Path

    def infer(self, token: str) -> tuple[grpc.StatusCode, str]:
        with grpc.insecure_channel(self.daemon.address) as channel:
            metadata = [("authorization", f"Bearer {token}")]
            try:
                answer = stub(channel).ModelInfer(raw_request("identity", X), metadata=metadata, timeout=30)
            except grpc.RpcError as error:
                return error.code(), error.details()
        assert_same(read(answer), eager("identity", X))
        return grpc.StatusCode.OK, ""

    def reloads(self, outcome: str) -> float:
        return self.daemon.metric("stoker_policy_reloads_total", outcome=outcome)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, exported: Callable[[str], Path]) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("tokens")
    provider = Provider(folder / "provider")
    policy, keys = folder / "policy.yaml", folder / "keys.json"
    replace(keys, provider.jwks())
    replace(policy, rules())
    (folder / "models").mkdir()
    (folder / "models/identity").symlink_to(exported("identity"))
    with Daemon(
        folder / "models", folder / "cache", folder / "stokerd.log", "--no-compile", f"--policy={policy}"
    ) as daemon:
        eventually(lambda: "ready " in daemon.log(), "it is ready")
        yield Guarded(daemon, provider, policy, keys)


@pytest.mark.parametrize("algorithm", KINDS)
def test_every_algorithm(guarded: Guarded, algorithm: str) -> None:
    token = guarded.provider.token(algorithm, **ML)
    assert guarded.infer(token) == (grpc.StatusCode.OK, "")
    headers = {"authorization": f"Bearer {token}"}
    assert ask(guarded.daemon.http_port, "GET", "/v2/models/identity", headers=headers).status == 200
    assert ctl("policy", "test", guarded.policy, "--token", token, "ModelInfer", "identity") == (
        "allowed: ml, group infer, by rule 2\n"
    )


def test_limits_of_a_subject(guarded: Guarded) -> None:
    """Below its caller's each subject has its own, whatever token it shows."""

    def enforce(policy: dict[str, object]) -> None:
        before = guarded.reloads("ok")
        replace(guarded.policy, policy)
        eventually(lambda: guarded.reloads("ok") > before, "the policy is read", 30)

    limits = {"requests_per_second": 0.01, "burst": 2}
    enforce({**rules(), "callers": {"ml": {"claims": [{"groups": "ml"}], "per_subject": limits}}})
    tokens = [guarded.provider.token("RS256", **{**ML, "jti": str(i)}) for i in range(3)]
    assert [guarded.infer(token)[0].name for token in tokens] == ["OK", "OK", "RESOURCE_EXHAUSTED"]
    _, said = guarded.infer(tokens[0])
    assert said.startswith("subject 'alice' of caller 'ml' may ask for 0.01 requests a second")
    assert guarded.infer(guarded.provider.token("ES256", **{**ML, "sub": "bob"})) == (grpc.StatusCode.OK, "")
    assert guarded.daemon.metric("stoker_access_refused_total", caller="ml", reason="subject_rate") == 2
    enforce(rules())
    assert guarded.infer(tokens[0]) == (grpc.StatusCode.OK, "")


def test_what_is_refused(guarded: Guarded, tmp_path: Path) -> None:
    provider = guarded.provider
    good = provider.token(**ML)
    header, body, signature = good.split(".")
    hmac = base64url(json.dumps({"alg": "HS256", "kid": "ES256"}).encode())
    none = base64url(json.dumps({"alg": "none"}).encode())
    other = Provider(tmp_path, "ES256").token(**ML)
    reasons = {
        f"{none}.{body}.": "got alg 'none'",
        f"{hmac}.{body}.{signature}": "got alg 'HS256'",
        f"{header}.{body}.{signature[:-4]}AAAA": "got another signature",
        other: "got another signature",
        f"{header}.{base64url(b'{}')}.{signature}": "got another signature",
        f"{good}.x.y": "bearer token that the policy knows",  # encrypted ones have five parts
        provider.token(iss="https://id.example.com", **ML): "of the policy's issuer (iss), got another's",
        provider.token(aud=["other"], **ML): "for the policy's audience (aud), got another",
        provider.token(exp="tomorrow", **ML): "that expires (exp, a number)",
        provider.token(seconds=-60, **ML): "'ml' that has expired",
        provider.token(nbf=4_000_000_000, **ML): "whose time (nbf) is to come",
        provider.token(groups=["staff"]): "with the claims of a caller whom the policy knows",
    }
    for token, reason in reasons.items():
        code, text = guarded.infer(token)
        assert code == grpc.StatusCode.UNAUTHENTICATED and reason in text, (text, reason)
        assert token not in text and signature not in text
    assert guarded.infer(provider.token(scope="read infer"))[0] == grpc.StatusCode.OK
    log = guarded.daemon.log()
    assert not any(token in log for token in (good, *reasons))
    assert guarded.daemon.metric("stoker_access_refused_total", caller="anonymous", reason="invalid_token") >= 8
    answer = ask(
        guarded.daemon.http_port, "GET", "/v2/models/identity", headers={"authorization": f"Bearer {none}.{body}."}
    )
    assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer"


def test_the_log_names_the_subject(guarded: Guarded) -> None:
    token = guarded.provider.token(groups="ml", sub="bob'\n")
    headers = {"authorization": f"Bearer {token}"}
    assert ask(guarded.daemon.http_port, "POST", "/v2/repository/models/x/load", b"", headers=headers).status == 403
    assert "audit: caller=ml subject='bob\\'\\n' peer=127.0.0.1 method=RepositoryModelLoad" in guarded.daemon.log()


def test_the_operators_tool(guarded: Guarded) -> None:
    def said(token: str) -> str:
        return ctl("policy", "test", guarded.policy, "--token", token, "ModelInfer", "identity", code=1)

    assert "got another signature" in said(guarded.provider.token(**ML)[:-4] + "AAAA")
    assert "the token of ml expired at" in said(guarded.provider.token(seconds=-60, **ML))
    assert "the token of ml is good from" in said(guarded.provider.token(nbf=4_000_000_000, **ML))
    assert "no caller has the claims of this token" in said(guarded.provider.token())


def test_keys_that_are_exchanged(guarded: Guarded, tmp_path: Path) -> None:
    """The provider has both for a while. A stream whose key is gone ends."""
    before, after = guarded.provider, Provider(tmp_path, "EdDSA", kid="next")
    old, new = before.token(**ML), after.token("EdDSA", **ML)
    assert "got EdDSA by key 'next'" in guarded.infer(new)[1]
    ok = guarded.reloads("ok")
    sent: queue.Queue = queue.Queue()
    with grpc.insecure_channel(guarded.daemon.address) as channel:
        calls = iter(sent.get, None)
        stream = stub(channel).ModelStreamInfer(calls, metadata=[("authorization", f"Bearer {old}")], timeout=120)
        sent.put(raw_request("identity", X))
        assert next(stream).error_message == ""

        replace(guarded.keys, {"keys": [*before.jwks()["keys"], after.jwk("EdDSA")]})
        eventually(lambda: guarded.reloads("ok") == ok + 1, "both are known", 30)
        assert guarded.infer(old)[0] == guarded.infer(new)[0] == grpc.StatusCode.OK
        sent.put(raw_request("identity", X))
        assert next(stream).error_message == ""

        failed = guarded.reloads("failed")
        guarded.keys.write_text("half")
        eventually(lambda: guarded.reloads("failed") == failed + 1, "the wrong file is seen", 30)
        assert guarded.infer(old)[0] == guarded.infer(new)[0] == grpc.StatusCode.OK
        assert "the key set of before stays in force" in guarded.daemon.log()

        replace(guarded.keys, after.jwks())
        with pytest.raises(grpc.RpcError) as ended:
            next(stream)
        sent.put(None)
        assert ended.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert "got ES256 by key 'ES256'" in ended.value.details()
    assert guarded.infer(new)[0] == grpc.StatusCode.OK
    replace(guarded.keys, before.jwks())
    eventually(lambda: guarded.infer(old)[0] == grpc.StatusCode.OK, "the first is back", 30)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("", "expected a JWK Set"),
        ('{"keys": []}', "expected at least one key for RS256, PS256, ES256 or EdDSA"),
        ('{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', "keys[0]: expected a public key"),
    ],
)
def test_wrong_keys(tmp_path: Path, keys: str, said: str) -> None:
    """Neither the tool nor the daemon takes them for none."""
    replace(tmp_path / "policy.yaml", rules())
    (tmp_path / "keys.json").write_text(keys)
    text = ctl("policy", "test", tmp_path / "policy.yaml", "--anonymous", "ServerLive", code=4)
    assert said in text and "keys.json" in text and "c2VjcmV0" not in text
