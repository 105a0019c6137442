"""An artifact that ends the process that runs it ends a child's, not the daemon's."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.clients import check_mlp
from tests.integration.daemon import STOKERCTL, Daemon

# What a library does as soon as it is opened.
DEATHS = {
    "__builtin_trap();": "killed by signal 4 (Illegal instruction)",
    "*(volatile int*)0 = 1;": "killed by signal 11 (Segmentation fault)",
    "_exit(3);": "exit status 3",
}


def make_deadly(cache: Path, statement: str) -> list[str]:
    """Puts another library into every entry, with a manifest that fits; their keys."""
    source = cache.parent / "deadly.c"
    source.write_text(
        f"#include <unistd.h>\n__attribute__((constructor)) static void die(void) {{ {statement} }}\n"
    )
    library = cache.parent / "deadly.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    code = library.read_bytes()
    keys = []
    for manifest in cache.glob("v1/entries/*/*/manifest.json"):
        fields = json.loads(manifest.read_text())
        fields["files"]["model.so"] = {"bytes": len(code), "sha256": hashlib.sha256(code).hexdigest()}
        text = json.dumps(fields)
        (manifest.parent / "model.so").write_bytes(code)
        manifest.write_text(text)
        seal = hashlib.sha256(text.encode()).hexdigest()
        (manifest.parent / "manifest.sha256").write_text(f"{seal}  manifest.json\n")
        keys.append(fields["key"])
    return keys


@pytest.fixture(scope="module")
def filled(
    exported: Callable[[str], Path], kept: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A cache with the two buckets of "mlp" and nothing else."""
    folder = tmp_path_factory.mktemp("filled")
    shutil.copytree(exported("mlp"), folder / "models/mlp")
    with Daemon(folder / "models", kept / "kernels", folder / "log") as daemon:
        daemon.wait_ready()
    command: list[str | Path] = [STOKERCTL, "--cache", kept / "kernels", "cache"]
    models: list[str | Path] = ["--model-repository", folder / "models"]
    subprocess.run([*command, "export", *models, folder / "pack"], check=True)
    command = [STOKERCTL, "--cache", folder / "cache", "cache"]
    subprocess.run([*command, "import", "--allow-unsigned", folder / "pack"], check=True)
    return folder / "cache"


@pytest.mark.parametrize(("statement", "end"), DEATHS.items())
def test_a_deadly_artifact(
    statement: str,
    end: str,
    filled: Path,
    repository: Callable[..., Path],
    start: Callable[..., Daemon],
    tmp_path: Path,
) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(filled, cache)
    keys = make_deadly(cache, statement)
    assert len(keys) == 2
    with start(repository("mlp"), "--no-compile", cache=cache) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        check_mlp(client)
        assert daemon.metric("stoker_bucket_state", state="compiled") == 0
        assert daemon.metric("stoker_fallbacks_total", reason="open") == 2
        assert daemon.metric("stoker_cache_rejections_total", reason="open") == 2
        assert daemon.log().count(f"its first run, in a child process: {end}") >= 2
        assert daemon.children() == []
    for key in keys:
        assert (cache / f"v1/quarantine/{key}.0/reason.txt").exists()


def test_a_child_is_needed_once(
    filled: Path, repository: Callable[..., Path], start: Callable[..., Daemon], tmp_path: Path
) -> None:
    """The first start notes that the artifacts ran here; notes of another machine don't count."""
    cache = tmp_path / "cache"
    shutil.copytree(filled, cache)
    root = repository("mlp")
    for _ in range(2):
        with start(root, "--no-compile", cache=cache) as daemon, daemon.client() as client:
            daemon.wait_ready(60)
            check_mlp(client)
            assert daemon.metric("stoker_bucket_state", state="compiled") == 2
        notes = list(cache.glob("v1/notes/*/ran-*"))
        assert len(notes) == 2
        assert len({note.name.split("-")[2] for note in notes}) == 1  # the machine
