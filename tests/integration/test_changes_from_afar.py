"""Where nobody is asked who he is, models are loaded and settings changed by clients of the same machine only.

The daemon takes a PROXY header from the tests, which so come from wherever they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration import http1
from tests.integration.daemon import Daemon, eventually

AFAR, V6 = "192.0.2.7", "2001:db8::7"
HERE = ("127.0.0.1", "127.0.0.5", "::1")
FLAGS = ("--no-compile", "--model-control=explicit", "--proxy-protocol-from=127.0.0.0/8")
CHANGES = [
    ("POST", "/v2/repository/models/identity/load", "RepositoryModelLoad"),
    ("POST", "/v2/repository/models/identity/unload", "RepositoryModelUnload"),
    ("POST", "/v2/logging", "LogSettings"),
    ("POST", "/v2/trace/setting", "TraceSetting"),
]
EVERYBODY = "rules: [{callers: [anonymous], groups: [health, metadata, control]}]\n"


@contextmanager
def coming_from(address: str, daemon: Daemon) -> Iterator[http1.Connection]:
    with http1.Connection(daemon.http_port) as client:
        family, here = ("TCP6", "::1") if ":" in address else ("TCP4", "127.0.0.1")
        client.send(f"PROXY {family} {address} {here} 40000 8000\r\n".encode())
        yield client


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, exported: Callable[[str], Path]) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("afar")
    (folder / "models").mkdir()
    (folder / "models/identity").symlink_to(exported("identity"))
    with Daemon(folder / "models", folder / "cache", folder / "log", *FLAGS) as daemon:
        yield daemon


@pytest.mark.parametrize(("verb", "path", "method"), CHANGES)
@pytest.mark.parametrize("address", [AFAR, V6])
def test_others_change_nothing(daemon: Daemon, address: str, verb: str, path: str, method: str) -> None:
    before = daemon.metric("stoker_access_refused_total", caller="anonymous", reason="not_local")
    with coming_from(address, daemon) as client:
        answer = client.ask(verb, path, b"{}")
        expected = "expected a client on its machine, or a server that asks who it is, by --policy or --tls-client-ca"
        assert (answer.status, answer.error) == (403, f"{method} changes the server: {expected}")
    with coming_from(address, daemon) as client:  # may ask
        assert client.ask("POST", "/v2/repository/index", b"{}").status == 200
    assert daemon.metric("stoker_access_refused_total", caller="anonymous", reason="not_local") == before + 1
    line = f"audit: caller=anonymous peer={address} method={method} refused: not of this machine"
    eventually(lambda: line in daemon.log(), "it is logged", 10)


@pytest.mark.parametrize("address", HERE)
def test_this_machine_does(daemon: Daemon, address: str) -> None:
    with coming_from(address, daemon) as client:
        for verb, path, _ in CHANGES:
            assert client.ask(verb, path, b"{}").status == 200, path


def test_whom_a_policy_lets(repository: Callable[..., Path], start: Callable[..., Daemon], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(EVERYBODY)
    with (
        start(repository("identity"), *FLAGS, f"--policy={policy}") as daemon,
        coming_from(AFAR, daemon) as client,
    ):
        assert client.ask("POST", "/v2/repository/models/identity/load", b"{}").status == 200
