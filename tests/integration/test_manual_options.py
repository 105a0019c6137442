"""Proves that the manuals list the options, commands and fields that the programs have, with their defaults."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.daemon import REPO, STOKERCTL, STOKERD, Daemon

CONFIG = (REPO / "config/README.md").read_text()
OPERATIONS = (REPO / "deploy/operations.md").read_text()
# Defaults that depend on the machine, which the manual describes instead.
OF_THE_MACHINE = {"--cache", "--max-request-memory-mb", "--compile-jobs", "--compiler-folder"}


def help_of(program: Path, *command: str) -> str:
    return subprocess.run([program, *command, "--help"], check=True, capture_output=True, text=True, timeout=30).stdout


def options(text: str) -> dict[str, str]:
    """Long names → what stands behind them, such as "FLOAT:> 0=120"; "" for a flag."""
    found = {}
    for names, rest in re.findall(r"^  ((?:-\w,)?--[\w,-]+)(?: (.*))?$", text, re.MULTILINE):
        for name in re.findall(r"--[\w-]+", names):
            found[name] = rest
    return found


def table(text: str) -> dict[str, str]:
    """Options of the manual's tables → their default, without backticks; "" where none is named."""
    rows = {}
    for names, meaning in re.findall(r"^\| ((?:`--[\w-]+`(?:, )?)+) \| ([^|]*)\|", text, re.MULTILINE):
        default = re.search(r"\. Default: `([^`]*)` *$", meaning)
        for name in re.findall(r"--[\w-]+", names):
            assert name not in rows, f"{name} has two rows"
            rows[name] = default[1] if default else ""
    return rows


def test_the_options_of_stokerd() -> None:
    known = options(help_of(STOKERD))
    assert len(known) > 30
    assert set(table(CONFIG)) | {"--help", "--version"} == set(known)


def test_the_defaults_of_stokerd() -> None:
    said = table(CONFIG)
    compared = 0
    for name, rest in options(help_of(STOKERD)).items():
        default = re.search(r"=(\S+)", re.sub(r">= ?|NAME=FILE", "", rest))
        if name in said and default and name not in OF_THE_MACHINE:
            assert said[name] == default[1], name
            compared += 1
    assert compared >= 12


def commands(*of: str) -> set[str]:
    listed = help_of(STOKERCTL, *of).split("Subcommands:\n")[1]
    return set(re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE))


GROUPS = ("cache", "model", "policy")


@pytest.mark.parametrize("of", [(), *((group,) for group in GROUPS)])
def test_the_commands_of_stokerctl(of: tuple[str, ...]) -> None:
    rows = re.findall(r"^\| (`stokerctl [^|]*) \|", OPERATIONS, re.MULTILINE)
    prefix = " ".join(("`stokerctl", *of, ""))
    named: set[str] = set()
    for row in rows:
        if not row.startswith(prefix) or (not of and row.startswith(tuple(f"`stokerctl {group}" for group in GROUPS))):
            continue
        named |= set(re.findall(r"[a-z-]+", re.sub(r"\[?[A-Z]+\]?", "", row.removeprefix(prefix))))
    assert named == commands(*of) - set(GROUPS)


def test_the_fields_of_status_json(serving: Callable[..., Daemon]) -> None:
    daemon = serving(["mlp"], uncompiled=True)
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.metrics_port}/status.json", timeout=30) as answer:
        status = json.load(answer)
    table = OPERATIONS.split("\n## Status page\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)(?:\[\])?` \| (.*) \|$", table, re.MULTILINE))
    assert set(rows) == set(status)
    # By section, as a value or as a list of them; refusals may be none.
    for name, value in status.items():
        first = value[0] if isinstance(value, list) and value else value
        if name == "versions" or not isinstance(first, dict):
            continue
        fields = set(first) | {inner for nested in first.values() if isinstance(nested, dict) for inner in nested}
        missing = sorted(field for field in fields if f"`{field}`" not in rows[name])
        assert not missing, f"deploy/operations.md, {name}: {missing}"
