"""Proves that proto/openapi.json says what the HTTP port does: paths, methods, statuses, and what is in the answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.daemon import REPO, Daemon
from tests.integration.http1 import ask
from tests.integration.openapi import ASKED, PATHS, SPEC, body_for, concrete

KINDS = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list}


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    flags = ("--allow-client-shm", "--model-control=explicit", "--load-model=mlp")
    return serving(["mlp"], *flags, uncompiled=True)


def resolve(part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        found: Any = SPEC
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        part = found
    return part


def check(value: Any, schema: dict[str, Any], where: str) -> None:
    """As much of JSON Schema as the description uses."""
    schema = resolve(schema)
    kind = schema.get("type")
    if isinstance(kind, str):
        assert isinstance(value, KINDS[kind]), (where, value)
    assert value in schema.get("enum", [value]), (where, value)
    if kind == "object":
        assert set(schema.get("required", ())) <= set(value), (where, value)
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                check(value[name], inner, f"{where}.{name}")
    if kind == "array":
        for one in value:
            check(one, schema.get("items", {}), f"{where}[]")


@pytest.mark.parametrize(("path", "verb"), ASKED)
def test_answers_are_described(daemon: Daemon, path: str, verb: str) -> None:
    operation = PATHS[path][verb]
    answer = ask(daemon.http_port, verb.upper(), concrete(path), body_for(path, verb))
    assert str(answer.status) in operation["responses"], answer
    described = resolve(operation["responses"][str(answer.status)])
    if "content" in described:
        schema = described["content"][answer.headers["content-type"]]["schema"]
        check(answer.json(), schema, path)


@pytest.mark.parametrize("path", PATHS)
def test_no_other_method_is_taken(daemon: Daemon, path: str) -> None:
    allowed = {verb.upper() for verb in PATHS[path]} | ({"HEAD"} if "get" in PATHS[path] else set())
    refused = ask(daemon.http_port, "DELETE", concrete(path))
    assert refused.status == 405
    assert set(refused.headers["allow"].split(", ")) == allowed


def test_all_paths_are_described() -> None:
    """Each pattern that the server's table has."""
    code = (REPO / "server/rpc/http_service.cc").read_text()
    patterns = set(re.findall(r'"(/v2[^"]*|/[a-z]+(?:/setting)?)"', code))
    assert {"/v2", "/v2/health/live", "/infer", "/config", "/v2/repository/index"} <= patterns
    for pattern in patterns - {"/region/{region}"}:
        assert any(path.startswith(pattern) or path.endswith(pattern) for path in PATHS), pattern
