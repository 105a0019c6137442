"""A kernel that never ends ends the process, with exit code 5: within the limit of runs, and also while it drains.

    python -m tests.gpu.hang --bundle FOLDER --device cuda:0 --work FOLDER

The kernel is torch's own that spins (at::cuda::sleep), launched into a run of the daemon as it is shipped, when a file
says so, by a library that is compiled here and preloaded. Prints one JSON object a line.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import torch

from loadtest.servers.process import ServerError
from tests.gpu.asking import Client, Refused
from tests.gpu.bench import say
from tests.gpu.serving import BundledDaemon

PRELOAD = "LD_PRELOAD"
EXIT_CODE = 5  # GpuGuard::kExitCode
LIMIT, GRACE = 5, 60  # seconds
# Before the runtime's own function, which the loader calls within each run, on the run's stream.
SOURCE = """
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

static void* find(const char* library, const char* symbol) {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  void* const found = handle != nullptr ? dlsym(handle, symbol) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "%s has no %s\\n", library, symbol);
    std::abort();
  }
  return found;
}

extern "C" int cudaEventRecord(void* event, void* stream) {
  using Record = int(void*, void*);
  static Record* const record = reinterpret_cast<Record*>(find("libcudart.so.13", "cudaEventRecord"));
  const std::string when = std::getenv("STOKER_SPIN_WHEN");
  const std::string begun = when + ".begun";
  if (access(when.c_str(), F_OK) == 0 && access(begun.c_str(), F_OK) != 0) {
    // at::cuda::sleep(int64_t cycles)
    using Sleep = void(int64_t);
    reinterpret_cast<Sleep*>(find("libtorch_cuda.so", "_ZN2at4cuda5sleepEl"))(std::numeric_limits<int64_t>::max() / 2);
    std::ofstream(begun) << "spins";
  }
  return record(event, stream);
}
"""


def library(folder: Path) -> Path:
    """Compiled with what compiles artifacts here."""
    (folder / "spin.cc").write_text(SOURCE)
    built = folder / "libspin.so"
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", str(folder / "spin.cc"), "-o", str(built), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"g++: {done.stderr[-1500:]}")
    return built


class Plus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + 1}


def lay_out(root: Path, device: str) -> None:
    version = root / "spinning/1"
    version.mkdir(parents=True)
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(Plus(), (torch.ones(2, 16),), dynamic_shapes=({0: batch},))
    torch.export.save(program, version / "model.pt2")
    (version.parent / "model.yaml").write_text(json.dumps({"device": device, "compile": False}) + "\n")


def hang(options: argparse.Namespace, built: Path, root: Path, drains: bool) -> bool:
    when = options.when
    begun = Path(f"{when}.begun")
    begun.unlink(missing_ok=True)
    name = "while it drains" if drains else "within the limit"
    arguments = [
        f"--gpu-run-limit-seconds={LIMIT}", "--drain-seconds=3", "--no-compile",
    ]  # fmt: skip
    os.environ |= {"STOKER_SPIN_WHEN": str(when), PRELOAD: str(built)}
    with BundledDaemon(options, root, options.work / f"{'drain' if drains else 'limit'}.log", *arguments) as daemon:
        daemon.said_ready(options.ready_seconds)
        x = torch.ones(2, 16)
        Client(daemon.http_port).infer("spinning", {"x": x})

        def ask() -> None:
            with suppress(OSError, Refused):
                Client(daemon.http_port).infer("spinning", {"x": x})

        when.write_text(options.script)
        asking = threading.Thread(target=ask)
        asking.start()
        daemon.until(begun.exists, GRACE, "the kernel is launched")
        if drains:
            daemon.process.send_signal(signal.SIGTERM)
        started = daemon.since_launch()
        try:
            code: int | None = daemon.process.wait(LIMIT + GRACE)
        except subprocess.TimeoutExpired:
            code = None
        took = daemon.since_launch() - started
        said = "hangs: a run has not ended" in daemon.log()
    when.unlink()
    asking.join(GRACE)
    passed = code == EXIT_CODE and said
    say(check=f"a kernel that hangs ends it, {name}", exit_code=code, seconds=round(took, 1), said=said, passed=passed)
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--library-path", default=os.environ.get("LD_LIBRARY_PATH", ""))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--ready-seconds", type=float, default=90)
    parser.add_argument("--when", type=Path, help="the file that says so; by default one in --work")
    parser.add_argument("--script", default="now\n", help="what to write to it")
    options = parser.parse_args()
    if shutil.which("g++") is None:
        say(skipped="there is no g++ to compile the library with that launches the kernel")
        return 0
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True, mode=0o700)
    options.when = options.when or options.work / "spin"
    built = library(options.work)
    root = options.work / "models"
    lay_out(root, options.device)
    passed = [hang(options, built, root, drains) for drains in (False, True)]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, ServerError, Refused) as error:
        say(error=str(error))
        sys.exit(1)
