"""Exports one program again and again, each time somebody else somewhere else, and compares the keys.

    python -m tests.faults.same_keys --exports 100

Each export runs in a fresh process with another host name, user id, home, folder, time zone, locale,
seed of hashing, umask, niceness and size of the sample inputs; so does the `stokerctl plan` that tells
the keys. Host names and user ids need user namespaces; it says when there are none.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.integration.daemon import STOKERCTL
from tests.unit.repository.export_digest_test import MODEL

PROGRAM = MODEL.replace("ACTIVATION", "torch.relu")
YAML = "max_batch_size: 4\nbuckets: {batch: [1, 4], Tokens.1: [16]}\n"
SOMEWHERE = 'hostname "$1"; user=$2; shift 2; exec unshare --user --map-user="$user" "$@"'


def has_namespaces() -> bool:
    command = ["unshare", "--map-root-user", "--uts", "sh", "-c", SOMEWHERE, "sh", "elsewhere", "1234", "true"]
    return subprocess.run(command, capture_output=True).returncode == 0


class Somebody:
    """Runs commands as nobody in particular."""

    def __init__(self, generator: random.Random, folder: Path, namespaces: bool) -> None:
        number = generator.randrange(1000, 60000)
        self._prefix = ["nice", f"-n{generator.randrange(10)}"]
        if namespaces:
            self._prefix += ["unshare", "--map-root-user", "--uts", "sh", "-c", SOMEWHERE, "sh"]
            self._prefix += [f"host-{number}", str(number)]
        self._folder = folder
        self._umask = generator.choice([0o022, 0o027, 0o077])
        self._environment = os.environ | {
            "HOME": str(folder),
            "USER": f"user{number}",
            "LOGNAME": f"user{number}",
            "PYTHONHASHSEED": str(number),
            "TZ": generator.choice(["UTC", "Asia/Tokyo", "America/Lima"]),
            "LC_ALL": generator.choice(["C", "C.UTF-8", "POSIX"]),
            "TMPDIR": str(folder),
        }

    def run(self, *command: str | Path) -> str:
        done = subprocess.run(
            [*self._prefix, *command],
            cwd=self._folder, env=self._environment, umask=self._umask, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def keys_of_an_export(generator: random.Random, namespaces: bool) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory(prefix=f"export-{generator.randrange(1 << 40)}-") as name:
        folder = Path(name)
        version = folder / "models/model/1"
        version.mkdir(parents=True)
        (folder / "cache").mkdir(mode=0o700)
        sizes = str(generator.randrange(2, 9)), str(generator.randrange(2, 30))
        who = Somebody(generator, folder, namespaces)
        seed = str(generator.randrange(1 << 30))  # other weights, the same graph
        who.run(sys.executable, "-c", PROGRAM, seed, *sizes, version / "model.pt2")
        (folder / "models/model/model.yaml").write_text(YAML)
        who = Somebody(generator, folder, namespaces)
        plan = who.run(
            STOKERCTL, "--cache", folder / "cache", "--json", "plan", f"--model-repository={folder / 'models'}"
        )
        return tuple(bucket["key"] for bucket in json.loads(plan)["buckets"])


def run(exports: int, seed: int = 1) -> Counter[tuple[str, ...]]:
    """How often each set of keys came."""
    generator = random.Random(seed)
    namespaces = has_namespaces()
    if not namespaces:
        print("no user namespaces here: host name and user id stay the same")
    seen: Counter[tuple[str, ...]] = Counter()
    for count in range(1, exports + 1):
        seen[keys_of_an_export(generator, namespaces)] += 1
        if sys.stdout.isatty() or count % max(1, exports // 10) == 0:
            print(f"{count} of {exports} exports, {len(seen)} different sets of keys", flush=True)
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the keys of many exports; see the module's text.")
    parser.add_argument("--exports", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seen = run(options.exports, options.seed)
    for keys, count in seen.most_common():
        print(f"{count} times: {' '.join(key[:12] for key in keys)}")
    sys.exit(0 if len(seen) == 1 else 1)


if __name__ == "__main__":
    main()
