"""Takes 163 programs through export, eager serving, compilation and timing, and says what became of each.

    python -m loadtest.coverage [NAME ...] [--sample N --seed S] [--no-compile] [--jobs N] [--folder FOLDER] [--again]
                                [--output FILE]

Each result is kept in FOLDER, as long as the program's definition and the daemon's build stay the same: a run that
was killed goes on where it was. Prints one table; writes JSON and, beside it, an HTML page when all programs were
asked for or --output is given. Exit code 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import random
import signal
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from loadtest.circumstances import REPOSITORY, commit, machine, stoker_home, torch_version
from loadtest.coverage import stages
from loadtest.coverage.outcome import GOALS, Result, Summary
from loadtest.coverage.page import page
from loadtest.coverage.program import Program
from loadtest.coverage.programs import PROGRAMS
from loadtest.coverage.table import as_json, render, shortened
from loadtest.environments import Environment, InstallError, show_project
from loadtest.servers.process import wait_until
from loadtest.servers.stokerd import STOKERD

REQUIREMENTS = Path(__file__).parent / "requirements/models.txt"
REBUILD_SECONDS = 900
RETRIES = 2
AT_ONCE = 41  # programs in the daemon that compiles ahead; the last of them leave a core idle
MODULES = ("diffusers", "torchaudio", "timm", "torchvision", "transformers")


def build_of_daemon() -> str:
    """Changes with stokerd and with the compiler's Python. Waits where stokerd is just being built."""
    wait_until(STOKERD.exists, REBUILD_SECONDS, 1)
    files = (STOKERD, *sorted((REPOSITORY / "compiler").rglob("*.py")))
    return _digest(tuple((path, path.stat().st_mtime_ns) for path in files))


@functools.lru_cache(1)
def _digest(files: tuple[tuple[Path, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _ in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def kept(program: Program, folder: Path, build: str) -> Result | None:
    """The result of an earlier run, if it still holds."""
    path = folder / program.name / "result.json"
    if not path.exists():
        return None
    result = Result.from_json(json.loads(path.read_text()))
    return result if (result.definition, result.build) == (program.definition, build) else None


def keep(result: Result, folder: Path) -> None:
    path = folder / result.name / "result.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result.as_json(), indent=1) + "\n")
    partial.rename(path)


def serve_eager(programs: Sequence[Program], folder: Path, python: Path) -> list[Result]:
    """Whether each is exported and answers as in PyTorch, which takes seconds and no quiet machine. Nothing is kept but
    the exported programs."""
    results = []
    for place, program in enumerate(programs, 1):
        own = folder / program.name
        result = stages.run(program, own, folder / "kernels", python, build_of_daemon(), compiled=False)
        results.append(result)
        say(place, len(programs), result, f"{result.seconds:.0f} s")
    return results


def compile_ahead(programs: Sequence[Program], folder: Path, python: Path, jobs: int) -> None:
    """Fills the kernel cache, `jobs` compiles at a time."""
    for first in range(0, len(programs), AT_ONCE):
        some = programs[first : first + AT_ONCE]
        start = time.monotonic()
        own = [(program, folder / program.name) for program in some]
        stages.compile_ahead(own, folder / "ahead", folder / "kernels", python, jobs)
        names = ", ".join(program.name for program in some)
        done = f"{first + len(some)}/{len(programs)}"
        print(f"compiled ahead {done}  {time.monotonic() - start:.0f} s  {names}", file=sys.stderr, flush=True)


def say(place: int, of: int, result: Result, how: str) -> None:
    ratio = f"  {result.ratio:.2f} ×" if result.ratio else ""
    why = f"  {shortened(result.reason)}" if result.reason else ""
    print(f"{place}/{of}  {result.name}: {result.outcome}{ratio}, {how}{why}", file=sys.stderr, flush=True)


def run(programs: Sequence[Program], folder: Path, python: Path, again: bool) -> list[Result]:
    """Results in the programs' order; progress goes to stderr."""
    results = []
    for place, program in enumerate(programs, 1):
        build = build_of_daemon()
        result = None if again else kept(program, folder, build)
        how = "kept"
        if result is None:
            result = stages.run(program, folder / program.name, folder / "kernels", python, build)
            for _ in range(RETRIES):
                build, before = build_of_daemon(), build
                if build == before:
                    break  # else it was rebuilt meanwhile, and whose figures these are nobody knows
                result = stages.run(program, folder / program.name, folder / "kernels", python, build)
            keep(result, folder)
            how = f"{result.seconds:.0f} s"
        results.append(result)
        say(place, len(programs), result, how)
    return results


def chosen(names: Sequence[str], sample: int | None, seed: int) -> list[Program]:
    """In an order that mixes families, so that what there is after an hour speaks for all."""
    programs = [program for program in PROGRAMS.values() if not names or program.name in names]
    random.Random(seed).shuffle(programs)
    return programs if sample is None else programs[:sample]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.coverage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="by default all")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the order and the sample")
    parser.add_argument("--folder", type=Path, default=stoker_home() / "coverage",
                        help="programs, results, logs and the kernel cache; kept")  # fmt: skip
    parser.add_argument("--no-compile", action="store_true",
                        help="export and eager serving alone: half an hour for all, on any machine")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, metavar="N",
                        help="compile so many programs at a time, all before the first figure is taken")  # fmt: skip
    parser.add_argument("--again", action="store_true", help="don't take results of earlier runs")
    parser.add_argument("--output", type=Path, help="JSON file for the figures; the page lies beside it")
    parser.add_argument("--list", action="store_true", help="name the programs and exit")
    parsed = parser.parse_args(arguments)
    unknown = sorted(set(parsed.names) - PROGRAMS.keys())
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}")
    return parsed


def write(results: Sequence[Result], output: Path, versions: dict[str, str]) -> None:
    output.write_text(json.dumps(as_json(results, versions), indent=1) + "\n")
    about = f"{date.today()}, commit {commit()[:12]}, torch {torch_version()}, {machine()['processor']}, "
    output.with_suffix(".html").write_text(page(results, f"{about}{machine()['cores']} cores"))
    print(f"{output} and {output.with_suffix('.html').name} written", file=sys.stderr)


def main() -> int:
    arguments = parse(sys.argv[1:])
    programs = chosen(arguments.names, arguments.sample, arguments.seed)
    if arguments.list:
        for program in sorted(programs, key=lambda each: (each.family, each.name)):
            print(f"{program.family:20} {program.name}")
        return 0
    # As an exception, so that no daemon outlives this.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    environment = Environment(REQUIREMENTS, stoker_home() / "coverage-environments")
    try:
        said = environment.install(lambda new: show_project(new, MODULES))
    except InstallError as error:
        print(f"the models' packages can't be installed: {error}", file=sys.stderr)
        return 2
    print(f"models' packages: {said}", file=sys.stderr, flush=True)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.no_compile:
        results = serve_eager(programs, arguments.folder, environment.python)
        print(render(results))
        return 0 if Summary.of(results).serve == len(results) else 1
    if arguments.jobs > 1:
        build = build_of_daemon()
        needed = [one for one in programs if arguments.again or kept(one, arguments.folder, build) is None]
        compile_ahead(needed, arguments.folder, environment.python, arguments.jobs)
    results = run(programs, arguments.folder, environment.python, arguments.again)
    print(render(results))
    output = arguments.output
    if output is None and len(programs) == len(PROGRAMS):
        output = REPOSITORY / f"loadtest/results/coverage_{date.today().isoformat()}.json"
    if output is not None:
        write(results, output, environment.pins())
    summary = Summary.of(results)
    reached = summary.serve == len(results) and summary.promote >= GOALS["promote"] * len(results)
    return 0 if reached and not summary.slower else 1


if __name__ == "__main__":
    sys.exit(main())
