"""Attacks stokerd and the real Triton in the same ways, and prints what another client notices of it.

    python -m tests.faults.attacked_servers [--server stokerd] [--attack NAME] [--seconds 4] [--output FILE.json]

Each attack of tests/integration/attacks.py meets a server that was just started, beside a client that asks for an
inference of the null model and for health, again and again. Triton is `tritonserver` with a backend that answers at
once (loadtest/peers; `python -m loadtest.peers install triton` first). Both serve plain text; stokerd's ceiling is 64
MB, as in tests/integration/test_attacks.py. Runs on loopback only and ends everything that it starts.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from loadtest.peers import servers
from loadtest.peers.workspace import Workspace
from loadtest.servers.inference_server import InferenceServer
from loadtest.servers.stokerd import REPOSITORY, STOKERD, Daemon
from tests.integration.attacks import ATTACKS

MODELS = ("null",)
STOKER, TRITON = "stokerd", "triton"
FLAGS = ("--no-compile", "--max-request-memory-mb=64")
# Where "connections" finds the end of them.
DESCRIPTORS = 300
PATIENCE_SECONDS = 20.0
# Of a server that has no ceiling.
MOST_BYTES = 8 << 30


def start_stoker(workspace: Workspace) -> InferenceServer:
    repository = workspace.stoker_repository(MODELS)
    return Daemon(repository, workspace.cache, workspace.log("stokerd"), *FLAGS, binary=STOKERD)


def start_triton(workspace: Workspace) -> InferenceServer:
    return servers.start_triton_core(workspace, MODELS)


SERVERS: dict[str, Callable[[Workspace], InferenceServer]] = {STOKER: start_stoker, TRITON: start_triton}


@dataclass(frozen=True)
class Outcome:
    server: str
    attack: str
    asked: int
    failed: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    grown_mb: float
    alive: bool  # the process
    recovered: bool  # a new client is answered within 10 s of the end


class Bystander:
    def __init__(self, server: InferenceServer) -> None:
        self._channel = grpc.insecure_channel(server.address, [("grpc.use_local_subchannel_pool", 1)])
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._request = service_pb2.ModelInferRequest(model_name="null")
        self._request.inputs.add(name="x", datatype="FP32", shape=[1, 16])
        self._request.raw_input_contents.append(np.ones(16, np.float32).tobytes())
        self.seconds: list[float] = []
        self.failed = 0

    def ask(self, patience: float = PATIENCE_SECONDS) -> bool:
        """Whether both were answered; half of what they took, or of what was waited, is noted."""
        begin = time.monotonic()
        well = True
        try:
            self._stub.ModelInfer(self._request, timeout=patience)
            self._stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=patience)
        except grpc.RpcError:
            well = False
            self.failed += 1
        self.seconds.append((time.monotonic() - begin) / 2)
        return well

    def close(self) -> None:
        self._channel.close()


def suffer(server: InferenceServer, bystander: Bystander, attack: str, seconds: float) -> int:
    """The most bytes that the server had meanwhile."""
    pid, most = server.process.pid, 0
    if attack == "connections":
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
    line = [sys.executable, "-m", "tests.integration.attacks", attack, str(server.port), str(seconds)]
    with subprocess.Popen(line, cwd=REPOSITORY) as attacker:
        try:
            while attacker.poll() is None and not server.ended() and most < MOST_BYTES:
                bystander.ask()
                most = max(most, server.rss_bytes())
                time.sleep(0.001)
        finally:
            attacker.kill()
    return most if server.ended() else max(most, server.rss_bytes())


def recovers(server: InferenceServer) -> bool:
    """Whether who comes now is answered."""
    until = time.monotonic() + 10
    while not server.ended() and time.monotonic() < until:
        late = Bystander(server)
        try:
            if late.ask(2):
                return True
        finally:
            late.close()
    return False


def endure(name: str, attack: str, workspace: Workspace, seconds: float) -> Outcome:
    with SERVERS[name](workspace) as server:
        server.wait_ready(60, MODELS)
        bystander = Bystander(server)
        for _ in range(50):
            bystander.ask()
        bystander.seconds.clear()
        bystander.failed = 0
        before = server.rss_bytes()
        most = suffer(server, bystander, attack, seconds)
        bystander.close()
        taken = sorted(1e3 * each for each in bystander.seconds)
        return Outcome(
            server=name,
            attack=attack,
            asked=len(taken),
            failed=bystander.failed,
            p50_ms=statistics.median(taken),
            p99_ms=taken[len(taken) * 99 // 100],
            worst_ms=taken[-1],
            grown_mb=(most - before) / 2**20,
            recovered=recovers(server),
            alive=not server.ended(),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=list(SERVERS), action="append", help="in place of both")
    parser.add_argument("--attack", choices=list(ATTACKS), action="append", metavar="NAME", help="in place of all")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    outcomes = []
    print("| attack | server | p50 ms | p99 ms | worst ms | MB more | unanswered of asked | afterwards |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder), REPOSITORY / "build/release", Path(folder) / "cache", Path())
        for attack in options.attack or ATTACKS:
            for name in options.server or SERVERS:
                one = endure(name, attack, workspace, options.seconds)
                outcomes.append(one)
                after = "well" if one.recovered else "no answer" if one.alive else "ended"
                print(
                    f"| {attack} | {name} | {one.p50_ms:.1f} | {one.p99_ms:.1f} | {one.worst_ms:.0f} "
                    f"| {one.grown_mb:+.0f} | {one.failed} of {one.asked} | {after} |",
                    flush=True,
                )
                if options.output:
                    options.output.write_text(json.dumps([asdict(each) for each in outcomes], indent=1) + "\n")


if __name__ == "__main__":
    main()
