"""Plays random schedules of what befalls a cache that two servers share, and looks at all that they answer.

    python -m tests.faults.schedules --schedules 1000

Two programs have the same interface and the same weights, and compute different things. A schedule is some of these, in
random order and at random moments, while both servers are asked without a pause:

    replace   the other program is moved over the model's file
    kill      SIGKILL to a server, which is launched again
    push      an artifact of the other program lies under a key, whole and sealed: wrong, and nothing says so
    evict     an entry goes (stokerctl cache rm)
    step      a server's time of day jumps by hours
    wait      nothing, for a moment

Then it settles: both servers come to answer, at each size, as the program that lies there, and from then on until the
next replacement every answer has to be that one's; in between, one of the two's. And no server may end by itself. The
compiler is a stand-in that copies artifacts which the real one made once (--real: that one). Ends with what happened
how often: of the artifacts that were pushed, the servers refuse those that they come to open. Exit code 1 when a
schedule did not hold.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
import tritonclient.grpc as triton
from torch import Tensor, nn
from torch.export import Dim
from tritonclient.utils import InferenceServerException

from loadtest.servers.process import wait_until
from loadtest.servers.stokerd import STOKERCTL, Daemon, warm_up
from tests.fakes.stand_in import stand_in
from tests.faults import progress
from tests.integration.clients import infer, rows

FAKES = Path(__file__).resolve().parents[1] / "fakes"
MODEL = "net"
BUCKETS = [1, 8]
SIZES = [1, 3, 8]  # of requests
ACTIONS = ("replace", "kill", "push", "evict", "step", "wait")
STEPS = 6  # of a schedule
MOMENT = 0.6  # seconds that a step leaves at most for what it began
SETTLE_SECONDS = 90
HOURS = 3600
POLLS = "stoker_repository_polls_total"
JUDGED = re.compile(rf"{MODEL}:1 batch=\d+: (compiled|stays on eager \((\w+)\))")


class Net(nn.Module):
    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(16, 256), activation, nn.Linear(256, 4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": self.net(x)}


PROGRAMS = {"relu": nn.ReLU(), "tanh": nn.Tanh()}


def answers(name: str) -> dict[int, np.ndarray]:
    """By the number of rows."""
    module = Net(PROGRAMS[name]).eval()
    with torch.no_grad():
        return {count: module(torch.from_numpy(rows(count)))["y"].numpy() for count in SIZES}


def export(name: str, path: Path) -> None:
    dynamic = ({0: Dim("batch", min=1, max=64)},)
    program = torch.export.export(Net(PROGRAMS[name]).eval(), (torch.zeros(2, 16),), dynamic_shapes=dynamic)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, path)


def write_repository(root: Path, program: Path) -> Path:
    (root / MODEL / "1").mkdir(parents=True)
    shutil.copy(program, root / MODEL / "1/model.pt2")
    yaml = {"max_batch_size": BUCKETS[-1], "buckets": {"batch": BUCKETS}}
    (root / MODEL / "model.yaml").write_text(json.dumps(yaml))  # JSON is YAML
    return root


@dataclass
class Outcome:
    """Of all schedules so far."""

    schedules: int = 0
    answers: int = 0
    did: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Golden:
    """Both programs, and what the real compiler makes of them."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.cache = cache
        self.programs = {name: folder / f"{name}.pt2" for name in PROGRAMS}
        self.right = {name: answers(name) for name in PROGRAMS}
        self.keys: dict[str, list[str]] = {}  # in the order of the buckets
        for name, path in self.programs.items():
            export(name, path)
            root = write_repository(folder / f"of-{name}", path)
            warm_up(root, self.cache, "--no-promotion-checks").check_returncode()
            plan = [str(STOKERCTL), "--json", f"--cache={cache}", "plan", f"--model-repository={root}"]
            done = subprocess.run(plan, capture_output=True, text=True, check=True)
            self.keys[name] = [bucket["key"] for bucket in json.loads(done.stdout)["buckets"]]

    def entry(self, key: str) -> Path:
        return self.cache / "v1/entries" / key[:2] / key

    def other(self, key: str) -> str:
        """The key of the other program's artifact for the same bucket."""
        (here, there) = sorted(self.keys.values(), key=lambda keys: key not in keys)
        return there[here.index(key)]


class Asker:
    """Asks a server without a pause, and remembers answers that are no program's."""

    def __init__(self, port: int, world: World) -> None:
        self.count = 0
        self.wrong: list[str] = []
        self._world = world
        self._port = port
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        draw = random.Random(self._port)
        with triton.InferenceServerClient(f"127.0.0.1:{self._port}") as client:
            while not self._ends.wait(0.005):
                size = draw.choice(SIZES)
                allowed = self._world.allowed
                # Killed, not ready yet, or on its way out: that is no answer.
                with suppress(InferenceServerException):
                    y = infer(client, rows(size), MODEL, client_timeout=20)
                    self.count += 1
                    right = self._world.golden.right
                    if not any(is_right(y, right[name][size]) for name in allowed | self._world.allowed):
                        self.wrong.append(f"{size} rows, {' or '.join(allowed)} expected, got {y.tolist()}")


def is_right(y: np.ndarray, right: np.ndarray) -> bool:
    return y.shape == right.shape and np.allclose(y, right, atol=1e-4)


class Server:
    """One of the two: a daemon, what asks it, and its time of day."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._clock = world.folder / f"{name}.clock"
        self._clock.write_bytes(bytes(8))
        self._log = world.folder / f"{name}.log"
        self._lives = 0
        self.daemon: Daemon
        self.asker: Asker
        self.launch()

    def launch(self) -> None:
        self._lives += 1
        world = self._world
        self.daemon = world.stack.enter_context(
            Daemon(
                world.repository, world.cache, self._log.with_suffix(f".{self._lives}.log"),
                "--repository-poll-seconds=0.25", f"--compiler-python={world.compiler}", *world.arguments,
                environment={**os.environ, "LD_PRELOAD": str(world.library), "STEPPING_CLOCK": str(self._clock)},
            )
        )  # fmt: skip
        self.asker = Asker(self.daemon.port, world)

    def end(self, kill: bool) -> None:
        """Raises AssertionError where it had ended by itself."""
        ended = self.daemon.ended()
        self.asker.end()
        if kill:
            self.daemon.kill()
        self.daemon.close()
        self._world.take(self)
        assert not ended, f"a server ended by itself: {self.daemon.log()[-2000:]}"

    def set_ahead(self, seconds: float) -> None:
        with open(self._clock, "r+b", buffering=0) as file:
            file.write(struct.pack("=q", int(seconds * 1e9)))


class World:
    """A repository, a cache, and two servers of both."""

    def __init__(
        self, folder: Path, golden: Golden, library: Path, real: bool, arguments: Sequence[str], outcome: Outcome,
        stack: ExitStack,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.golden = golden
        self.library = library
        self.arguments = arguments
        self.outcome = outcome
        self.stack = stack
        self.lies = "relu"
        self.allowed = {self.lies}  # programs that may answer
        self.repository = write_repository(folder / "models", golden.programs[self.lies])
        self.cache = folder / "cache"
        self.compiler = Path(sys.executable)
        if not real:
            self.compiler = folder / "stand-in"
            stand_in(self.compiler, "fake_worker.py", "--job", "copied", "--golden", str(golden.cache))
        self.servers = [Server(self, name) for name in ("one", "two")]

    def take(self, server: Server) -> None:
        """What it has answered and decided."""
        self.outcome.answers += server.asker.count
        self.outcome.faults += [f"schedule {self.outcome.schedules}: {wrong}" for wrong in server.asker.wrong]
        for compiled, reason in JUDGED.findall(server.daemon.log()):
            self.outcome.judged["promoted" if compiled == "compiled" else reason] += 1

    def play(self, draw: random.Random) -> None:
        for _ in range(STEPS):
            action = draw.choice(ACTIONS)
            if getattr(self, f"_{action}")(draw):
                self.outcome.did[action] += 1
            time.sleep(draw.uniform(0, MOMENT))
        self.settle()

    def settle(self) -> None:
        """Waits until both servers answer as the program does that lies there, and looks once more then."""
        looked = [server.daemon.metric(POLLS) for server in self.servers]
        for server, before in zip(self.servers, looked):
            server.daemon.wait_ready(SETTLE_SECONDS)
            # What answers may be the program before the one before: that one may still be loading.
            taken_up = partial(self._has_taken_up, server, before)
            assert wait_until(taken_up, SETTLE_SECONDS, 0.05), f"still loading after {SETTLE_SECONDS} s"
            with server.daemon.client() as client:
                asker = server.asker
                settled = partial(self._is_settled, client, asker)
                assert wait_until(settled, SETTLE_SECONDS, 0.05), f"not {self.lies} within {SETTLE_SECONDS} s"
                assert not asker.wrong, asker.wrong[0]

        self.allowed = {self.lies}

    def _has_taken_up(self, server: Server, looked: float) -> bool:
        """Whether the server has looked at the repository since, from beginning to end, and has nothing to load."""
        daemon = server.daemon
        loading = sum(daemon.metric("stoker_model_state", state=state) for state in ("new", "loading", "warming"))
        return daemon.metric(POLLS) >= looked + 2 and loading == 0

    def _is_settled(self, client: triton.InferenceServerClient, asker: Asker) -> bool:
        """Also where that is no use any more."""
        try:
            return bool(asker.wrong) or all(
                is_right(infer(client, rows(size), MODEL, client_timeout=20), self.golden.right[self.lies][size])
                for size in SIZES
            )
        except InferenceServerException:
            return False

    def _replace(self, draw: random.Random) -> bool:
        (self.lies,) = PROGRAMS.keys() - {self.lies}
        self.allowed = set(PROGRAMS)  # until the servers have taken it up
        beside = self.folder / "beside"
        shutil.copy(self.golden.programs[self.lies], beside)
        beside.rename(self.repository / MODEL / "1/model.pt2")
        return True

    def _kill(self, draw: random.Random) -> bool:
        server = draw.choice(self.servers)
        server.end(kill=True)
        server.launch()
        return True

    def _push(self, draw: random.Random) -> bool:
        key = draw.choice([key for keys in self.golden.keys.values() for key in keys])
        pushed = self.folder / "pushed"
        shutil.copytree(self.golden.entry(self.golden.other(key)), pushed)
        manifest = json.loads((pushed / "manifest.json").read_text())
        text = json.dumps({**manifest, "key": key})
        (pushed / "manifest.json").write_text(text)
        (pushed / "manifest.sha256").write_text(f"{hashlib.sha256(text.encode()).hexdigest()}  manifest.json\n")
        entry = self.cache / "v1/entries" / key[:2] / key
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        gone = self.folder / "gone"
        try:
            with suppress(FileNotFoundError):
                entry.rename(gone)
            pushed.rename(entry)
        except OSError:  # a server was faster
            shutil.rmtree(pushed)
            return False
        finally:
            shutil.rmtree(gone, ignore_errors=True)
        return True

    def _evict(self, draw: random.Random) -> bool:
        there = sorted(path.name for path in (self.cache / "v1/entries").glob("*/*"))
        if not there:
            return False
        remove = [str(STOKERCTL), f"--cache={self.cache}", "cache", "rm", draw.choice(there)]
        return subprocess.run(remove, capture_output=True).returncode == 0

    def _step(self, draw: random.Random) -> bool:
        draw.choice(self.servers).set_ahead(draw.uniform(-48, 48) * HOURS)
        return True

    def _wait(self, draw: random.Random) -> bool:
        return True


def stepping_clock(folder: Path) -> Path:
    library = folder / "stepping_clock.so"
    source = FAKES / "stepping_clock.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def run(
    schedules: int, golden_cache: Path | None = None, seed: int = 1, real: bool = False,
    arguments: Sequence[str] = (), actions: Sequence[str] = (),
) -> Outcome:  # fmt: skip
    """Plays each on servers and a cache that the one before has left, but after a fault. `golden_cache`: where the
    real compiler's artifacts are, filled first where it lacks some. `actions`: these, in this order, in place of random
    ones."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="schedules-") as name:
        folder = Path(name)
        golden = Golden(folder, golden_cache or folder / "golden")
        library = stepping_clock(folder)
        draw = random.Random(seed)
        while outcome.schedules < schedules and len(outcome.faults) < 5:
            home = Path(tempfile.mkdtemp(prefix="world-", dir=folder))
            with ExitStack() as stack:
                world = World(home, golden, library, real, arguments, outcome, stack)
                try:
                    world.settle()
                    while outcome.schedules < schedules:
                        outcome.schedules += 1
                        for action in actions:
                            getattr(world, f"_{action}")(draw)
                        if actions:
                            world.settle()
                        else:
                            world.play(draw)
                        show(outcome, schedules)
                except Exception as error:
                    outcome.faults.append(f"schedule {outcome.schedules}: {type(error).__name__}: {error}")
                for server in world.servers:
                    with suppress(AssertionError):
                        server.end(kill=False)
            shutil.rmtree(home, ignore_errors=True)
    return outcome


def show(outcome: Outcome, schedules: int) -> None:
    line = f"{outcome.schedules} of {schedules} schedules, {len(outcome.faults)} faults"
    progress.show(line, outcome.schedules, schedules)


def main() -> None:
    parser = argparse.ArgumentParser(description="Random schedules of two servers and a cache; see the module's text.")
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="compile for real")
    options = parser.parse_args()
    outcome = run(options.schedules, seed=options.seed, real=options.real)
    print(f"{outcome.answers} answers; " + ", ".join(f"{action} {outcome.did[action]}" for action in ACTIONS))
    print("buckets: " + ", ".join(f"{what} {count}" for what, count in outcome.judged.most_common()))
    for fault in outcome.faults:
        print(fault)
    sys.exit(1 if outcome.faults else 0)


if __name__ == "__main__":
    main()
