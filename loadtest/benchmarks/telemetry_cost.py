"""What the request log and traces cost a server: answers per second and CPU of the null model, in turns.

    python -m loadtest.benchmarks.telemetry_cost [--before STOKERD] [--rounds 5] [--seconds 3] [--output FILE.json]

Daemons beside each other, all idle but one: with nothing, with a line for 1 % and for all requests in a log, and with a
trace for 1 % and for all, sent to a collector that only answers; and, where it is named, another build's. Each is asked
over gRPC by h2load at 1, 8 and 64 requests under way. Figures are medians, ratios are to the one with nothing and
medians of the rounds' ratios. Needs the release build. Runs on loopback only and ends everything that it starts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from loadtest.benchmarks import null_models
from loadtest.benchmarks.http_rate import Figures, measure, ways
from loadtest.benchmarks.wire_cost import UNDER_WAY
from loadtest.servers.stokerd import STOKERD, Daemon

NOTHING = "nothing"


class Collector(BaseHTTPRequestHandler):
    """Takes everything, and looks at none of it."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def setups(folder: Path, collector: str, before: Path | None) -> dict[str, tuple[Path, list[str]]]:
    """By name, the program and its flags."""
    found: dict[str, tuple[Path, list[str]]] = {NOTHING: (STOKERD, [])}
    if before is not None:
        found["another build"] = (before, [])
    for share, text in ((0.01, "1 %"), (1, "all")):
        log = [f"--request-log={folder}/requests-{share}", f"--request-log-sample={share}"]
        found[f"log of {text}"] = (STOKERD, log)
        found[f"traces of {text}"] = (STOKERD, [f"--trace-endpoint={collector}", f"--trace-sample={share}"])
    return found


def compare(rounds: list[dict[str, Figures]], name: str, field: str) -> str:
    own = statistics.median(getattr(one[name], field) for one in rounds)
    ratios = sorted(getattr(one[name], field) / getattr(one[NOTHING], field) for one in rounds)
    return f"{own:9.2f} ({statistics.median(ratios):.3f}: {ratios[0]:.3f}-{ratios[-1]:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    everything = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        null_models.write("null", folder / "models")
        collector = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Collector))
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{collector.server_address[1]}"
        daemons: dict[str, Daemon] = {}
        for name, (binary, flags) in setups(folder, url, options.before).items():
            log = folder / f"stokerd-{len(daemons)}.log"
            daemons[name] = stack.enter_context(
                Daemon(folder / "models", folder / "cache", log, "--no-compile", *flags, binary=binary)
            )
            daemons[name].wait_ready(300)
        print("daemon | answers/s | CPU s per 100,000 (each: median, ratio to nothing, spread)")
        for under_way in UNDER_WAY:
            rounds = [
                {
                    name: measure(daemon, ways(daemon, "null")[0], under_way, options.seconds, folder)
                    for name, daemon in daemons.items()
                }
                for _ in range(options.rounds)
            ]
            for name in daemons:
                texts = [compare(rounds, name, field) for field in ("answers_per_second", "cpu_seconds_per_100k")]
                print(f"{under_way} under way, {name}: {' | '.join(texts)}", flush=True)
            everything.append({
                "under_way": under_way,
                "rounds": [{name: asdict(figures) for name, figures in one.items()} for one in rounds],
            })  # fmt: skip
        for name, daemon in daemons.items():
            for metric in ("stoker_request_log_lines_total", "stoker_trace_records_total"):
                for labels, value in daemon.samples(metric):
                    if value:
                        print(f"{name}: {metric} {labels['outcome']} {value:.0f}")
    if options.output:
        options.output.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
