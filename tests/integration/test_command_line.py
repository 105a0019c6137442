"""Proves that a start that can't work ends at once, with one line that says why, and never hangs."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.daemon import REPO, STOKERD


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(STOKERD), *map(str, arguments)]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=30)


def expect_refusal(code: int, words: tuple[object, ...], *arguments: object) -> None:
    """One line on stderr with all of `words`, nothing on stdout, this exit code."""
    ended = run(*arguments)
    assert ended.stdout == ""
    assert ended.stderr.startswith("stokerd: ") and ended.stderr.endswith("\n"), ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert len(ended.stderr) < 400, ended.stderr
    for word in words:
        assert str(word) in ended.stderr, (word, ended.stderr)
    assert ended.returncode == code


@pytest.fixture
def usable(tmp_path: Path) -> list[str]:
    """Arguments that a start works with; later ones on the same command line are at fault."""
    (tmp_path / "models").mkdir()
    return [f"--model-repository={tmp_path / 'models'}", f"--cache={tmp_path / 'cache'}"]


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    "argument",
    [
        "--modle-repository=x",
        "extra",
        "--compile-jobs=0",
        "--compile-jobs=many",
        "--compile-timeout-seconds=0",
        "--compile-memory-mb=1",
        "--drain-seconds=-1",
        "--drain-seconds=nan",
        "--stall-seconds=nan",
        "--keepalive-seconds=0",
        "--repository-poll-seconds=soon",
        "--repository-wait-seconds=-1",
        "--log-level=loud",
        "--listen=127.0.0.1",
        "--listen=127.0.0.1:70000",
        "--metrics-listen=:80",
        "--http-listen=127.0.0.1",
        "--metrics-tls",
        "--cache=",
        "--no-compile=perhaps",
        "--memory-budget=much",
        "--memory-budget=-1",
        "--memory-budget=4096",
        "--memory-budget=24GX",
        "--memory-budget=120%",
        "--memory-budget=0%",
        "--rate-limit=on",
        "--rate-limit-resource=slots",
        "--rate-limit-resource=slots:0",
        "--rate-limit-resource=cpu:1",
        "--rate-limit-resource=slots:2:cuda:auto",
        "--rate-limit-resource=slots:2:disk",
    ],
)
def test_wrong_flags(usable, argument: str) -> None:
    named = argument.partition("=")[0]
    expect_refusal(2, (named, "see stokerd --help"), *usable, argument)


def test_a_repository_is_needed() -> None:
    expect_refusal(2, ("--model-repository is required",))


def test_the_repository_is_a_folder_that_exists(tmp_path: Path) -> None:
    missing, file = tmp_path / "missing", tmp_path / "file"
    file.touch()
    for path in (missing, file):
        expect_refusal(2, ("--model-repository", path), f"--model-repository={path}")


def test_the_cache_is_a_folder_that_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    # Nobody, root included, can make a folder in the last one.
    for path in (file, file / "below", Path("/proc/self/cache")):
        arguments = [f"--model-repository={tmp_path}", f"--cache={path}", "--metrics-listen=127.0.0.1:0"]
        expect_refusal(1, ("--cache", path), *arguments)


def test_the_cache_is_nobody_elses_to_write(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    arguments = [f"--model-repository={tmp_path}", f"--cache={cache}"]
    expect_refusal(1, ("--cache", cache, "0777", "expected 0700"), *arguments)


def test_ports_that_are_taken(usable, taken: str) -> None:
    free = "127.0.0.1:0"
    flags = {"gRPC": "--listen", "HTTP": "--http-listen", "metrics": "--metrics-listen"}
    for wrong in flags:
        addresses = [f"{flag}={taken if name == wrong else free}" for name, flag in flags.items()]
        expect_refusal(1, (wrong, taken), *usable, *addresses)


def test_help_and_version() -> None:
    shown = run("--help")
    assert shown.returncode == 0 and shown.stderr == ""
    for flag in ("--model-repository", "--cache", "--listen", "--no-compile", "--drain-seconds"):
        assert flag in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) < 200
    version = run("--version")
    assert version.returncode == 0 and version.stderr == ""
    assert version.stdout.strip().split()[-1].count(".") == 2
