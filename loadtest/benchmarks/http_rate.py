"""What HTTP costs beside gRPC: answers per second and CPU of the same server, by the same client, in turns.

    python -m loadtest.benchmarks.http_rate [--rounds 5] [--seconds 3] [--output FILE.json]

The null model and the 600 KB one (loadtest/benchmarks/null_models.py) at 1, 8 and 64 requests under way: over gRPC on
one connection and on as many, over HTTP/1.1 on as many, with elements in binary form and, for the null model, in JSON.
What is on one connection shares the system's calls and packets; HTTP/1.1 has no such way to be asked.
The client is nghttp2's h2load. Figures are medians, ratios are medians of the rounds' ratios. Needs the release
build. Runs on loopback only and ends everything that it starts.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import struct
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from tritonclient.grpc import service_pb2

from loadtest.benchmarks import null_models
from loadtest.benchmarks.wire_cost import TICKS, UNDER_WAY
from loadtest.servers.stokerd import Daemon

ELEMENTS = {"null": 16, "payload": 150528}
FINISHED = re.compile(r"finished in [\d.]+\w+, ([\d.]+) req/s")
SUCCEEDED = re.compile(r"requests: \d+ total, .* (\d+) succeeded, (\d+) failed, (\d+) errored")


@dataclass(frozen=True)
class Figures:
    answers_per_second: float
    cpu_seconds_per_100k: float


@dataclass(frozen=True)
class Way:
    """One way to ask: what h2load is told besides the number of requests."""

    name: str
    port: int
    path: str
    flags: tuple[str, ...]
    body: bytes
    connections: bool = True  # one for each request under way, instead of one for all


def ways(daemon: Daemon, model: str) -> list[Way]:
    count = ELEMENTS[model]
    elements = struct.pack(f"<{count}f", *([0.5] * count))
    message = service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[elements])
    message.inputs.add(name="x", datatype="FP32", shape=[1, count])
    serialised = message.SerializeToString()
    grpc = struct.pack(">BI", 0, len(serialised)) + serialised
    entry = {"name": "x", "datatype": "FP32", "shape": [1, count]}
    head = json.dumps({
        "inputs": [{**entry, "parameters": {"binary_data_size": len(elements)}}],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
    }).encode()  # fmt: skip
    path = f"/v2/models/{model}/infer"
    grpc_flags = ("-H", "content-type: application/grpc", "-H", "te: trailers")
    infer = "/inference.GRPCInferenceService/ModelInfer"
    asked = [
        Way("gRPC", daemon.port, infer, grpc_flags, grpc, connections=False),
        Way("gRPC on connections", daemon.port, infer, grpc_flags, grpc),
        Way("HTTP binary", daemon.http_port, path,
            ("--h1", "-H", f"inference-header-content-length: {len(head)}"), head + elements),
    ]  # fmt: skip
    if model == "null":
        text = json.dumps({"inputs": [{**entry, "data": [0.5] * count}]}).encode()
        asked.append(Way("HTTP JSON", daemon.http_port, path, ("--h1",), text))
    return asked


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(daemon: Daemon, way: Way, under_way: int, seconds: int, folder: Path) -> Figures:
    body = folder / "body"
    body.write_bytes(way.body)
    spread = ("-c", str(under_way)) if way.connections else ("-c", "1", "-m", str(under_way))
    before = cpu_seconds(daemon.process.pid)
    done = subprocess.run(
        ["h2load", "-t1", *spread, "-D", str(seconds), "-d", str(body), *way.flags,
         f"http://127.0.0.1:{way.port}{way.path}"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    used = cpu_seconds(daemon.process.pid) - before
    rate, counts = FINISHED.search(done.stdout), SUCCEEDED.search(done.stdout)
    assert rate is not None and counts is not None, done.stdout
    succeeded, failed, errored = map(int, counts.groups())
    assert succeeded > 0 and failed == 0, (failed, errored, done.stdout)
    return Figures(succeeded / seconds, used / succeeded * 1e5)


def compare(rounds: list[dict[str, Figures]], name: str, field: str) -> str:
    """A way's median, and against gRPC its rounds' ratios."""
    own = statistics.median(getattr(one[name], field) for one in rounds)
    ratios = sorted(getattr(one[name], field) / getattr(one["gRPC"], field) for one in rounds)
    return f"{own:9.2f} ({statistics.median(ratios):.2f}: {ratios[0]:.2f}-{ratios[-1]:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)  # h2load takes no parts
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    everything = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in ELEMENTS:
            null_models.write(model, folder / "models")
        with Daemon(folder / "models", folder / "cache", folder / "log") as daemon:
            daemon.wait_ready(300)
            print("way | answers/s | CPU s per 100,000 (each: median, ratio to gRPC, spread)")
            for model in ELEMENTS:
                asked = ways(daemon, model)
                for under_way in UNDER_WAY:
                    rounds = [
                        {way.name: measure(daemon, way, under_way, options.seconds, folder) for way in asked}
                        for _ in range(options.rounds)
                    ]
                    for way in asked:
                        texts = []
                        for field in ("answers_per_second", "cpu_seconds_per_100k"):
                            texts.append(compare(rounds, way.name, field))
                        print(f"{model} at {under_way}, {way.name}: {' | '.join(texts)}", flush=True)
                    everything.append({
                        "model": model,
                        "under_way": under_way,
                        "rounds": [{key: asdict(figures) for key, figures in one.items()} for one in rounds],
                    })  # fmt: skip
    if options.output:
        options.output.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
