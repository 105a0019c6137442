"""Damages one entry of a kernel cache, byte by byte, and asks whether anybody notices.

    python -m tests.faults.damaged_entries --cache FOLDER --flips 3000

Takes the first entry (or --key) into a cache of its own. Every byte of its small files, and as many
bytes as asked for, spread over the large ones, are changed in one bit or cut off from there, one at a
time; each time `stokerctl cache verify` has to set the entry aside. It uses the check that stokerd
makes before it opens an artifact.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.integration.daemon import STOKERCTL

SMALL_BYTES = 256  # files up to this size: every byte
DAMAGED = 1  # exit code of `cache verify`


@dataclass(frozen=True)
class Damage:
    """What becomes of one file."""

    file: str
    at: int
    bit: int | None  # None: the file ends here

    def applied(self, content: bytes) -> bytes:
        if self.bit is None:
            return content[: self.at]
        spoiled = bytearray(content)
        spoiled[self.at] ^= 1 << self.bit
        return bytes(spoiled)


def damages(entry: Path, flips: int, generator: random.Random) -> Iterator[Damage]:
    """Every byte of small files; of the others as many as asked for, by their share of the bytes."""
    files = sorted(path for path in entry.iterdir() if path.is_file())
    large = sum(path.stat().st_size for path in files if path.stat().st_size > SMALL_BYTES)
    for path in files:
        size = path.stat().st_size
        places: Sequence[int] = range(size)
        if size > SMALL_BYTES:
            places = generator.sample(places, min(size, max(200, flips * size // large)))
        for at in places:
            yield Damage(path.name, at, generator.randrange(8) if generator.random() < 0.8 else None)


def verify(cache: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [STOKERCTL, "--cache", cache, "cache", "verify"]
    return subprocess.run(command, capture_output=True, text=True)


def run(source: Path, key: str, flips: int, seed: int = 1) -> tuple[Counter[str], list[Damage]]:
    """Counts of tries by file, and the damages that nobody noticed."""
    generator = random.Random(seed)
    tries: Counter[str] = Counter()
    missed = []
    with tempfile.TemporaryDirectory(prefix="damaged-") as name:
        cache = Path(name)
        good = min(source.glob(f"v1/entries/*/{key}*"))
        entry = cache / "v1/entries" / good.parent.name / good.name
        shutil.copytree(good, entry)
        healthy = verify(cache)
        assert healthy.returncode == 0, healthy.stdout + healthy.stderr
        for damage in damages(good, flips, generator):
            victim = entry / damage.file
            victim.unlink()  # whatever its permissions are
            victim.write_bytes(damage.applied((good / damage.file).read_bytes()))
            noticed = verify(cache).returncode == DAMAGED and not entry.exists()
            tries[damage.file] += 1
            if not noticed:
                missed.append(damage)
            shutil.rmtree(cache / "v1/quarantine", ignore_errors=True)
            shutil.rmtree(entry, ignore_errors=True)
            shutil.copytree(good, entry)
    return tries, missed


def main() -> None:
    parser = argparse.ArgumentParser(description="Damage an entry; see the module's text.")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--key", default="", help="of the entry, or how it begins")
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tries, missed = run(options.cache, options.key, options.flips, options.seed)
    for name, count in sorted(tries.items()):
        print(f"{name:24}{count:7} damages, {sum(damage.file == name for damage in missed)} not noticed")
    for damage in missed:
        print(f"not noticed: {damage}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
