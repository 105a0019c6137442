"""Installs what users would run instead of Stoker, and measures all of it side by side."""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
from datetime import date
from pathlib import Path

from loadtest.circumstances import stoker_home
from loadtest.peers import REPO, comparison, environments, perf_analyzer


def install(peers: list[str]) -> int:
    """Installs each; one that fails doesn't stop the others. 1 when any failed."""
    failed = 0
    for peer in peers:
        print(f"  {peer:<16}", end="", flush=True)
        try:
            print(f"ok     {environments.install(peer)}", flush=True)
        except environments.InstallError as error:
            failed = 1
            print(f"FAILED {error}", flush=True)
    return failed


def add_common(parser: argparse.ArgumentParser) -> None:
    home = stoker_home()
    parser.add_argument("--build", type=Path, default=REPO / "build/release", help="release build of Stoker")
    parser.add_argument("--cache", type=Path, default=home / "kernels", help="kernel cache; filled first")
    parser.add_argument(
        "--program",
        type=Path,
        default=REPO / "models/minilm/1/model.pt2",
        help="the demo model, as <model>/<version>/model.pt2",
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m loadtest.peers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install", help="install peers, each into an environment of its own")
    installing.add_argument("peers", nargs="*", metavar="PEER", help=", ".join(environments.PEERS))
    comparing = commands.add_parser("compare", help="measure all servers, print one table")
    comparing.add_argument("--quick", action="store_true", help="one short round: does everything work?")
    comparing.add_argument("--rounds", type=int, help="in place of 3, or of 1 for --quick")
    comparing.add_argument(
        "--output",
        type=Path,
        help="JSON file for the figures; by default a full run writes loadtest/results/peers_<date>.json",
    )
    add_common(comparing)
    analyzing = commands.add_parser(
        "perf_analyzer", help="run perf_analyzer against Stoker and Triton's core"
    )
    analyzing.add_argument(
        "--seconds", type=float, default=60, help="of the sweep, of streams and of the rate each"
    )
    add_common(analyzing)
    parsed = parser.parse_args(arguments)
    if parsed.command == "install":
        unknown = sorted(set(parsed.peers) - set(environments.PEERS))
        if unknown:
            parser.error(f"expected {', '.join(environments.PEERS)}, got {', '.join(unknown)}")
    return parsed


def main() -> int:
    arguments = parse(sys.argv[1:])
    # As an exception, so that no server outlives this.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if arguments.command == "install":
        return install(arguments.peers or list(environments.PEERS))
    if arguments.command == "perf_analyzer":
        return perf_analyzer.measure(arguments.build, arguments.cache, arguments.program, arguments.seconds)
    plan = comparison.QUICK if arguments.quick else comparison.FULL
    if arguments.rounds:
        plan = dataclasses.replace(plan, rounds=arguments.rounds)
    output = arguments.output
    if output is None and not arguments.quick:
        output = comparison.RESULTS / f"peers_{date.today().isoformat()}.json"
    return comparison.compare(plan, arguments.build, arguments.cache, arguments.program, output)


if __name__ == "__main__":
    sys.exit(main())
