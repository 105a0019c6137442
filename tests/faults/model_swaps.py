"""Swaps a model that is asked for all the time, and loads and unloads another beside it.

    python -m tests.faults.model_swaps [--cycles 1000]

Each cycle puts a new version of one model into the repository, has it loaded by RepositoryModelLoad, removes
the old one, and loads and unloads the other model. No request may fail, each answer after a load is of the new
version, and the daemon's own memory is printed every hundred cycles: it should stay.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from loadtest.servers.stokerd import Daemon
from tests import models
from tests.integration.clients import infer, rows
from tests.integration.test_repository_poll import IDENTITY, MLP, put, traffic


def own_megabytes(pid: int) -> float:
    """What is resident and backed by no file."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024


def run(folder: Path, cycles: int) -> bool:
    for name in ("mlp", "identity", "renamed"):
        models.write(name, folder / "made")
    root = folder / "models"
    for name in ("mlp", "renamed"):
        shutil.copytree(folder / "made" / name, root / name)
    flags = ("--model-control=explicit", "--load-model=mlp", "--no-compile")
    with Daemon(root, folder / "cache", folder / "log", *flags) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        with traffic(daemon) as requests:
            begin = time.monotonic()
            for cycle in range(2, cycles + 2):
                even = cycle % 2 == 0
                put(root / f"mlp/{cycle}", folder / "made" / ("identity" if even else "mlp") / "1")
                client.load_model("mlp")
                assert infer(client, rows(2)).shape[1] == (IDENTITY if even else MLP)
                shutil.rmtree(root / f"mlp/{cycle - 1}")
                client.load_model("renamed")
                client.unload_model("renamed")
                assert requests.failure is None, requests.failure
                if cycle % 100 == 1 or cycle == 2:
                    pid = daemon.process.pid
                    print(f"{cycle - 1:5} cycles, {own_megabytes(pid):.0f} MB, {requests.answered} answers", flush=True)
            seconds = time.monotonic() - begin
        failed = daemon.metric("stoker_requests_total") - daemon.metric("stoker_requests_total", outcome="ok")
        print(f"{cycles} cycles in {seconds:.0f} s, {requests.answered} answers, {failed:.0f} of the last failed")
        return failed == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=1000)
    cycles = parser.parse_args().cycles
    with tempfile.TemporaryDirectory() as folder:
        return 0 if run(Path(folder), cycles) else 1


if __name__ == "__main__":
    sys.exit(main())
