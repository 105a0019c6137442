"""stokerd from the bundle, end to end: warm up, answer under load, start again from its cache.

    python -m tests.gpu.serving --bundle FOLDER --models OUTDIR --name minilm --device cuda:0 --work FOLDER

Prints one JSON object a line, as bench.py does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from loadtest.servers.process import ServerError
from loadtest.servers.stokerd import Daemon
from tests.gpu import models
from tests.gpu.bench import say

READY = re.compile(r"ready ([\d.]+) s after launch")


def of_the_bundle(options: argparse.Namespace) -> dict[str, str]:
    """The environment of its programs."""
    return {**os.environ, "LD_LIBRARY_PATH": options.library_path}


class BundledDaemon(Daemon):
    """The bundle's stokerd, with the bundle's compiler."""

    def __init__(self, options: argparse.Namespace, repository: Path, log: Path, *arguments: str) -> None:
        python, folder = options.bundle / "bin/python", options.bundle
        super().__init__(
            repository, options.work / "cache", log,
            f"--compiler-python={python}", f"--compiler-folder={folder}", *arguments,
            binary=options.bundle / "bin/stokerd", environment=of_the_bundle(options), grace_seconds=30,
        )  # fmt: skip

    def said_ready(self, seconds: float) -> float:
        """Seconds from launch to ready, as the daemon says."""
        return float(self.logged(READY, seconds)[1])

    def foreign_libraries(self, allowed: list[Path]) -> list[str]:
        """What it has mapped from elsewhere than `allowed`, C's own libraries aside."""
        own = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|pthread|rt|resolv|util|nss_\w+|stdc\+\+|gcc_s))\.so")
        found = set()
        for line in Path(f"/proc/{self.process.pid}/maps").read_text().splitlines():
            path = Path(line.split(maxsplit=5)[5]) if len(line.split(maxsplit=5)) == 6 else Path()
            if ".so" not in path.name or own.match(path.name) or "libcuda" in path.name or "libnvidia" in path.name:
                continue
            if not any(path.is_relative_to(folder) for folder in allowed):
                found.add(str(path))
        return sorted(found)


def tiers(options: argparse.Namespace, page: str) -> str:
    done = subprocess.run(
        [str(options.bundle / "bin/stokerctl"), "status", "--metrics", page],
        capture_output=True, text=True, timeout=30, env=of_the_bundle(options),
    )  # fmt: skip
    return (done.stdout or done.stderr)[-3000:]


def load(options: argparse.Namespace, address: str, concurrency: int, seconds: float) -> dict[str, Any]:
    """Closed loop of requests of one row; the step's figures."""
    model = models.MODELS[options.name]
    result = options.work / f"load{concurrency}.json"
    command = [
        str(options.bundle / "bin/stoker-loadtest"), "quick", "--model", options.name, "--address", address,
        "--concurrency", str(concurrency), "--warmup", "2", "--measure", str(seconds), "--check",
        "--output", str(result),
    ]  # fmt: skip
    inputs = options.inputs.split(",")
    command += ["--size", f"{','.join(f'{name}.0' for name in inputs)}=1"]
    for name, highest in model.highest.items():
        command += ["--range", f"{name}=0:{highest - 1}"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + 60, env=of_the_bundle(options)
    )
    if done.returncode != 0:
        raise RuntimeError(f"stoker-loadtest: {done.stderr[-1500:] or done.stdout[-1500:]}")
    return json.loads(result.read_text())["steps"][0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--library-path", default=os.environ.get("LD_LIBRARY_PATH", ""))
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--inputs", required=True, help="the program's inputs, by commas")
    parser.add_argument("--device", required=True)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--ready-seconds", type=float, default=200)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True, mode=0o700)
    model = models.MODELS[options.name]
    repository = options.work / "models"
    version = repository / options.name / "1"
    version.mkdir(parents=True, exist_ok=True)
    if not (version / "model.pt2").exists():
        os.link(options.models / options.name / "1" / "model.pt2", version / "model.pt2")
    fields: dict[str, Any] = {"max_batch_size": max(model.batches), "buckets": {"batch": list(model.batches)}}
    if options.device != "cpu":
        fields["device"] = options.device
    (version.parent / "model.yaml").write_text(json.dumps(fields) + "\n")

    with BundledDaemon(options, repository, options.work / "first.log", "--compile-jobs=4") as daemon:
        say(first_ready_s=daemon.said_ready(options.ready_seconds))
    with BundledDaemon(options, repository, options.work / "second.log") as daemon:
        say(warm_ready_s=daemon.said_ready(60), buckets=len(model.batches))
        import torch

        site = Path(torch.__file__).parents[1]
        # An installer may have put links there.
        behind = (site / "torch/lib/libtorch_cpu.so").resolve().parents[2]
        allowed = [options.bundle, site, behind, Path("/usr/local/cuda"), options.work]
        foreign = daemon.foreign_libraries([folder.resolve() for folder in allowed])
        say(check="libraries from the bundle and torch alone", foreign=foreign, passed=not foreign)
        passed = not foreign
        for concurrency in options.concurrency:
            step = load(options, daemon.address, concurrency, options.seconds)
            say(concurrency=concurrency, step=step)
        # By the gate as it is by default.
        lost = {labels["reason"]: count for labels, count in daemon.samples("stoker_fallbacks_total") if count}
        say(check="every bucket passed the gate", fallbacks=lost, passed=not lost)
        passed &= not lost
        say(status=tiers(options, f"http://127.0.0.1:{daemon.metrics_port}/metrics"))
    return 0 if passed else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, ServerError) as error:
        say(error=str(error))
        sys.exit(1)
