"""deploy/operations.md's way from a build step to a frozen server, line by line as it is printed there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.integration.clients import check_mlp
from tests.integration.daemon import REPO, STOKERCTL, STOKERD, Daemon

# What a machine's own configuration would say of a registry without TLS on loopback.
LOCAL_REGISTRY = (
    'skopeo() { command skopeo --insecure-policy "$1" --src-tls-verify=false --dest-tls-verify=false '
    '"${@:2}"; }'
)


def blocks() -> list[str]:
    """The shell commands of the manual's section."""
    manual = (REPO / "deploy/operations.md").read_text()
    section = manual.split("## Rolling out")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def test_every_line_of_the_manual(
    kept: Path,
    registry: str,
    repository: Callable[..., Path],
    start: Callable[..., Daemon],
    tmp_path: Path,
) -> None:
    prepare, serve = blocks()
    assert prepare.count("skopeo copy") == 2
    root = repository("mlp")
    assert root == tmp_path / "models"
    # Another test may have compiled these buckets already; nothing here depends on who did.
    if (kept / "kernels").exists():
        # What other tests' compilers are writing is none of it.
        shutil.copytree(kept / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("scratch"))
    path = [Path(sys.executable).parent, STOKERD.parent, STOKERCTL.parent, os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{LOCAL_REGISTRY}\n{prepare}"],
        cwd=tmp_path,
        env=os.environ | {"PATH": ":".join(map(str, path)), "REGISTRY": registry},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "needs 0 compiles" in done.stdout
    assert "2 entries are new, 0 were there" in done.stdout and "signed by trusted key" in done.stdout

    program, *flags = shlex.split(serve)
    assert program == "stokerd" and flags[:4] == ["--model-repository", "models", "--cache", "scratch"]
    layer = flags.index("--cache-layer") + 1
    flags[layer] = str(tmp_path / flags[layer])
    with start(root, *flags[4:], cache=tmp_path / "scratch") as daemon, daemon.client() as client:
        daemon.wait_ready(30)
        check_mlp(client)
        assert daemon.metric("stoker_bucket_state", state="compiled") == 2
        assert daemon.metric("stoker_compile_worker_starts_total") == 0
        assert daemon.metric("stoker_cache_requests_total", layer="lower", result="hit") == 2
