"""Proves what becomes of programs that older torches have exported (older_exports/): what 2.9 and later write is served
as it is, answering as that torch did; what is older is refused in a line that says how to convert it, and converted is
served, too."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import numpy as np
import pytest
import torch

from tests.integration.daemon import REPO, Daemon
from tests.integration.wire import raw_request, read, stub

FOLDER = Path(__file__).parent / "older_exports"
CONVERTED, SERVED = ("2.7.1", "2.8.0"), ("2.9.1", "2.10.0")
NAMES = ("attended", "chosen", "convolved")
REFUSED = "a program that an older torch exported: export the model again with torch 2.11, or convert this one: python"


def model(version: str, name: str) -> str:
    return f"{name}-{version.replace('.', '')}"


def put(root: Path, version: str, name: str) -> None:
    folder = root / model(version, name) / "1"
    folder.mkdir(parents=True)
    shutil.copy(FOLDER / f"{version}-{name}.pt2", folder / "model.pt2")


def check(daemon: Daemon, version: str, name: str) -> None:
    """That the daemon answers as that torch did."""
    with np.load(FOLDER / f"{version}-{name}.npz") as kept:
        tensors = {key: torch.from_numpy(value) for key, value in kept.items()}
    inputs = {key.removeprefix("in."): value for key, value in tensors.items() if key.startswith("in.")}
    expected = [value for key, value in tensors.items() if key.startswith("out.")]
    with grpc.insecure_channel(daemon.address) as channel:
        answer = read(stub(channel).ModelInfer(raw_request(model(version, name), inputs)))
    torch.testing.assert_close(list(answer.values()), expected, rtol=1e-4, atol=1e-5)


def test_what_is_there() -> None:
    assert {path.name for path in FOLDER.glob("*.pt2")} == {f"{v}-{n}.pt2" for v in CONVERTED + SERVED for n in NAMES}


def test_as_they_are(start: Callable[..., Daemon], tmp_path: Path) -> None:
    for version in CONVERTED + SERVED:
        for name in NAMES:
            put(tmp_path / "models", version, name)
    with start(tmp_path / "models", "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60, [model(version, name) for version in SERVED for name in NAMES])
        for version in SERVED:
            for name in NAMES:
                check(daemon, version, name)
        states = {line.name: line for line in client.get_model_repository_index().models}
        for version in CONVERTED:
            for name in NAMES:
                assert REFUSED in states[model(version, name)].reason
        assert daemon.stop() == 0


@pytest.mark.parametrize("version", CONVERTED)
def test_converted(version: str, start: Callable[..., Daemon], tmp_path: Path) -> None:
    for name in NAMES:
        command = [
            sys.executable, "-m", "compiler.export", f"program:{FOLDER / f'{version}-{name}.pt2'}",
            "--output", str(tmp_path / "models" / model(version, name) / "1"),
        ]  # fmt: skip
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
        assert done.returncode == 0 and "answers equal the model's" in done.stdout, done.stderr
    said = (tmp_path / "models" / model(version, "attended") / "model.yaml").read_text()
    assert "batch: {axis: ids.0}" in said and "ids_1: {axis: ids.1}" in said
    with start(tmp_path / "models", "--no-compile") as daemon:
        daemon.wait_ready(60)
        for name in NAMES:
            check(daemon, version, name)
        assert daemon.stop() == 0


def test_what_is_no_program(tmp_path: Path) -> None:
    for content, said in ((b"no archive", "expected a program that torch.export.save has written"), (None, "no such")):
        file = tmp_path / "file.pt2"
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_bytes(content)
        command = [sys.executable, "-m", "compiler.export", f"program:{file}", "--output", str(tmp_path / "models/a/1")]
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
        assert done.returncode == 1 and said in done.stderr, done.stderr
        assert not (tmp_path / "models").exists()
