"""What the shell that a daemon is started from has in its environment changes neither keys nor code, and
neither does the folder that it compiles in: not a byte."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.integration.daemon import REPO, STOKERD

# What torch's inductor, g++ and ld would make something of.
NONSENSE = {
    "TORCHINDUCTOR_FREEZING": "1",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "TORCHINDUCTOR_CPP_WRAPPER": "0",
    "TORCHINDUCTOR_CPP_ENABLE_UNSAFE_MATH_OPT_FLAG": "1",
    "TORCHINDUCTOR_CACHE_DIR": "/nonsense",
    "TORCHINDUCTOR_COMPILE_THREADS": "nonsense",
    "TORCHINDUCTOR_SIMDLEN": "1",
    "CXX": "/nonsense/g++",
    "CFLAGS": "-O0 -march=nonsense",
    "CXXFLAGS": "-nonsense",
    "LDFLAGS": "-nonsense",
    "CPLUS_INCLUDE_PATH": "/nonsense",
    "LIBRARY_PATH": "/nonsense",
    "COMPILER_PATH": "/nonsense",
    "PYTHONHOME": "/nonsense",
    "PYTHONPATH": "/nonsense",
}


def compiled(repository: Path, cache: Path, environment: dict[str, str]) -> dict[str, str]:
    """Of each entry: its key and the digest of its code."""
    subprocess.run(
        [STOKERD, f"--model-repository={repository}", f"--cache={cache}", "--warm-only", "--log-level=warn",
         f"--compiler-python={sys.executable}"],
        check=True, cwd=REPO, env=os.environ | environment, timeout=900,
    )  # fmt: skip
    return {
        json.loads(manifest.read_text())["key"]: hashlib.sha256((manifest.parent / "model.so").read_bytes()).hexdigest()
        for manifest in cache.glob("v1/entries/*/*/manifest.json")
    }


def test_the_environment_changes_neither_keys_nor_code(repository: Callable[..., Path], tmp_path: Path) -> None:
    root = repository("mlp")
    plain = compiled(root, tmp_path / "plain", {})
    assert plain
    assert compiled(root, tmp_path / "nonsense", NONSENSE) == plain
