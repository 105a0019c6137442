"""Proves that every client line of proto/README.md does what stands behind it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import grpc
import pytest
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from tests.integration.daemon import REPO, Daemon

MANUAL = (REPO / "proto/README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", MANUAL, re.DOTALL)
LINE = re.compile(r"^(?P<line>\S.*?) +# (?P<method>\w+): (?P<outcome>\w+)$", re.MULTILINE)
LINES = [(found["method"], found["line"], found["outcome"]) for found in LINE.finditer("\n".join(BLOCKS))]

# The manual's model and its inputs, as tests/models.py has them.
NAMES = {"minilm": "tokens", "input_ids": "ids", "attention_mask": "mask", "sentence_embedding": "pooled"}


def here(text: str, address: str) -> str:
    text = text.replace("/stoker_ids", f"/stoker_ids_{os.getpid()}")  # others run the same test
    for name, ours in NAMES.items():
        text = text.replace(f'"{name}"', f'"{ours}"')
    return text.replace("localhost:8001", address)


@pytest.fixture(scope="module")
def names(serving: Callable[..., Daemon]) -> Iterator[dict[str, object]]:
    """What the manual's lines without an outcome define."""
    flags = ("--allow-client-shm", "--model-control=explicit", "--load-model=tokens")
    daemon = serving(["tokens"], *flags, uncompiled=True)
    defined: dict[str, object] = {"address": daemon.address}
    for block in BLOCKS:
        exec(here(LINE.sub("", block), daemon.address), defined)
    yield defined
    shm.destroy_shared_memory_region(defined["memory"])
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


@pytest.mark.parametrize(("method", "line", "expected"), LINES, ids=[f"{m}-{o}" for m, _, o in LINES])
def test_line(names: dict[str, object], method: str, line: str, expected: str) -> None:
    assert outcome(here(line, str(names["address"])), names) == expected


def test_every_method_has_a_line_and_a_row() -> None:
    names = ("open_inference", "health", "reflection")
    proto = "".join((REPO / "proto" / f"{name}.proto").read_text() for name in names)
    declared = set(re.findall(r"^  rpc (\w+)\(", proto, re.MULTILINE))
    assert {method for method, _, _ in LINES} == declared
    first_cells = " ".join(re.findall(r"^\| (`[^|]*)\|", MANUAL, re.MULTILINE))
    assert declared <= set(re.findall(r"\w+", first_cells))
