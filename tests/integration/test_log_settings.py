"""Proves that the levels of the log change while the server runs, over gRPC and HTTP, and mistakes change nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import grpc
import pytest
import tritonclient.grpc as triton
from grpc import StatusCode
from tritonclient.grpc import service_pb2

from tests.integration.daemon import Daemon
from tests.integration.http1 import ask
from tests.integration.wire import refusal, stub

AS_STARTED = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "ISO8601",
}


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["mlp"], uncompiled=True)


def settings_of(daemon: Daemon, **changes: Any) -> dict[str, Any]:
    with triton.InferenceServerClient(daemon.address) as client:
        answer = client.update_log_settings(changes, as_json=True) if changes else client.get_log_settings(as_json=True)
    return {name: next(iter(value.values()), None) for name, value in answer["settings"].items()}


def test_they_are_shown_and_changed(daemon: Daemon) -> None:
    assert settings_of(daemon) == AS_STARTED
    assert settings_of(daemon, log_verbose_level=2, log_warning=False) == AS_STARTED | {
        "log_verbose_level": 2,
        "log_warning": False,
    }
    assert "log settings: info on, warning off, error on, verbose level 2" in daemon.log()
    assert settings_of(daemon, log_verbose_level=0, log_warning=True) == AS_STARTED


def test_what_is_off_is_not_said(daemon: Daemon) -> None:
    settings_of(daemon, log_info=False)
    before = daemon.log()
    settings_of(daemon, log_verbose_level=0)  # which the log says otherwise
    assert daemon.log() == before
    settings_of(daemon, log_info=True)
    assert "log settings: info on, warning on" in daemon.log().removeprefix(before)


def test_over_http(daemon: Daemon) -> None:
    answer = ask(daemon.http_port, "GET", "/v2/logging")
    assert (answer.status, answer.json()) == (200, AS_STARTED)
    answer = ask(daemon.http_port, "POST", "/v2/logging", json.dumps({"log_verbose_level": 1}).encode())
    assert (answer.status, answer.json()["log_verbose_level"]) == (200, 1)
    assert settings_of(daemon)["log_verbose_level"] == 1
    ask(daemon.http_port, "POST", "/v2/logging", json.dumps({"log_verbose_level": 0}).encode())


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"log_info": False, "log_everything": True}, 400, "log_everything"),
        ({"log_info": "no"}, 400, "expected a boolean"),
        ({"log_info": False, "log_verbose_level": -1}, 400, "log_verbose_level"),
        ({"log_verbose_level": 1 << 33}, 400, "log_verbose_level"),
        ({"log_format": "default"}, 400, "ISO8601"),
        ({"log_info": False, "log_file": "/etc/passwd"}, 501, "can not be updated"),
        ([], 400, "expected an object"),
    ],
)
def test_mistakes_change_nothing(daemon: Daemon, body: object, status: int, text: str) -> None:
    answer = ask(daemon.http_port, "POST", "/v2/logging", json.dumps(body).encode())
    assert answer.status == status and text in answer.error
    assert settings_of(daemon) == AS_STARTED


def test_mistakes_over_grpc(daemon: Daemon) -> None:
    request = service_pb2.LogSettingsRequest()
    request.settings["log_error"].uint32_param = 0
    with grpc.insecure_channel(daemon.address) as channel:
        error = refusal(lambda: stub(channel).LogSettings(request))
    assert error.code() == StatusCode.INVALID_ARGUMENT
    assert settings_of(daemon) == AS_STARTED
