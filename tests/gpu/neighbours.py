"""Random requests for captured buckets against eager, while neighbours capture, allocate, load and go.

    python -m tests.gpu.neighbours --bundle FOLDER --models OUTDIR --device cuda:0 --work FOLDER --requests 10000

Through stokerd as it is shipped. `mlp` serves in three buckets, the same program uncompiled says what is right: random
rows, random values, in random order from several threads, within the tolerance of the daemon's own gate. Meanwhile
other models are loaded, asked within and outside their buckets, and unloaded, again and again. Prints one JSON object
a line.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

import torch

from loadtest.servers.process import ServerError
from tests.gpu.asking import Client, Refused
from tests.gpu.bench import say
from tests.gpu.serving import BundledDaemon

CLOSE = 3e-5  # model.yaml's parity.rtol and atol, as they are by default
ROWS, WIDTH = (1, 8, 64), 256  # of mlp
THREADS = 4


def lay_out(options: argparse.Namespace, neighbours: list[str]) -> Path:
    """The repository: one program twice, and the neighbours."""
    root: Path = options.work / "models"
    fields: dict[str, Any] = {} if options.device == "cpu" else {"device": options.device}
    buckets = {"mlp": list(ROWS), "right": [], **{name: [1, 8] for name in neighbours}}
    for name, sizes in buckets.items():
        version = root / name / "1"
        version.mkdir(parents=True, exist_ok=True)
        source = options.models / ("mlp" if name == "right" else name) / "1/model.pt2"
        if not (version / "model.pt2").exists():
            os.link(source, version / "model.pt2")
        its = {**fields, "max_batch_size": 64, "compile": name != "right"}
        its["buckets"] = {"batch": sizes} if sizes else []
        (version.parent / "model.yaml").write_text(json.dumps(its) + "\n")
    return root


class Askers:
    """Threads that ask until the count is reached or somebody found a difference."""

    def __init__(self, port: int, requests: int, seed: int) -> None:
        self.asked = self.differ = 0
        self.worst = 0.0
        self.errors: list[str] = []
        self._left, self._lock = requests, threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(Client(port), seed + number)) for number in range(THREADS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _run(self, client: Client, seed: int) -> None:
        chance, values = random.Random(seed), torch.Generator().manual_seed(seed)
        while not self.errors:
            with self._lock:
                if self._left == 0:
                    return
                self._left -= 1
            # A bucket's own size, or one that is padded up to it.
            most = chance.choice(ROWS)
            rows = most if chance.random() < 0.5 else chance.randint(1, most)
            x = torch.randn(rows, WIDTH, generator=values) * chance.choice((0.1, 1.0, 10.0))
            try:
                got, right = client.infer("mlp", {"x": x}), client.infer("right", {"x": x})
            except (OSError, Refused) as error:
                self.errors.append(str(error))
                return
            with self._lock:
                self.asked += 1
                for name, tensor in right.items():
                    scale = max(1.0, float(tensor.abs().max()))
                    apart = float((got[name] - tensor).abs().max()) / scale
                    self.worst = max(self.worst, apart)
                    self.differ += apart > 2 * CLOSE


def disturb(client: Client, name: str) -> None:
    """One life of a neighbour."""
    client.load(name)
    width = {"two_ops": 64, "kernels10": 256}.get(name, 256)
    for rows in (1, 8, 37):  # the last fits no bucket: eager
        client.infer(name, {"x": torch.randn(rows, width)})
    client.unload(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--library-path", default=os.environ.get("LD_LIBRARY_PATH", ""))
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--neighbours", nargs="+", default=["two_ops", "kernels10"])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ready-seconds", type=float, default=150)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True, mode=0o700)
    root = lay_out(options, options.neighbours)
    arguments = ["--model-control=explicit", "--load-model=mlp", "--load-model=right", "--compile-jobs=4"]
    with BundledDaemon(options, root, options.work / "daemon.log", *arguments) as daemon:
        say(ready_s=daemon.said_ready(options.ready_seconds))
        askers = Askers(daemon.http_port, options.requests, options.seed)
        askers.start()
        lives, client = 0, Client(daemon.http_port, options.ready_seconds)
        try:
            while askers.running():
                disturb(client, options.neighbours[lives % len(options.neighbours)])
                lives += 1
        finally:
            askers.join()
        replays = daemon.metric("stoker_graph_replays_total")
        lost = daemon.metric("stoker_fallbacks_total", model="mlp")
        code = daemon.stop()
    right = not askers.errors and askers.differ == 0 and askers.asked == options.requests
    say(
        check="random requests equal eager beside neighbours", requests=askers.asked, differ=askers.differ,
        worst=askers.worst, neighbours=lives, errors=askers.errors, passed=right and lives > 0,
    )  # fmt: skip
    # Requests that come together may share a replay, and a bucket that gains nothing has no graph.
    captured = options.device == "cpu" or replays > 0
    say(check="graphs answered", replays=replays, passed=captured)
    say(check="nothing was lost, and it ended", fallbacks=lost, exit_code=code, passed=lost == 0 and code == 0)
    return 0 if right and lives > 0 and captured and lost == 0 and code == 0 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, ServerError, Refused) as error:
        say(error=str(error))
        sys.exit(1)
