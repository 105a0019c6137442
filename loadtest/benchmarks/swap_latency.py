"""Measures what clients notice when compiled code takes over behind traffic.

    python -m loadtest.benchmarks.swap_latency --model minilm --sizes 1x16,1x64,8x32 [--runs 3] \\
        [--output FILE.json] -- build/release/server/main/stokerd --model-repository=models \\
        --cache={cache} --listen=127.0.0.1:{port} --metrics-listen=127.0.0.1:{metrics_port} ...

Launches stokerd on an empty cache (model.yaml should say `ready_when: eager`) and asks it for one of
the sizes (rows x the other open dimensions) after another, without a pause, until the last bucket is
settled. Compares the requests that ended in the second around each promotion, which the log tells the
time of, with those of the second before it. Any request that fails is an error.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from loadtest.benchmarks.cold_start import Launch, make_request
from loadtest.servers.process import ServerError

PROMOTED = re.compile(r"^(\S+T\S+) .*?(\S+:\d+ \S+): compiled, max error", re.MULTILINE)
SECONDS = 1800  # that a warm-up may take


@dataclass(frozen=True)
class Swap:
    """One promotion: latencies in ms of the second before it, and of the second around it."""

    bucket: str
    before: list[float]
    around: list[float]


def requests(
    stub: service_pb2_grpc.GRPCInferenceServiceStub, model: str, sizes: list[list[int]]
) -> list[service_pb2.ModelInferRequest]:
    metadata = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name=model), timeout=10)
    made = []
    for rows, *others in sizes:
        wanted: dict[str, int] = {}
        for tensor in metadata.inputs:
            open_axes = [axis for axis, size in enumerate(tensor.shape) if size < 0]
            wanted |= {f"{tensor.name}.{axis}": size for axis, size in zip(open_axes, [rows, *others], strict=True)}
        made.append(make_request(metadata, wanted, {}))
    return made


def settled(launch: Launch) -> bool:
    return "warm-up done" in launch.log()


def drive(launch: Launch, model: str, sizes: list[list[int]]) -> list[tuple[float, float]]:
    """Ends (seconds since the epoch) and latencies (ms) of all requests."""
    launch.until(launch.accepts, SECONDS, "it listens")
    ends = []
    with grpc.insecure_channel(f"127.0.0.1:{launch.port}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        ready = service_pb2.ModelReadyRequest(name=model)

        def is_ready() -> bool:
            try:
                return stub.ModelReady(ready, timeout=10).ready
            except grpc.RpcError:
                return False

        launch.until(is_ready, SECONDS, "it is ready")
        looked, enough = time.monotonic(), None
        for request in itertools.cycle(requests(stub, model, sizes)):
            start = time.perf_counter()
            stub.ModelInfer(request, timeout=60)
            ends.append((time.time(), 1e3 * (time.perf_counter() - start)))
            if time.monotonic() - looked > 0.5:
                looked = time.monotonic()
                if enough is None and settled(launch):
                    enough = looked + 1  # the second of the last one
                if enough is not None and looked > enough:
                    return ends
                if launch.since_launch() > SECONDS:
                    raise ServerError(f"not settled after {SECONDS} s:\n{launch.log()[-2000:]}")
    raise AssertionError("a cycle has no end")


def swaps(ends: list[tuple[float, float]], log: str) -> list[Swap]:
    found = []
    for moment, bucket in PROMOTED.findall(log):
        at = datetime.fromisoformat(moment).timestamp()
        before = [ms for end, ms in ends if at - 1.5 <= end < at - 0.5]
        around = [ms for end, ms in ends if at - 0.5 <= end < at + 0.5]
        if before and around:
            found.append(Swap(bucket, before, around))
    return found


def parse(words: list[str]) -> argparse.Namespace:
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(
        prog="loadtest.benchmarks.swap_latency",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--sizes", required=True, metavar="ROWSxSIZE[x...],...")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args(words[:cut])
    arguments.command = words[cut + 1 :]
    if not arguments.command:
        parser.error("expected -- and the server's command line behind it")
    arguments.sizes = [[int(size) for size in one.split("x")] for one in arguments.sizes.split(",")]
    return arguments


def main() -> int:
    arguments = parse(sys.argv[1:])
    found: list[Swap] = []
    folder = Path(tempfile.mkdtemp(prefix="swap_latency-"))
    try:
        for run in range(arguments.runs):
            with Launch(arguments.command, folder / f"cache-{run}", folder / "log") as launch:
                ends = drive(launch, arguments.model, arguments.sizes)
                new = swaps(ends, launch.log())
            print(f"  run {run + 1}: {len(ends)} requests, none failed; {len(new)} promotions", flush=True)
            found += new
    except ServerError as error:
        raise SystemExit(f"the server {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not found:
        raise SystemExit("no promotion had requests before and around it")
    print(f"{'bucket':<32} {'before p50':>10} {'p99 ms':>8} {'around p50':>11} {'p99 ms':>8} {'ratio':>6}")
    pooled = Swap("all", [ms for s in found for ms in s.before], [ms for s in found for ms in s.around])
    for swap in (*found, pooled):
        before, around = np.percentile(swap.before, [50, 99]), np.percentile(swap.around, [50, 99])
        print(
            f"{swap.bucket:<32} {before[0]:>10.2f} {before[1]:>8.2f} {around[0]:>11.2f} {around[1]:>8.2f}"
            f" {around[1] / before[1]:>6.2f}"
        )
    if arguments.output:
        rows = [{"bucket": s.bucket, "before_ms": s.before, "around_ms": s.around} for s in found]
        arguments.output.write_text(json.dumps(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
