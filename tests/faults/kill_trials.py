"""Kills daemons that fill one cache at random moments, and looks at what they leave.

    python -m tests.faults.kill_trials --trials 1000

Each trial gives an empty cache to several daemons (`--warm-only`), kills some of them (SIGKILL) at
moments drawn from the time that a warm-up takes, and lets the others finish; then one more daemon
finishes what is left. A trial holds when

* no daemon ever found a damaged entry, and `stokerctl cache verify` finds none;
* every entry that any daemon had committed is there at the end;
* at the end there is one entry for each key, and no key was committed twice.

The compiler is a stand-in that copies artifacts which the real one made once (--real: the real one,
at half a minute a trial).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loadtest.servers.process import ServerProcess
from loadtest.servers.stokerd import STOKERCTL, command, warm_up
from tests import models
from tests.fakes.stand_in import stand_in
from tests.faults import progress

BUCKETS = [1, 2, 4, 8]
COMMITTED = re.compile(r"cache entry ([0-9a-f]{12}) committed")
DAMAGED = re.compile(r".*cache entry .*(?:set aside|damaged|passed over|unusable|can't be read).*")
LIMIT_SECONDS = 300


@dataclass
class Outcome:
    """Of all trials so far."""

    trials: int = 0
    kills: int = 0
    killed_with_work_staged: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Setup:
    repository: Path
    golden: Path
    daemons: int
    real: bool
    folder: Path

    def compiler(self) -> str:
        """The value of --compiler-python."""
        if self.real:
            return sys.executable
        script = self.folder / "stand-in"
        if not script.exists():
            stand_in(script, "fake_worker.py", "--job", "copied", "--golden", str(self.golden))
        return str(script)

    def command(self, cache: Path) -> list[str]:
        flags = ["--warm-only", "--no-promotion-checks", f"--compiler-python={self.compiler()}"]
        return command(self.repository, cache, *flags)


@contextmanager
def daemons(setup: Setup, cache: Path, count: int) -> Iterator[list[ServerProcess]]:
    """Running daemons; ended with the block."""
    with ExitStack() as running:
        started = []
        for _ in range(count):
            handle, name = tempfile.mkstemp(prefix="log-", dir=cache.parent)
            os.close(handle)
            daemon = ServerProcess(setup.command(cache), Path(name), grace_seconds=0)
            started.append(running.enter_context(daemon))
        yield started


def trial(setup: Setup, generator: random.Random, span: float, outcome: Outcome) -> None:
    """One trial; `span` is how long an undisturbed warm-up takes."""
    folder = Path(tempfile.mkdtemp(prefix="trial-", dir=setup.folder))
    cache = folder / "cache"
    logs = []
    kills = sorted(
        (generator.uniform(0, span), victim)
        for victim in generator.sample(range(setup.daemons), generator.randint(1, setup.daemons))
    )
    start = time.monotonic()
    with daemons(setup, cache, setup.daemons) as running:
        logs += [daemon.log_path for daemon in running]
        for moment, victim in kills:
            time.sleep(max(0.0, start + moment - time.monotonic()))
            if not running[victim].ended():
                staging = cache / "v1/staging"
                outcome.killed_with_work_staged += staging.exists() and any(staging.iterdir())
                running[victim].process.kill()
                outcome.kills += 1
        for daemon in running:
            daemon.process.wait(LIMIT_SECONDS)
    with daemons(setup, cache, 1) as (last,):
        logs.append(last.log_path)
        code = last.process.wait(LIMIT_SECONDS)

    text = "".join(log.read_text(errors="replace") for log in logs)
    faults = []
    if code != 0:
        faults.append(f"the last daemon ended with {code}")
    faults += [f"a daemon found damage: {line.strip()}" for line in DAMAGED.findall(text)]
    committed = Counter(COMMITTED.findall(text))
    faults += [f"{key} was committed {times} times" for key, times in committed.items() if times > 1]
    left = {path.name[:12] for path in (cache / "v1/entries").glob("*/*")}
    faults += [f"{key} was committed and is lost" for key in committed.keys() - left]
    if len(left) != len(BUCKETS):
        faults.append(f"{len(left)} entries, expected {len(BUCKETS)}")
    verify = subprocess.run(
        [STOKERCTL, "--cache", cache, "cache", "verify"], capture_output=True, text=True
    )
    if verify.returncode != 0:
        faults.append(f"stokerctl: {verify.stdout}{verify.stderr}")
    outcome.trials += 1
    if faults:
        outcome.faults += [f"trial {outcome.trials} (kept in {folder}): {fault}" for fault in faults]
    else:
        shutil.rmtree(folder)


def write_repository(folder: Path) -> Path:
    """A repository with one model of four buckets."""
    root = folder / "models"
    models.write("mlp", root)
    yaml = {"max_batch_size": BUCKETS[-1], "buckets": {"batch": BUCKETS}}
    (root / "mlp/model.yaml").write_text(json.dumps(yaml))  # JSON is YAML
    return root


def run(trials: int, golden: Path, seed: int = 1, count: int = 4, real: bool = False) -> Outcome:
    """`golden` is a kernel cache, filled first where it lacks something."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="kill-trials-") as name:
        setup = Setup(write_repository(Path(name)), golden, count, real, Path(name))
        warm_up(setup.repository, golden, "--no-promotion-checks").check_returncode()
        begun = time.monotonic()
        with daemons(setup, Path(name) / "undisturbed", count) as running:
            codes = [daemon.process.wait(LIMIT_SECONDS) for daemon in running]
        assert codes == [0] * count, codes
        span = time.monotonic() - begun
        generator = random.Random(seed)
        for _ in range(trials):
            trial(setup, generator, span, outcome)
            show(outcome, trials)
        if outcome.faults:
            shutil.copytree(name, Path(name + "-kept"))
    return outcome


def show(outcome: Outcome, trials: int) -> None:
    line = (
        f"{outcome.trials} of {trials} trials, {outcome.kills} daemons killed, "
        f"{outcome.killed_with_work_staged} of them with work staged, {len(outcome.faults)} faults"
    )
    progress.show(line, outcome.trials, trials)


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill daemons that fill one cache; see the module's text.")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--daemons", type=int, default=4)
    parser.add_argument("--golden", type=Path, help="kernel cache to copy from; filled first")
    parser.add_argument("--real", action="store_true", help="compile for real in every trial")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as fresh:
        golden = options.golden or Path(fresh) / "golden"
        outcome = run(options.trials, golden, options.seed, options.daemons, options.real)
    for fault in outcome.faults:
        print(fault)
    sys.exit(1 if outcome.faults else 0)


if __name__ == "__main__":
    main()
