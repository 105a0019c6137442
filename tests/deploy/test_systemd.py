"""The unit is one that systemd takes, is confined, and starts stokerd as it wants to be started."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.metrics_reference_test import REPOSITORY

pytestmark = pytest.mark.slow

FOLDER = REPOSITORY / "deploy/packages/systemd"
UNIT = FOLDER / "stokerd.service"
GPUS = FOLDER / "gpu.conf"
# systemd's own measure, 0 to 10; below 2 it says "OK".
MOST_EXPOSURE = 2.0


def systemd(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is missing; the package systemd has it")
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)


def installed(folder: Path, text: str) -> Path:
    """The unit as it would be installed, with a program that is there."""
    (folder / "stokerd").write_text("#!/bin/sh\n")
    (folder / "stokerd").chmod(0o755)
    unit = folder / "stokerd.service"
    unit.write_text(text.replace("/usr/bin/stokerd", str(folder / "stokerd")))
    return unit


def verify(unit: Path) -> str:
    """What systemd-analyze has to say about this unit; "" when it is fine."""
    done = systemd("systemd-analyze", "verify", "--man=no", str(unit))
    lines = [line for line in (done.stdout + done.stderr).splitlines() if unit.name in line]
    assert lines or done.returncode == 0, done.stderr
    return "\n".join(lines)


def test_the_unit_is_valid(tmp_path: Path) -> None:
    assert verify(installed(tmp_path, UNIT.read_text())) == ""


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("PrivateTmp=true", "PrivatTmp=true"),
        ("SystemCallFilter=@system-service", "SystemCallFilter=@sistem-service"),
        ("Type=notify", "Type=notified"),
    ],
)
def test_planted_faults_are_seen(good: str, bad: str, tmp_path: Path) -> None:
    assert good in UNIT.read_text()
    assert verify(installed(tmp_path, UNIT.read_text().replace(good, bad)))


def with_gpus(folder: Path, text: str) -> Path:
    """The unit with what stoker-cuda adds to it."""
    unit = installed(folder, UNIT.read_text())
    (folder / "stokerd.service.d").mkdir()
    (folder / "stokerd.service.d/gpu.conf").write_text(text)
    return unit


def test_what_lets_gpus_in_is_valid(tmp_path: Path) -> None:
    assert verify(with_gpus(tmp_path, GPUS.read_text())) == ""
    (tmp_path / "wrong").mkdir()
    wrong = GPUS.read_text().replace("DeviceAllow", "DevicesAllow")
    assert "DevicesAllow" in verify(with_gpus(tmp_path / "wrong", wrong))


def with_sockets(folder: Path, text: str) -> Path:
    """The unit of gRPC's port, with the other's and what both ask of the service."""
    installed(folder, UNIT.read_text())
    (folder / "stokerd.service.d").mkdir()
    shutil.copy(FOLDER / "sockets.conf", folder / "stokerd.service.d")
    shutil.copy(FOLDER / "stokerd-http.socket", folder)
    unit = folder / "stokerd-grpc.socket"
    unit.write_text(text)
    return unit


def test_sockets_are_valid_and_named_as_the_options_ask(tmp_path: Path) -> None:
    text = (FOLDER / "stokerd-grpc.socket").read_text()
    assert verify(with_sockets(tmp_path, text)) == ""
    assert verify(tmp_path / "stokerd-http.socket") == ""
    assert verify(tmp_path / "stokerd.service") == ""
    (tmp_path / "wrong").mkdir()
    assert "ListenStreams" in verify(with_sockets(tmp_path / "wrong", text.replace("ListenStream", "ListenStreams")))
    for option, name in re.findall(r"(--[a-z-]*listen)=fd:(\w+)", text):
        unit = FOLDER / f"stokerd-{'http' if 'http' in option else 'grpc'}.socket"
        assert f"\nFileDescriptorName={name}\n" in unit.read_text()
        assert "\nService=stokerd.service\n" in unit.read_text()


def test_the_unit_is_confined(tmp_path: Path) -> None:
    unit = installed(tmp_path, UNIT.read_text())
    done = systemd("systemd-analyze", "security", "--offline=true", "--no-pager", str(unit))
    match = re.search(r"exposure level for stokerd.service: ([\d.]+)", done.stdout)
    assert match, done.stdout + done.stderr
    assert float(match[1]) < MOST_EXPOSURE, done.stdout


def test_it_starts_stokerd_with_flags_that_exist_and_waits_for_the_drain() -> None:
    text = UNIT.read_text()
    (command,) = re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
    known = set(re.findall(r'(--[a-z][a-z-]+)[",]', (REPOSITORY / "server/main/options.cc").read_text()))
    flags = dict(flag.split("=") for flag in command.split() if flag.startswith("--"))
    assert set(flags) <= known
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert int(seconds) >= int(flags["--drain-seconds"]) + 10
    # The cache is a folder below the one that systemd makes for the unit.
    (cache,) = re.findall(r"^CacheDirectory=(\w+)$", text, re.MULTILINE)
    assert flags["--cache"].startswith(f"/var/cache/{cache}/")
    assert f"d {flags['--model-repository']} " in (FOLDER / "stoker.tmpfiles").read_text()
    assert re.search(r"^User=stoker$", text, re.MULTILINE)
    assert re.search(r"^u stoker ", (FOLDER / "stoker.sysusers").read_text(), re.MULTILINE)


def test_the_user_and_the_folders_can_be_made(tmp_path: Path) -> None:
    root = f"--root={tmp_path}"
    (tmp_path / "etc").mkdir()
    done = systemd("systemd-sysusers", root, str(FOLDER / "stoker.sysusers"))
    assert done.returncode == 0, done.stderr
    assert re.search(r"^stoker:", (tmp_path / "etc/passwd").read_text(), re.MULTILINE)
    done = systemd("systemd-tmpfiles", root, "--create", str(FOLDER / "stoker.tmpfiles"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "var/lib/stoker/models").stat().st_mode & 0o7777 == 0o755
