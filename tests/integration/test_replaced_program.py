"""Proves that a program that changes under a warm-up reaches neither the keys nor the answers of the one before."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.integration.clients import check_mlp
from tests.integration.daemon import eventually
from tests.integration.test_stop_compiling import wait_for_phase


def test_what_is_compiled_is_the_file_that_was_read(repository, start, exported, fresh_cache: Path) -> None:
    """Another program of the same name and interface lies there while the first bucket compiles: all of them are
    of the one that the keys describe, and so is eager, which is opened from the file again."""
    root = repository("mlp")
    program = root / "mlp/1/model.pt2"
    original = shutil.copy(program, root / "original")
    with start(root, "--compile-jobs=1", cache=fresh_cache) as daemon:
        wait_for_phase(daemon, "load")
        another = shutil.copy(exported("identity") / "1/model.pt2", root / "another")
        Path(another).rename(program)
        daemon.wait_ready()
        with daemon.client() as client:
            for count in (1, 3, 8):
                check_mlp(client, count)
        assert "stays on eager (compile)" not in daemon.log()
        assert daemon.stop() == 0
    assert len(list(fresh_cache.glob("v1/entries/*/*"))) == 2
    Path(original).rename(program)
    flags = ("--require-cache", "--no-compile", "--recheck-promotions")
    with start(root, *flags, cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        assert "(parity)" not in daemon.log()
        for count in (1, 3, 8):
            check_mlp(client, count)
        assert daemon.stop() == 0


def test_a_program_that_is_written_into_is_not_compiled_under_its_old_key(
    repository, start, exported, fake_compiler, fresh_cache: Path
) -> None:
    """In place, so that the open file shows it: the compiler says what it has read, and that is not committed."""
    root = repository("mlp")
    program = root / "mlp/1/model.pt2"
    with start(root, fake_compiler("--start", "gated", "--job", "ok"), cache=fresh_cache) as daemon:
        gate = fresh_cache / "v1/scratch/gate"
        eventually(lambda: "loading -> warming" in daemon.log(), "it is loaded")
        program.write_bytes((exported("identity") / "1/model.pt2").read_bytes())
        with open(gate, "wb"):
            pass
        eventually(lambda: "what was compiled is not what the key describes" in daemon.log(), daemon.log())
        daemon.stop()
    assert not list(fresh_cache.glob("v1/entries/*/*"))
