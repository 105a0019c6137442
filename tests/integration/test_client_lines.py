"""Proves that every client line of proto/README.md does what stands beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import grpc
import pytest
from tritonclient.utils import InferenceServerException

from tests.integration.daemon import REPO, Daemon

MANUAL = (REPO / "proto/README.md").read_text()
ROW = re.compile(r"^\|[^|\n]*\|[^|\n]*\| `(?P<line>(?:client|health|next|Proto)[^`]*)` \| (?P<outcome>[^|\n]+) \|$", re.M)
IN_TEXT = re.compile(r"`(?P<line>client\.infer\([^`]*\))` → (?P<outcome>\w+)")
LINES = [(m["line"], m["outcome"].strip("`")) for m in [*ROW.finditer(MANUAL), *IN_TEXT.finditer(MANUAL)]]

# The manual's model and its names, as tests/models.py has them.
NAMES = {"minilm": "tokens", "input_ids": "ids", "attention_mask": "mask", "sentence_embedding": "pooled"}


def here(line: str, address: str) -> str:
    for name, ours in NAMES.items():
        line = line.replace(f'"{name}"', f'"{ours}"')
    return line.replace("localhost:8001", address)


@pytest.fixture(scope="module")
def names(serving: Callable[..., Daemon]) -> Iterator[dict[str, object]]:
    """What the manual's preparations define."""
    daemon = serving(["tokens"], uncompiled=True)
    defined: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", MANUAL, re.DOTALL):
        exec(here(block, daemon.address), defined)
    defined["address"] = daemon.address
    yield defined
    defined["client"].close()  # type: ignore[attr-defined]
    defined["channel"].close()  # type: ignore[attr-defined]


def outcome(line: str, names: dict[str, object]) -> str:
    try:
        result = eval(line, names)
    except InferenceServerException as error:
        return str(error.status()).removeprefix("StatusCode.")
    except grpc.RpcError as error:
        return error.code().name
    return str(result).lower() if isinstance(result, bool) else "OK"


@pytest.mark.parametrize(("line", "expected"), LINES, ids=[line.partition("(")[0] for line, _ in LINES])
def test_line(names: dict[str, object], line: str, expected: str) -> None:
    assert outcome(here(line, str(names["address"])), names) == expected


def test_every_method_has_a_line() -> None:
    declared = set(re.findall(r"^  rpc (\w+)\(", (REPO / "proto/open_inference.proto").read_text(), re.M))
    in_table = set(re.findall(r"^\| `(\w+)` \|[^|\n]*\| `client\.", MANUAL, re.M))
    assert in_table == declared
