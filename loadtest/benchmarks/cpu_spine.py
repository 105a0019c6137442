"""Measures the demo model's way from launch to answers on a CPU host.

    python -m loadtest.benchmarks.cpu_spine [--models models] [--output FILE.json] [--cold] [--bare]

Prints one table and writes the same as JSON. The warm part takes a minute; --cold fills an
empty cache (minutes) while a client sends requests; --bare compares one compile with a bare
aoti_compile_and_package process. Needs the release build and the exported demo model. Runs on
loopback only and ends everything that it starts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import tritonclient.grpc as triton

from compiler.program.archive import load_program
from loadtest.servers.stokerd import REPOSITORY, STOKERD, Daemon

TOOLS = STOKERD.parents[2] / "loadtest"
MODEL = "minilm"
STARTS = 5
BATCHES, LENGTHS = (1, 8), (16, 32, 64, 128)
REQUESTS_WHILE_COLD = 1000

BARE_COMPILE = """
import sys, time, torch
sys.path.insert(0, sys.argv[1])
from compiler.program.archive import load_program
batch, tokens = int(sys.argv[3]), int(sys.argv[4])
program = load_program(sys.argv[2])
example = tuple(torch.ones(batch, tokens, dtype=torch.long) for _ in range(2))
static = torch.export.export(program.module(), example)
torch._inductor.aoti_compile_and_package(static, package_path=sys.argv[5])
"""


def inputs(batch: int, tokens: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and a mask that hides a different tail of each row."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(1000, 30000, (batch, tokens), dtype=np.int64)
    lengths = rng.integers(max(1, tokens // 2), tokens + 1, batch)
    mask = (np.arange(tokens) < lengths[:, None]).astype(np.int64)
    return ids, mask


def ask(client: triton.InferenceServerClient, ids: np.ndarray, mask: np.ndarray) -> dict[str, np.ndarray]:
    tensors = []
    for name, value in (("input_ids", ids), ("attention_mask", mask)):
        tensor = triton.InferInput(name, value.shape, "INT64")
        tensor.set_data_from_numpy(value)
        tensors.append(tensor)
    result = client.infer(MODEL, tensors)
    return {name: result.as_numpy(name) for name in ("token_embeddings", "sentence_embedding")}


class Bench:
    def __init__(self, models: Path, cache: Path, folder: Path) -> None:
        self.models, self.cache, self.folder = models, cache, folder
        self.rows: list[tuple[str, str, str]] = []
        self.figures: dict[str, object] = {}
        self._starts = 0

    def add(self, name: str, value: object, text: str, goal: str = "") -> None:
        self.figures[name] = value
        self.rows.append((name.replace("_", " "), text, goal))
        print(f"  {self.rows[-1][0]:<52} {text:>26}   {goal}", flush=True)

    @contextmanager
    def daemon(self, *arguments: str, models: Path | None = None, cache: Path | None = None) -> Iterator[Daemon]:
        self._starts += 1
        log = self.folder / f"stokerd-{self._starts}.log"
        with Daemon(models or self.models, cache or self.cache, log, *arguments) as daemon:
            yield daemon
            daemon.stop()

    def repository(self, name: str, **changes: object) -> Path:
        """The demo model with a model.yaml of its own."""
        root = self.folder / name
        version = root / MODEL / "1"
        version.mkdir(parents=True)
        os.link(self.models / MODEL / "1" / "model.pt2", version / "model.pt2")
        fields: dict[str, object] = {
            "max_batch_size": 8,
            "dimensions": {"batch": {"axis": "input_ids.0"}, "tokens": {"axis": "input_ids.1", "padding": True}},
            "inputs": {"input_ids": {"range": [0, 30521]}, "attention_mask": {"range": [0, 1]}},
            "buckets": {"batch": list(BATCHES), "tokens": list(LENGTHS)},
        }
        (root / MODEL / "model.yaml").write_text(json.dumps(fields | changes))  # JSON is YAML
        return root

    # --- the parts ---

    def warm_starts(self) -> None:
        def load_seconds() -> float:
            start = time.perf_counter()
            subprocess.run([STOKERD, "--version"], check=True, capture_output=True)
            return time.perf_counter() - start

        libraries, listening, ready, runs, opens = [], [], [], [], []
        for _ in range(STARTS):
            libraries.append(load_seconds())
            with self.daemon() as daemon:
                daemon.wait_ready()
                phase = {labels["phase"]: value for labels, value in daemon.samples("stoker_startup_phase_seconds")}
                listening.append(phase["listening"])
                ready.append(phase["ready"])
                assert daemon.metric("stoker_compile_worker_starts_total") == 0, "the cache was not full"
                count = daemon.metric("stoker_artifact_open_seconds_count")
                opens.append(daemon.metric("stoker_artifact_open_seconds_sum") / max(count, 1))
                with daemon.client() as client:
                    for batch in BATCHES:
                        for tokens in LENGTHS:
                            ask(client, *inputs(batch, tokens))
                runs.append(daemon.metric("stoker_execute_seconds_sum"))
        rest = [a - b - c for a, b, c in zip(ready, libraries, runs, strict=True)]

        def spread(values: list[float], unit: float = 1, name: str = "s") -> str:
            scaled = sorted(v * unit for v in values)
            return f"{statistics.median(scaled):.2f} {name} ({scaled[0]:.2f}–{scaled[-1]:.2f})"

        self.add("launch_to_listening", listening, spread(listening), "≤ 1 s")
        self.add("launch_to_ready_full_cache", ready, spread(ready))
        self.add("loading_the_libraries", libraries, spread(libraries))
        self.add("one_run_of_each_bucket", runs, spread(runs))
        self.add("everything_else", rest, spread(rest), "≤ 0.3 s")
        self.add("open_a_bucket_and_bind_its_weights", opens, spread(opens, 1e3, "ms"), "≤ 10 ms")

    def memory(self) -> None:
        """One bucket, the largest, against eight: what all share, the mapped weights, is counted apart."""
        weights, resident, shared = 0.0, {}, {}
        largest = (BATCHES[-1], LENGTHS[-1])
        for name, shapes in (("one", [largest]), ("eight", [(b, t) for b in BATCHES for t in LENGTHS])):
            root = self.repository(f"memory-{name}", buckets=[{"batch": b, "tokens": t} for b, t in shapes])
            with self.daemon(models=root) as daemon, daemon.client() as client:
                daemon.wait_ready()
                for batch, tokens in shapes:
                    ask(client, *inputs(batch, tokens))
                resident[name] = daemon.rss_bytes()
                shared[name] = mapped_bytes(daemon.process.pid, "model.pt2")
                weights = daemon.metric("stoker_weights_bytes")
        mb = 1e6
        self.add("weights_bytes", weights, f"{weights / mb:.0f} MB")
        goal = f"≤ {(300 * mb + weights) / mb:.0f} MB"
        self.add("rss_with_eight_buckets", resident["eight"], f"{resident['eight'] / mb:.0f} MB", goal)
        growth = (resident["eight"] - shared["eight"]) - (resident["one"] - shared["one"])
        self.add("seven_more_buckets", growth, f"{growth / mb:.1f} MB ({growth / weights:.0%} of weights)", "≤ 10 %")

    def answers(self) -> None:
        program = load_program(str(self.models / MODEL / "1" / "model.pt2")).module()
        worst = 0.0
        with self.daemon() as daemon, daemon.client() as client:
            daemon.wait_ready()
            shapes = [(b, t) for b in BATCHES for t in LENGTHS]
            shapes += [(max(1, b - 3), t - 5) for b, t in shapes]
            for seed, (batch, tokens) in enumerate(shapes):
                ids, mask = inputs(batch, tokens, seed)
                with torch.no_grad():
                    expected = program(torch.from_numpy(ids), torch.from_numpy(mask))
                got = ask(client, ids, mask)
                for name, value in got.items():
                    worst = max(worst, float(np.abs(value - expected[name].numpy()).max()))
            served = {labels["tier"] for labels, value in daemon.samples("stoker_tier_requests_total") if value}
        self.add("largest_difference_from_eager", worst, f"{worst:.1e} (tiers {', '.join(sorted(served))})", "≤ 1e-4")

    def overhead(self) -> None:
        with self.daemon() as daemon:
            daemon.wait_ready()
            entries = self.cache.glob("v1/entries/*/*/manifest.json")
            manifests = {json.loads(path.read_text())["bucket"]: path.parent for path in entries}
            program = self.models / MODEL / "1" / "model.pt2"
            artifact = manifests["batch=1,tokens=16"]
            what = [f"--program={program}", f"--artifact={artifact}"]
            with subprocess.Popen([TOOLS / "bare_server", *what], stdout=subprocess.PIPE, text=True) as bare:
                try:
                    assert bare.stdout is not None
                    port = int(bare.stdout.readline())
                    addresses = [f"--grpc={daemon.address}", f"--bare=127.0.0.1:{port}"]
                    probe: list[str | Path] = [TOOLS / "overhead_probe", *addresses, *what]
                    done = subprocess.run(probe, check=True, capture_output=True, text=True)
                finally:
                    bare.kill()
        figures = json.loads(done.stdout)
        self.add("ModelInfer_p50_over_the_artifact_in_process", figures,
                 f"{figures['overhead_p50_us']:.0f} µs (of {figures['grpc_p50_us']:.0f})", "≤ 200 µs")  # fmt: skip
        self.add("the_same_for_a_bare_gRPC_server", figures["bare_overhead_p50_us"],
                 f"{figures['bare_overhead_p50_us']:.0f} µs")  # fmt: skip

    def cold(self) -> None:
        cache = self.folder / "cold-cache"
        root = self.repository("cold", ready_when="eager")
        failures, answered = [], 0
        launched = time.perf_counter()
        with self.daemon(models=root, cache=cache) as daemon:
            with daemon.client() as client:
                while True:
                    try:
                        ask(client, *inputs(1, 16))
                        break
                    except triton.InferenceServerException:
                        time.sleep(0.005)
                first = time.perf_counter() - launched

                def send(count: int) -> None:
                    nonlocal answered
                    with daemon.client() as own:
                        for seed in range(count):
                            try:
                                ask(own, *inputs(1 + seed % 8, 5 + seed % 120, seed))
                                answered += 1
                            except triton.InferenceServerException as error:
                                failures.append(str(error))

                sender = threading.Thread(target=send, args=(REQUESTS_WHILE_COLD,))
                sender.start()
                sender.join()
            wait_settled(daemon)
            settled = time.perf_counter() - launched
        self.add("launch_to_first_eager_answer_empty_cache", first, f"{first:.2f} s", "≤ 2 s")
        self.add("requests_failed_during_cold_warm_up", len(failures), f"{len(failures)} of {REQUESTS_WHILE_COLD}", "0")
        self.add("all_buckets_settled_with_traffic", settled, f"{settled:.0f} s")
        if failures:
            print(failures[0])

    def cold_alone(self) -> None:
        cache = self.folder / "cold-alone-cache"
        with self.daemon(cache=cache) as daemon:
            daemon.wait_ready(3600)
            ready = daemon.metric("stoker_startup_phase_seconds", phase="ready")
            seconds = daemon.metric("stoker_compile_seconds_sum") / daemon.metric("stoker_compile_seconds_count")
        self.add("launch_to_ready_empty_cache", ready, f"{ready:.0f} s", "≤ 200 s")
        self.add("seconds_of_a_compile_two_at_a_time", seconds, f"{seconds:.1f} s")

    def bare(self) -> None:
        """One bucket compiled by a bare process with kept caches, and by a worker, one at a time, interleaved."""
        program = self.models / MODEL / "1" / "model.pt2"
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(self.folder / "bare-inductor")}
        bare, ours = [], []
        for index, tokens in enumerate((24, 40, 56, 72)):
            start = time.perf_counter()
            package = self.folder / f"b{index}.pt2"
            subprocess.run(
                [sys.executable, "-c", BARE_COMPILE, REPOSITORY, program, "8", str(tokens), package],
                check=True,
                capture_output=True,
                env=environment,
            )
            bare.append(time.perf_counter() - start)
            # The worker is let go with its daemon: the first job of each daemon pays the start.
            buckets = [{"batch": 8, "tokens": tokens - 4}, {"batch": 8, "tokens": tokens}]
            root = self.repository(f"bare-{tokens}", buckets=buckets)
            with self.daemon("--compile-jobs=1", models=root, cache=self.folder / "bare-cache") as daemon:
                daemon.wait_ready(3600)
                found = re.findall(r"compiled .*tokens=(\d+)\] \w+ in ([\d.]+) s", daemon.log())
                ours.append(float(dict(found)[str(tokens)]))
        # The first bare process and the first worker fill their caches.
        ratio = statistics.median(o / b for o, b in list(zip(ours, bare, strict=True))[1:])
        self.add("compile_bare_process", bare, " ".join(f"{x:.1f}" for x in bare) + " s")
        self.add("compile_worker_second_bucket_on", ours, " ".join(f"{x:.1f}" for x in ours) + " s")
        self.add("ratio", ratio, f"{ratio:.2f}", "≤ 0.65")


def mapped_bytes(pid: int, name: str) -> int:
    """Resident bytes of the mappings of files called `name`."""
    total, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith("/" + name)
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def wait_settled(daemon: Daemon) -> None:
    def settled() -> bool:
        progress = {labels["progress"]: value for labels, value in daemon.samples("stoker_warmup_buckets")}
        return progress["settled"] == progress["total"]

    daemon.until(settled, 3600, "every bucket is settled")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=REPOSITORY / "models", help="repository with the demo model")
    parser.add_argument("--cache", type=Path, help="kept kernel cache; filled first when it is not full")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    parser.add_argument("--cold", action="store_true", help="also start with an empty cache")
    parser.add_argument("--bare", action="store_true", help="also compare a compile with a bare process")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="stoker-bench-", dir=arguments.models.resolve().parent / "build"))
    bench = Bench(arguments.models, arguments.cache or folder / "cache", folder)
    try:
        with bench.daemon() as daemon:
            daemon.wait_ready(3600)
        bench.warm_starts()
        bench.memory()
        bench.answers()
        bench.overhead()
        if arguments.cold:
            bench.cold()
            bench.cold_alone()
        if arguments.bare:
            bench.bare()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        machine = {"cores": os.cpu_count(), "torch": torch.__version__}
        arguments.output.write_text(json.dumps({"machine": machine, "figures": bench.figures}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
