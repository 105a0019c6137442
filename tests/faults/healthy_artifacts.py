"""Compiles random programs as they should be, and counts those that the parity check refuses.

    python -m tests.faults.healthy_artifacts --count 200 --folder FOLDER

What is refused is a false alarm: the artifacts are healthy. Whether they are faster does not matter
here. Progress is kept in FOLDER: a run that was cut off goes on where it was, and another --count
adds to it. Ends with the programs that were refused, each with its number, and how many that are.
Exit code 1 when there is one, or one could not be compiled.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from loadtest.servers.stokerd import warm_up
from tests.faults.random_programs import VOCABULARY, program

AT_ONCE = 10  # programs of one daemon: a worker's start costs as much as two compiles
LIMIT_SECONDS = 3600
SETTLED = re.compile(
    r"p(\d+):1 batch=\d+: (?:(compiled), max error (\S+),.*|stays on eager \((\w+)\): (.*))$", re.MULTILINE
)


@dataclass(frozen=True)
class Outcome:
    """Of one program. `reason` is "compiled", or why the bucket stayed on eager."""

    number: int
    program: str
    reason: str
    detail: str

    @property
    def is_false_alarm(self) -> bool:
        return self.reason == "parity"

    @property
    def is_checked(self) -> bool:
        """Whether the parity check has judged it."""
        return self.reason in ("compiled", "parity", "profit")


def write(number: int, repository: Path) -> str:
    """Adds the program to a repository; returns what it is."""
    made = program(number)
    path = repository / f"p{number}/1/model.pt2"
    path.parent.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(made.module, made.args, dynamic_shapes=made.dynamic_shapes)
    torch.export.save(exported, path)
    yaml: dict[str, object] = {"max_batch_size": made.batch, "buckets": {"batch": [made.batch]}}
    if not made.args[0].dtype.is_floating_point:
        yaml["inputs"] = {"x": {"range": [0, VOCABULARY - 1]}}
    (path.parents[1] / "model.yaml").write_text(json.dumps(yaml))  # JSON is YAML
    return made.described


def write_all(numbers: Iterable[int], repository: Path) -> dict[int, str]:
    """Writes a repository of these programs; returns what each of them is."""
    return {number: write(number, repository) for number in numbers}


def check(described: dict[int, str], repository: Path, cache: Path) -> list[Outcome]:
    """Compiles and checks the programs of a repository with one daemon."""
    done = warm_up(repository, cache, seconds=LIMIT_SECONDS)
    text = done.stdout + done.stderr
    outcomes = {}
    for number, compiled, error, reason, why in SETTLED.findall(text):
        detail = f"max error {error}" if compiled else why[:300]
        # The last word counts: what a busy host made look slow is timed again.
        outcomes[int(number)] = Outcome(int(number), described[int(number)], compiled or reason, detail)
    missing = described.keys() - outcomes.keys()
    if missing:
        raise RuntimeError(f"nothing is said of {sorted(missing)}:\n{text[-4000:]}")
    return list(outcomes.values())


def run(count: int, folder: Path) -> list[Outcome]:
    """The outcomes of programs 0 to `count` - 1, those of earlier runs in the folder included."""
    journal = folder / "outcomes.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    lines = journal.read_text().splitlines() if journal.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    known = {outcome.number for outcome in outcomes}
    pending = [number for number in range(count) if number not in known]
    for start in range(0, len(pending), AT_ONCE):
        work = folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        described = write_all(pending[start : start + AT_ONCE], work)
        new = check(described, work, folder / "kernels")
        with open(journal, "a") as file:
            file.writelines(json.dumps(asdict(outcome)) + "\n" for outcome in new)
        outcomes += new
        print(f"{len(outcomes)} of {count} programs: {tally(outcomes)}", flush=True)
    return [outcome for outcome in outcomes if outcome.number < count]


def tally(outcomes: list[Outcome]) -> str:
    counts = Counter(outcome.reason for outcome in outcomes)
    return ", ".join(f"{count} {reason}" for reason, count in counts.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description="Count healthy artifacts that the parity check refuses.")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--folder", type=Path, required=True, help="progress, kept between runs")
    options = parser.parse_args()
    outcomes = run(options.count, options.folder)
    wrong = [outcome for outcome in outcomes if outcome.is_false_alarm or not outcome.is_checked]
    for outcome in sorted(wrong, key=lambda outcome: outcome.number):
        print(f"p{outcome.number} ({outcome.program})\n    {outcome.reason}: {outcome.detail}")
    alarms = sum(outcome.is_false_alarm for outcome in outcomes)
    checked = sum(outcome.is_checked for outcome in outcomes)
    left = len(outcomes) - checked
    print(f"{alarms} of {checked} healthy artifacts were refused; {left} were not compiled")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
