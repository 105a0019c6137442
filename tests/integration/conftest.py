"""What the daemon's tests share: models made once, a kernel cache kept between runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.stand_in import stand_in
from tests.integration.daemon import REPO, Daemon, eventually, warm_up
from tests.kept import digest


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that later runs reuse, so that nothing is compiled twice."""
    kept = os.environ.get("STOKER_TEST_SCRATCH")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("kept")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def exported(kept: Path) -> Callable[[str], Path]:
    """exported("mlp") is the folder of a model of tests/models.py, written once for as long as neither
    that file nor the interpreter's packages change; not to be written into."""
    root = kept / f"exported-{digest([REPO / 'tests/models.py'])}"
    root.mkdir(exist_ok=True)

    def folder(name: str) -> Path:
        if not (root / name).exists():
            from tests import models

            with tempfile.TemporaryDirectory(dir=root, prefix=".") as half:
                models.write(name, Path(half))
                with suppress(OSError):  # another process was faster
                    (Path(half) / name).rename(root / name)
        return root / name

    return folder


@pytest.fixture
def repository(tmp_path: Path, exported: Callable[[str], Path]) -> Callable[..., Path]:
    """repository("mlp", "tokens") is a fresh model repository with these models."""

    def make(*names: str) -> Path:
        root = tmp_path / "models"
        for name in names:
            shutil.copytree(exported(name), root / name)
        return root

    return make


@pytest.fixture
def configured(repository: Callable[..., Path]) -> Callable[[str, str, str], Path]:
    """configured(model, file, text) is a repository with the model and that configuration file alone."""

    def make(model: str, file: str, text: str) -> Path:
        root = repository(model)
        (root / model / "model.yaml").unlink(missing_ok=True)
        (root / model / file).write_text(text)
        return root

    return make


@pytest.fixture
def start(tmp_path: Path, kept: Path) -> Callable[..., Daemon]:
    """start(repository, "--flag", cache=...) makes a Daemon for a with statement."""
    count = 0

    def make(root: Path, *arguments: str, cache: Path | None = None) -> Daemon:
        nonlocal count
        count += 1
        return Daemon(root, cache or kept / "kernels", tmp_path / f"stokerd-{count}.log", *arguments)

    return make


@pytest.fixture(scope="module")
def serving(
    tmp_path_factory: pytest.TempPathFactory, exported: Callable[[str], Path], kept: Path
) -> Iterator[Callable[..., Daemon]]:
    """serving(["mlp", "tokens"], "--flag") is a ready Daemon that the tests of a file share.

    With uncompiled=True eager answers everything.
    """
    with ExitStack() as running:

        def serve(names: list[str], *arguments: str, uncompiled: bool = False) -> Daemon:
            folder = tmp_path_factory.mktemp("serving")
            for name in names:
                shutil.copytree(exported(name), folder / "models" / name)
            # A full cache would be used without a compiler too.
            cache = folder / "empty" if uncompiled else kept / "kernels"
            flags = [*arguments, "--no-compile"] if uncompiled else arguments
            daemon = Daemon(folder / "models", cache, folder / "stokerd.log", *flags)
            running.enter_context(daemon).wait_ready()
            return daemon

        yield serve


@pytest.fixture(scope="module")
def fresh_caches(kept: Path) -> Iterator[Callable[[], Path]]:
    """fresh_caches() is a kernel cache without an entry, but with the compiler's precompiled headers of
    earlier runs."""
    with ExitStack() as made:

        def make() -> Path:
            fresh = Path(made.enter_context(tempfile.TemporaryDirectory(prefix="fresh-", dir=kept)))
            headers = kept / "kernels/v1/scratch/headers"
            if headers.exists():
                shutil.copytree(headers, fresh / "v1/scratch/headers", copy_function=os.link)
            return fresh

        yield make


@pytest.fixture
def fresh_cache(fresh_caches: Callable[[], Path]) -> Path:
    return fresh_caches()


@pytest.fixture(scope="module")
def unjudged(kept: Path, fresh_caches: Callable[[], Path]) -> Callable[[Path], Path]:
    """unjudged(repository) is a kernel cache that holds every artifact that it needs, but no verdict:
    those of an earlier run would hide what today's checks say."""

    def cache(repository: Path) -> Path:
        full = kept / "kernels"
        done = warm_up(repository, full, "--no-promotion-checks")
        assert done.returncode == 0, done.stdout + done.stderr
        fresh = fresh_caches()
        shutil.copytree(full / "v1/entries", fresh / "v1/entries", copy_function=os.link)
        return fresh

    return cache


@pytest.fixture
def fake_compiler(tmp_path: Path) -> Callable[..., str]:
    """fake_compiler("--job", "crash") is the flag for tests/fakes/fake_worker.py as compile worker."""

    def make(*behaviour: str) -> str:
        return f"--compiler-python={stand_in(tmp_path / 'fake-python', 'fake_worker.py', *behaviour)}"

    return make


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry; every test uses image names of its own."""
    folder = tmp_path_factory.mktemp("registry")
    config = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": "127.0.0.1:0"},
    }
    (folder / "config.yml").write_text(json.dumps(config))  # JSON is YAML
    log = folder / "log"
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(folder / "config.yml")],
            stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
        )  # fmt: skip
    try:
        listening = re.compile(r"listening on (127\.0\.0\.1:\d+)")
        eventually(
            lambda: bool(listening.search(log.read_text())) or process.poll() is not None,
            "the registry listens",
        )
        match = listening.search(log.read_text())
        assert match, log.read_text()
        yield match[1]
    finally:
        process.kill()
        process.wait()
