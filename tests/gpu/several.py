"""Several GPUs, and parts of one (MIG), where there are: a model on all of them answers, and each takes its share.

    python -m tests.gpu.several --kind gpus|mig --bundle FOLDER --models OUTDIR --work FOLDER

Prints one JSON object a line; {"skipped": why} where this machine has none.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from loadtest.servers.process import ServerError
from tests.gpu.bench import say
from tests.gpu.serving import BundledDaemon

NAME, ROWS, REQUESTS = "mlp", 8, 50
LINE = re.compile(r"^\s*(GPU|MIG) .*\(UUID: ((?:GPU|MIG)-[\w-]+)\)")


def listed(text: str) -> dict[str, list[str]]:
    """UUIDs by kind, of what `nvidia-smi -L` says."""
    found: dict[str, list[str]] = {"GPU": [], "MIG": []}
    for line in text.splitlines():
        if match := LINE.match(line):
            found[match[1]].append(match[2])
    return found


def devices(kind: str, text: str) -> tuple[list[str], str]:
    """Those that a model is to run on, or why there are none."""
    found = listed(text)
    if kind == "mig":
        parts = found["MIG"]
        return ([f"cuda:{parts[0]}"], "") if parts else ([], "no GPU here is divided (MIG)")
    if found["MIG"]:
        return [], "the GPUs here are divided (MIG), of which a process sees one part"
    if len(found["GPU"]) < 2:
        return [], f"{len(found['GPU'])} GPU here, this needs two"
    return [f"cuda:{index}" for index in range(len(found["GPU"]))], ""


def main() -> int:
    import torch

    from tests.gpu.asking import Client

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=("gpus", "mig"), required=True)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--library-path", default=os.environ.get("LD_LIBRARY_PATH", ""))
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--ready-seconds", type=float, default=150)
    options = parser.parse_args()
    if shutil.which("nvidia-smi") is None:
        say(skipped="there is no nvidia-smi to say which GPUs there are")
        return 0
    text = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30).stdout
    wanted, why = devices(options.kind, text)
    if not wanted:
        say(skipped=why)
        return 0
    options.work.mkdir(parents=True, exist_ok=True, mode=0o700)
    version = options.work / "models" / NAME / "1"
    version.mkdir(parents=True, exist_ok=True)
    if not (version / "model.pt2").exists():
        os.link(options.models / NAME / "1/model.pt2", version / "model.pt2")
    fields = {"max_batch_size": ROWS, "buckets": {"batch": [1, ROWS]}, "device": wanted}
    (version.parent / "model.yaml").write_text(json.dumps(fields) + "\n")
    # A part is named to the process, as CUDA has it.
    if options.kind == "mig":
        os.environ["CUDA_VISIBLE_DEVICES"] = wanted[0].removeprefix("cuda:")
    with BundledDaemon(options, version.parents[1], options.work / "daemon.log") as daemon:
        say(ready_s=daemon.said_ready(options.ready_seconds), devices=wanted)
        x = torch.randn(ROWS, 256)

        def ask() -> None:
            client = Client(daemon.http_port)
            for _ in range(REQUESTS):
                answers.append(client.infer(NAME, {"x": x}))

        answers: list[dict[str, torch.Tensor]] = []
        threads = [threading.Thread(target=ask) for _ in range(4 * len(wanted))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        copied = {
            labels["device"]: count for labels, count in daemon.samples("stoker_gpu_copied_bytes_total")
            if labels["direction"] == "to_host"
        }  # fmt: skip
    same = all(torch.allclose(got[name], answers[0][name], 3e-5, 3e-5) for got in answers for name in got)
    busy = {device: count for device, count in copied.items() if count > 0}
    passed = same and len(answers) == REQUESTS * len(threads) and len(busy) == len(wanted)
    say(check="each device answers, and the same", answers=len(answers), bytes_to_host=busy, passed=passed)
    return 0 if passed else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, ServerError) as error:
        say(error=str(error))
        sys.exit(1)
