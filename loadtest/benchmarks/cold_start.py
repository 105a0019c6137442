"""Measures how long a server takes from its launch to its answers.

    python -m loadtest.benchmarks.cold_start --model minilm --size input_ids.1,attention_mask.1=32 \\
        --runs 5 [--cold] [--cache FOLDER] [--output FILE.json] -- COMMAND...

COMMAND launches any server of the Open Inference Protocol; in its words {port}, {metrics_port} and
{cache} are replaced. It is launched once for each run and ended with SIGTERM afterwards. {cache} is
--cache, which a first launch that isn't measured fills; with --cold it is a fresh, empty folder
for each run. From the launch it measures when

  listening     a TCP connection was accepted,
  ready         ServerReady said so,
  answer        the first ModelInfer was answered,
  compiled      the first answer came from compiled code (only of a server with Stoker's metrics).

Requests are sent one after the other all along, as a client that can't wait would. Prints median
and spread, and writes every figure as JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from loadtest.servers.inference_server import InferenceServer
from loadtest.servers.process import ServerError, free_ports, listens

PHASES = ("listening", "ready", "answer", "compiled")
POLL_SECONDS = 0.005
STOP_SECONDS = 60
COMPILED = re.compile(r'^stoker_tier_requests_total\{.*tier="aot".*\} (\S+)$', re.MULTILINE)
DTYPES = {
    "BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip


@dataclass
class Start:
    """One launch. Seconds since it, by phase; a phase that was never reached is missing."""

    seconds: dict[str, float] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)  # requests before the first answer, by code


class Launch(InferenceServer):
    """A server under the clock."""

    def __init__(self, command: list[str], cache: Path, log: Path) -> None:
        port, self.metrics_port = free_ports(2)
        names = {"port": port, "metrics_port": self.metrics_port, "cache": cache}
        words = [re.sub(r"\{(port|metrics_port|cache)\}", lambda m: str(names[m[1]]), word) for word in command]
        super().__init__(words, port, log, grace_seconds=STOP_SECONDS)

    def accepts(self) -> bool:
        return listens(self.port)

    def compiled_answers(self) -> float | None:
        """How many answers came from compiled code; None where there are no such metrics."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as page:
                text = page.read().decode()
        except OSError:
            return None
        if "stoker_build_info" not in text:
            return None
        return sum(float(value) for value in COMPILED.findall(text))


def make_request(
    metadata: service_pb2.ModelMetadataResponse,
    sizes: dict[str, int],
    ranges: dict[str, tuple[int, int]],
) -> service_pb2.ModelInferRequest:
    """A request for the model; an axis of -1 has the size given for it, the first one 1 without any."""
    request = service_pb2.ModelInferRequest(model_name=metadata.name)
    rng = np.random.default_rng(1)
    for tensor in metadata.inputs:
        shape = list(tensor.shape)
        for axis, size in enumerate(shape):
            name = f"{tensor.name}.{axis}"
            if size < 0 and axis > 0 and name not in sizes:
                raise SystemExit(f"expected --size {name}=N: the model leaves it open")
            shape[axis] = sizes.get(name, 1) if size < 0 else size
        dtype = DTYPES[tensor.datatype]
        low, high = ranges.get(tensor.name, (0, 1))
        values = rng.integers(low, high + 1, shape) if np.issubdtype(dtype, np.integer) else rng.random(shape)
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=shape)
        request.raw_input_contents.append(values.astype(dtype).tobytes())
    return request


class Client:
    def __init__(self, launch: Launch, arguments: argparse.Namespace) -> None:
        self.launch, self.arguments = launch, arguments
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{launch.port}",
            options=[("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 100)],
        )
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self.request: service_pb2.ModelInferRequest | None = None

    def ready(self) -> bool:
        try:
            return self.stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=10).ready
        except grpc.RpcError:
            return False

    def answered(self, refused: dict[str, int]) -> bool:
        try:
            if self.request is None:
                wanted = service_pb2.ModelMetadataRequest(name=self.arguments.model)
                metadata = self.stub.ModelMetadata(wanted, timeout=10)
                self.request = make_request(metadata, self.arguments.size, self.arguments.range)
            self.stub.ModelInfer(self.request, timeout=60)
        except grpc.RpcError as error:
            code = error.code().name
            refused[code] = refused.get(code, 0) + 1
            return False
        return True


def measure(arguments: argparse.Namespace, cache: Path, log: Path) -> Start:
    start = Start()
    limit = arguments.timeout
    with Launch(arguments.command, cache, log) as launch:
        start.seconds["listening"] = launch.until(launch.accepts, limit, "it listens", POLL_SECONDS)
        client = Client(launch, arguments)

        def watch_ready() -> None:
            with suppress(ServerError):  # said below
                start.seconds["ready"] = launch.until(client.ready, limit, "it is ready", POLL_SECONDS)

        watcher = threading.Thread(target=watch_ready)
        watcher.start()
        start.seconds["answer"] = launch.until(
            lambda: client.answered(start.refused), limit, "it answers", POLL_SECONDS
        )
        if launch.compiled_answers() is not None and not arguments.no_compiled:

            def compiled() -> bool:
                before = launch.compiled_answers() or 0
                return client.answered({}) and (launch.compiled_answers() or 0) > before

            # The first answer of all may have been one.
            first = (launch.compiled_answers() or 0) > 0
            start.seconds["compiled"] = (
                start.seconds["answer"] if first else launch.until(compiled, limit, "it is compiled", POLL_SECONDS)
            )
        watcher.join()
        client.channel.close()
    if "ready" not in start.seconds:
        raise ServerError(f"never ready:\n{launch.log()[-2000:]}")
    return start


def pairs(texts: Iterable[str], what: str) -> Iterable[tuple[str, str]]:
    for text in texts:
        names, equals, value = text.partition("=")
        if not equals:
            raise SystemExit(f"expected {what}, got {text!r}")
        for name in names.split(","):
            yield name, value


def parse(words: list[str]) -> argparse.Namespace:
    cut = words.index("--") if "--" in words else len(words)
    words, command = words[:cut], words[cut + 1 :]
    parser = argparse.ArgumentParser(
        prog="loadtest.benchmarks.cold_start",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--size", action="append", default=[], metavar="INPUT.AXIS[,...]=N")
    parser.add_argument("--range", action="append", default=[], metavar="INPUT=MIN:MAX")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="an empty cache for each run")
    parser.add_argument("--cache", type=Path, help="kept cache of warm runs; a temporary one without it")
    parser.add_argument("--no-compiled", action="store_true", help="don't wait for a compiled answer")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds that a start may take")
    parser.add_argument("--output", type=Path, help="JSON file")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=TEXT")
    arguments = parser.parse_args(words)
    if not command:
        parser.error("expected -- and the server's command line behind it")
    if arguments.runs < 1:
        parser.error("expected at least one run")
    arguments.command = command
    try:
        arguments.size = {name: int(value) for name, value in pairs(arguments.size, "--size INPUT.AXIS=N")}
        ranges = pairs(arguments.range, "--range INPUT=MIN:MAX")
        arguments.range = {name: tuple(int(end) for end in value.split(":")) for name, value in ranges}
    except ValueError as error:
        parser.error(f"expected integers: {error}")
    arguments.label = dict(pairs(arguments.label, "--label NAME=TEXT"))
    return arguments


def summary(starts: list[Start]) -> dict[str, dict[str, float]]:
    """Of each phase that was reached: median, least and greatest, seconds."""
    figures = {}
    for phase in PHASES:
        values = [start.seconds[phase] for start in starts if phase in start.seconds]
        if values:
            figures[phase] = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return figures


def main() -> int:
    arguments = parse(sys.argv[1:])
    folder = Path(tempfile.mkdtemp(prefix="cold_start-"))
    starts = []
    try:
        kept = arguments.cache or folder / "cache"
        if not arguments.cold:
            measure(arguments, kept, folder / "filling.log")
        for run in range(arguments.runs):
            cache = folder / f"cache-{run}" if arguments.cold else kept
            starts.append(measure(arguments, cache, folder / f"run-{run}.log"))
            if arguments.cold:
                shutil.rmtree(cache, ignore_errors=True)
            shown = "  ".join(f"{phase} {starts[-1].seconds.get(phase, float('nan')):.3f}" for phase in PHASES)
            print(f"  run {run + 1}: {shown}", flush=True)
    except ServerError as error:
        print(f"the server {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    figures = summary(starts)
    print(f"{'cold' if arguments.cold else 'warm'}, {len(starts)} launches, seconds from the launch")
    for phase, figure in figures.items():
        print(f"  {phase:<12} {figure['median']:8.3f}   ({figure['min']:.3f}–{figure['max']:.3f})")
    if arguments.output:
        result = {
            "cold": arguments.cold,
            "model": arguments.model,
            "server": Path(arguments.command[0]).name,
            "labels": arguments.label,
            "phases": figures,
            "runs": [{"seconds": start.seconds, "refused": start.refused} for start in starts],
        }
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
