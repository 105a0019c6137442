"""Measures what serves ten models of different kinds against eager, bucket by bucket.

    python -m loadtest.suite [MODEL ...] [--folder FOLDER] [--recheck]

Exports the models into FOLDER, lets stokerd fill the kernel cache there (minutes, the first time),
then measures each model by itself. Prints one table and, when all models were measured, writes
loadtest/results/suite_<date>.json. Exit code 1 when a bucket is served slower than eager by more
than 2 %, or no bucket could be measured.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from loadtest.circumstances import commit, machine, stoker_home, torch_version
from loadtest.servers.process import ServerError
from loadtest.suite import REPO
from loadtest.suite.measure import ALTERNATIONS, LAUNCHES, Bucket, measure
from loadtest.suite.models import MODELS, SuiteModel, write
from loadtest.text_table import aligned, number

HEAD = ("model", "bucket", "tier", "eager ms", "served ms", "ratio", "95 %", "why it stays eager")
LEFT = (0, 1, 2, 6, 7)  # columns of text
WHY_CHARACTERS = 110
GOAL = 1.2


def row(bucket: Bucket) -> tuple[str, ...]:
    """One line of the table."""

    def milliseconds(seconds: Sequence[float]) -> str:
        return number(statistics.median(seconds) * 1e3, 2) if seconds else "–"

    interval = bucket.interval
    spread = f"{interval[0]:.2f}–{interval[1]:.2f}" if interval else "–"
    why = bucket.why if len(bucket.why) <= WHY_CHARACTERS else bucket.why[: WHY_CHARACTERS - 1] + "…"
    if bucket.loses:
        why = "SLOWER THAN EAGER"
    return (
        bucket.model,
        bucket.name,
        bucket.tier,
        milliseconds(bucket.eager_s),
        milliseconds(bucket.served_s),
        number(bucket.ratio, 2),
        spread,
        why,
    )


def render(buckets: Sequence[Bucket]) -> str:
    """The table, a blank line between models, and what it comes to."""
    lines = aligned([HEAD, *map(row, buckets)], LEFT)
    text = [lines[0]]
    for before, bucket, line in zip([None, *buckets], buckets, lines[1:], strict=False):
        if before is None or before.model != bucket.model:
            text.append("")
        text.append(line)
    return "\n".join([*text, "", summary(buckets)])


def summary(buckets: Sequence[Bucket]) -> str:
    """The geometric mean and the losses, in one line."""
    mean = geometric_mean(buckets)
    losses = sum(bucket.loses for bucket in buckets)
    eager = sum(bucket.tier == "eager" for bucket in buckets)
    unmeasured = sum(bucket.ratio is None for bucket in buckets)
    return (
        f"geometric mean {number(mean, 2)} × eager (goal {GOAL}), {losses} of {len(buckets)} buckets slower "
        f"than eager by more than 2 % (goal 0), {eager} served by eager, {unmeasured} not measured"
    )


def geometric_mean(buckets: Sequence[Bucket]) -> float | None:
    """Over the buckets that were measured; one that eager serves counts as 1."""
    ratios = [bucket.counted for bucket in buckets if bucket.counted is not None]
    return statistics.geometric_mean(ratios) if ratios else None


def failed(model: SuiteModel, what: str, error: Exception) -> list[Bucket]:
    """The buckets of a model that could not be measured, with the reason."""
    reason = str(error).strip().splitlines() or [type(error).__name__]
    return [Bucket(model.name, "–", why=f"{what}: {reason[0]}")]


def run(model: SuiteModel, folder: Path, cache: Path, demo: Path) -> list[Bucket]:
    """Exports and measures one model; a failure is a row of the table."""
    own = folder / model.name
    own.mkdir(parents=True, exist_ok=True)
    try:
        write(model, own / "models", demo)
    except Exception as error:
        return failed(model, "not exported", error)
    try:
        return measure(model, own, cache)
    except (AssertionError, ServerError, OSError) as error:
        return failed(model, "not measured", error)


def forget_verdicts(cache: Path) -> None:
    """Has every bucket checked again, as on a new machine; artifacts stay."""
    for half in ("parity", "profit"):
        for note in (cache / "v1").glob(f"notes/**/{half}-*.json"):
            note.unlink()


def as_json(buckets: Sequence[Bucket]) -> dict[str, object]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "commit": commit(),
        "torch": torch_version(),
        "launches": LAUNCHES,
        "alternations": ALTERNATIONS,
        "geometric_mean": geometric_mean(buckets),
        "buckets": [
            {
                "model": bucket.model,
                "bucket": bucket.name,
                "tier": bucket.tier,
                "why": bucket.why,
                "ratio": bucket.ratio,
                "interval_95": bucket.interval,
                "largest_difference": bucket.difference,
                "eager_ms": [round(seconds * 1e3, 4) for seconds in bucket.eager_s],
                "served_ms": [round(seconds * 1e3, 4) for seconds in bucket.served_s],
            }
            for bucket in buckets
        ],
    }


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.suite",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="models:\n" + "\n".join(f"  {model.name:16} {model.what}" for model in MODELS),
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="by default all")
    parser.add_argument(
        "--folder",
        type=Path,
        default=stoker_home() / "suite",
        help="models, logs and the kernel cache; kept",
    )
    parser.add_argument("--demo", type=Path, default=REPO / "models", help="repository with the demo model")
    parser.add_argument("--recheck", action="store_true", help="first forget the verdicts of earlier runs")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    parsed = parser.parse_args(arguments)
    unknown = sorted(set(parsed.models) - {model.name for model in MODELS})
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}")
    return parsed


def main() -> int:
    arguments = parse(sys.argv[1:])
    # As an exception, so that no daemon outlives this.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    cache = arguments.folder / "kernels"
    if arguments.recheck:
        forget_verdicts(cache)
    chosen = [model for model in MODELS if not arguments.models or model.name in arguments.models]
    buckets: list[Bucket] = []
    for place, model in enumerate(chosen, 1):
        print(f"{place}/{len(chosen)}  {model.name}: {model.what}", file=sys.stderr, flush=True)
        found = run(model, arguments.folder, cache, arguments.demo)
        for bucket in found:
            print("    " + "  ".join(row(bucket)[1:]), file=sys.stderr, flush=True)
        buckets += found
    print(render(buckets))
    output = arguments.output
    if output is None and len(chosen) == len(MODELS):
        output = REPO / f"loadtest/results/suite_{date.today().isoformat()}.json"
    if output is not None:
        output.write_text(json.dumps(as_json(buckets), indent=1) + "\n")
        print(f"{output} written", file=sys.stderr)
    measured = any(bucket.ratio is not None for bucket in buckets)
    return 0 if measured and not any(bucket.loses for bucket in buckets) else 1


if __name__ == "__main__":
    sys.exit(main())
