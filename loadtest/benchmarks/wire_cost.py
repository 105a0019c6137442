"""What an answer costs a server that computes next to nothing: CPU time, rate and latency, against the bare gRPC echo.

    python -m loadtest.benchmarks.wire_cost [--rounds 5] [--seconds 3] [--model null] [--under-way 1] [--tls]
                                            [--other STOKERD] [--output FILE.json]

The null model and the 600 KB one (loadtest/benchmarks/null_models.py) at 1, 8 and 64 requests under way, in rounds
in which the servers take turns; figures are medians, ratios are medians of the rounds' ratios, with their range. With
`--tls` the daemon is measured over TLS as well, and so is the echo. Needs the release build. Runs on loopback only and
ends everything that it starts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from loadtest.benchmarks import null_models
from loadtest.servers.stokerd import REPOSITORY, STOKERD, Daemon

TOOLS = REPOSITORY / "build/release/loadtest"
INPUTS = {"null": ("x:FP32:-1,16", "y:FP32:-1,16"), "payload": ("x:FP32:-1,150528", "y:FP32:-1,16")}
UNDER_WAY = (1, 8, 64)
ECHO, TLS = "grpc echo", ", TLS"
HEADS = "server | answers/s | CPU s per 100,000 | p50 ms | p99 ms | client's CPU (median, ratio to the echo, range)"
READY = re.compile(r"ready [0-9.]+ s after launch")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figures:
    """One measurement of one server."""

    answers_per_second: float
    cpu_seconds_per_100k: float
    p50_ms: float
    p99_ms: float
    client_cpu_seconds_per_100k: float


@dataclass(frozen=True)
class Server:
    name: str
    pid: int
    address: str

    def cpu_seconds(self) -> float:
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICKS


@dataclass(frozen=True)
class Tls:
    """A certificate of this host, which is its own authority."""

    certificate: Path
    key: Path

    def flags(self) -> list[str]:
        return [f"--tls-certificate={self.certificate}", f"--tls-key={self.key}"]


def certify(folder: Path) -> Tls:
    made = Tls(folder / "certificate.pem", folder / "key.pem")
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", made.key, "-out", made.certificate,
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return made


@contextmanager
def echo(model: str, tls: Tls | None = None) -> Iterator[Server]:
    given, answered = INPUTS[model]
    line: list[str | Path] = [
        TOOLS / "echo_server",
        "--form",
        "raw",
        "--model",
        model,
        "--input",
        given,
        "--output",
        answered,
        *(tls.flags() if tls else []),
    ]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = f"127.0.0.1:{int(process.stdout.readline())}"
            yield Server(f"{ECHO}{TLS}", process.pid, f"tls:{address}") if tls else Server(ECHO, process.pid, address)
        finally:
            process.kill()


def measure(server: Server, model: str, under_way: int, seconds: float, folder: Path) -> Figures:
    result = folder / "result.json"
    trust = os.environ | {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(folder / "certificate.pem")}
    before, client_before = server.cpu_seconds(), client_cpu_seconds()
    subprocess.run(
        [
            TOOLS / "stoker-loadtest", "quick", "--model", model, "--concurrency", str(under_way), "--warmup", "0.5",
            "--measure", str(seconds), "--address", server.address, "--output", result, "--messages", "16",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        env=trust,
    )  # fmt: skip
    used, client_used = server.cpu_seconds() - before, client_cpu_seconds() - client_before
    (step,) = json.loads(result.read_text())["steps"]
    requests = step["requests"]
    assert requests["measured_ok"] == requests["measured"] > 0, requests
    latency = step["latency_ms"]
    hundred_thousands = requests["total"] / 1e5
    return Figures(
        requests["measured_ok"] / seconds,
        used / hundred_thousands,
        latency["p50"],
        latency["p99"],
        client_used / hundred_thousands,
    )


def client_cpu_seconds() -> float:
    """Of all that have ended, which are clients alone while servers run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(rounds: list[dict[str, Figures]], name: str) -> str:
    """A server's medians, and against the echo its rounds' ratios."""
    texts = []
    for field in (each.name for each in fields(Figures)):
        own = statistics.median(getattr(one[name], field) for one in rounds)
        ratios = sorted(getattr(one[name], field) / getattr(one[ECHO], field) for one in rounds)
        texts.append(f"{own:9.2f} ({statistics.median(ratios):.2f}: {ratios[0]:.2f}-{ratios[-1]:.2f})")
    return " | ".join(texts)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--model", choices=list(INPUTS), action="append", help="in place of both; may be given again")
    parser.add_argument("--under-way", type=int, action="append", help="in place of 1, 8 and 64; likewise")
    parser.add_argument("--tls", action="store_true", help="over TLS, too")
    parser.add_argument("--other", type=Path, help="another stokerd to compare with")
    parser.add_argument("--output", type=Path)
    return parser.parse_args()


def start(stack: ExitStack, folder: Path, options: argparse.Namespace) -> dict[str, list[Server]]:
    """All servers of each model, the plain echo first."""
    models = options.model or list(INPUTS)
    for model in models:
        null_models.write(model, folder / "models")
    tls = certify(folder) if options.tls else None
    servers = {model: [stack.enter_context(echo(model))] for model in models}
    daemons: list[tuple[str, Path, Tls | None]] = [("stokerd", STOKERD, None)]
    if options.other:
        daemons.append(("other", options.other, None))
    if tls:
        daemons.append((f"stokerd{TLS}", STOKERD, tls))
        for model in models:
            servers[model].append(stack.enter_context(echo(model, tls)))
    for name, binary, secured in daemons:
        flags = secured.flags() if secured else []
        line = Daemon(folder / "models", folder / "cache", folder / f"{name}.log", *flags, binary=binary)
        daemon = stack.enter_context(line)
        daemon.logged(READY, 300)  # wait_ready asks in plain text
        address = f"tls:{daemon.address}" if secured else daemon.address
        for model in models:
            servers[model].append(Server(name, daemon.process.pid, address))
    return servers


def main() -> None:
    options = parse()
    everything = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = start(stack, folder, options)
        print(HEADS)
        for model in servers:
            for under_way in options.under_way or UNDER_WAY:
                rounds = [
                    {s.name: measure(s, model, under_way, options.seconds, folder) for s in servers[model]}
                    for _ in range(options.rounds)
                ]
                for server in servers[model]:
                    print(f"{model} at {under_way}, {server.name}: {compare(rounds, server.name)}", flush=True)
                everything.append(
                    {
                        "model": model,
                        "under_way": under_way,
                        "rounds": [{name: asdict(figures) for name, figures in one.items()} for one in rounds],
                    }
                )
    if options.output:
        options.output.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
