"""Precompiled headers that an installation makes once, for all caches.

    python -m compiler.worker.headers [--march LEVEL ...] [--check]

makes them in the Python environment, for this machine unless another level of x86-64 is named, as a container's image
does for machines to come; --check only says, by exit code 1, that some are missing. A cache of its own would spend 12 s
of a core on them when its first program is compiled. Who made none loses that time, and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

from compiler.job import toolchain

COMPILER = Path(__file__).resolve().parents[1]
MADE = Path(sys.prefix) / "share/stoker/headers"
# Of the folder of one compiler: whose it is, and of one level's: what it was made with.
OWNER, STAMP = "compiler", "made-with"
USED = (".h", ".gch", ".o")  # the object's source is written anew by each job


def link(scratch: Path, made: Path = MADE) -> None:
    """Has a cache's scratch folder show the headers that it lacks. Those that don't fit what compiles now have other
    names than Inductor looks for."""
    for level in toolchain.LEVELS:
        for made_for in _levels(level, made):
            folder = scratch / "headers" / made_for.name
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for file in made_for.iterdir():
                with contextlib.suppress(FileExistsError):
                    if file.suffix in USED:
                        (folder / file.name).symlink_to(file)


def make(march: str, made: Path = MADE) -> str:
    """What was done, for people. The folder appears when it is whole."""
    if is_there(march, made):
        return "already there"
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoker-headers-") as temporary:
        scratch = Path(temporary) / "scratch"
        toolchain.prepare_environment(scratch)
        toolchain.select_target(march, toolchain.LEVELS[march], scratch)
        from torch._inductor import codecache

        _prewarm(scratch, march)
        new = Path(tempfile.mkdtemp(dir=_prepared(made), prefix="."))
        new.chmod(0o755)
        for file in Path(codecache._HEADER_DIR).iterdir():
            if file.is_file():
                shutil.copy(file, new)
        (new / STAMP).write_text(_stamp())
        for old in _levels(march, made):
            shutil.rmtree(old, ignore_errors=True)
        new.rename(_own(made) / Path(codecache._HEADER_DIR).name)
    return f"made in {time.monotonic() - begun:.0f} s"


def is_there(march: str, made: Path = MADE) -> bool:
    """Whether they were made, and with what is here now."""
    return any(stamp.read_text() == _stamp() for level in _levels(march, made) if (stamp := level / STAMP).exists())


def _levels(march: str, made: Path) -> list[Path]:
    """The folders of a level, whose names end with a digest (compiler/job/toolchain.py)."""
    return list(_own(made).glob(f"{march}-????????"))


def _own(made: Path) -> Path:
    """Where those of this compiler lie: the path of its g++ is in their names."""
    return made / hashlib.sha256(str(COMPILER).encode()).hexdigest()[:8]


def _prepared(made: Path) -> Path:
    """The folder, made; those of compilers that are gone go."""
    own = _own(made)
    own.mkdir(parents=True, exist_ok=True)
    (own / OWNER).write_text(str(COMPILER))
    for other in made.iterdir():
        with contextlib.suppress(OSError):
            if not Path((other / OWNER).read_text()).exists():
                shutil.rmtree(other, ignore_errors=True)
    return own


def _stamp() -> str:
    python = ".".join(map(str, sys.version_info[:3]))
    wrapper = hashlib.sha256(toolchain.WRAPPER.read_bytes()).hexdigest()
    return f"{toolchain.compiler_version()}\n{wrapper}\ntorch {metadata.version('torch')}\nPython {python}\n"


def _prewarm(scratch: Path, march: str) -> None:
    from compiler.worker.prewarm import prewarm

    work = scratch / "work"
    work.mkdir()
    pid = prewarm(scratch, work, march)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError(f"the headers' process ended with {os.waitstatus_to_exitcode(status)}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compiler.worker.headers", description=str(__doc__).splitlines()[0])
    parser.add_argument("--march", action="append", choices=[*toolchain.LEVELS], help="a level (this machine's)")
    parser.add_argument("--check", action="store_true", help="make none, exit with 1 where some are missing")
    options = parser.parse_args(arguments)
    levels = options.march or [toolchain.host_target()[0]]
    if options.check:
        return 0 if all(map(is_there, levels)) else 1
    for march in levels:
        print(f"precompiled headers for {march}: {make(march)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
