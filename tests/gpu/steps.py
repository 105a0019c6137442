"""What the one command tries and measures, in the order of its worth."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.gpu.running import Run, Step

HALF = 5e-2  # of answers in float16, of many layers
SMALL = ("two_ops", "kernels10", "kernels100", "kernels500", "mlp", "minilm", "adam", "images")
# Compiled in this order, those first that are exported first.
BUCKETS = (
    "gpt2_xl:1", "gpt2_xl:8", "two_ops:1", "kernels500:1", "kernels100:1", "minilm:1", "minilm:64", "adam", "mlp:8",
    "kernels10:1", "images:32", "mlp:1", "mlp:64",
)  # fmt: skip

# What the public figures of torch.compile are of, and other precisions: of the second half.
PEERS = ("resnet50", "bert_base")
PRECISIONS = ("gpt2_xl_f32", "gpt2_xl_bf16")
MORE_BUCKETS = (
    *(f"{name}:{batch}" for name in PEERS for batch in (1, 8, 32)),
    *(f"{name}:{batch}" for name in PRECISIONS for batch in (1, 8)),
)


def bench(entry: str, iterations: int, *more: object) -> Callable[[Run], list[str]]:
    name = entry.rpartition("_")[0]
    return lambda run: run.python(
        "bench", "--name", name, "--program", run.program(entry), "--entry", run.work / "entries" / entry,
        "--device", run.device, "--iterations", iterations, *more,
    )  # fmt: skip


def requests(*more: object) -> Callable[[Run], list[str]]:
    """Random ones, for the three buckets of the small MLP."""

    def command(run: Run) -> list[str]:
        others = [run.work / "entries" / entry for entry in ("mlp_1", "mlp_64")]
        return bench("mlp_8", 200, *more, "--others", *others)(run)

    return command


def daemon_bench(entry: str, iterations: int, tolerance: float = 1e-3) -> Callable[[Run], list[str] | None]:
    """The same with the server's own loader."""

    def command(run: Run) -> list[str] | None:
        if (binary := run.binary("gpu_bench")) is None:
            return None
        return [
            str(binary), "--program", str(run.program(entry)), "--entry", str(run.work / "entries" / entry),
            "--device", run.device, "--iterations", str(iterations), "--tolerance", str(tolerance), "--json",
        ]  # fmt: skip

    return command


def entry_of(run: Run, wanted: str) -> Path:
    name, _, batch = wanted.partition(":")
    return run.work / "entries" / f"{name}_{batch or 0}" / "manifest.json"


def entries(*wanted: str) -> Callable[[Run], list[Path]]:
    return lambda run: [entry_of(run, one) for one in wanted]


def modes(name: str, batch: int) -> Callable[[Run], list[str]]:
    """torch.compile's, in Python."""
    return lambda run: run.python(
        "modes", "--name", name, "--program", run.program(f"{name}_{batch}"), "--batch", batch,
        "--device", run.device, "--iterations", 50,
    )  # fmt: skip


def compiling(*wanted: str, timeout: int) -> Callable[[Run], list[str]]:
    """Those that aren't there."""
    return lambda run: run.python(
        "compiling", "--device", run.device, "--models", run.work / "models", "--entries", run.work / "entries",
        "--scratch", run.work / "scratch", "--timeout-seconds", timeout,
        *(one for one in wanted if not entry_of(run, one).exists()),
    )  # fmt: skip


def serving(name: str, inputs: str, *more: object) -> Callable[[Run], list[str] | None]:
    def command(run: Run) -> list[str] | None:
        if run.binary("stokerd") is None:
            return None
        return run.python(
            "serving", "--bundle", run.bundle, "--library-path", run.options.library_path,
            "--models", run.work / "models", "--name", name, "--inputs", inputs,
            "--device", run.device, "--work", run.work / f"serve_{name}", *more,
        )  # fmt: skip

    return command


def gtest(run: Run) -> list[str] | None:
    binary = run.binary("gpu_test")
    return [str(binary), "--gtest_brief=1"] if binary else None


def artifacts(run: Run) -> dict[str, str]:
    """What gpu_test's tests of artifacts ask for."""
    entries = ":".join(str(run.work / "entries" / entry) for entry in ("minilm_64", "minilm_1"))
    return {"STOKER_GPU_TEST_PROGRAM": str(run.program("minilm_1")), "STOKER_GPU_TEST_ENTRIES": entries}


def sticky(run: Run) -> list[str] | None:
    """It poisons the process's context: in a process of its own."""
    binary = run.binary("gpu_test")
    return [str(binary), "--gtest_brief=1", "--gtest_filter=*Sticky*"] if binary else None


def sanitizer(tool: str) -> Callable[[Run], list[str] | str | None]:
    """What may run beneath it: it makes kernels ten times as slow, and a capture of it is none."""

    def command(run: Run) -> list[str] | str | None:
        if (binary := run.binary("gpu_test")) is None:
            return None
        if (program := compute_sanitizer()) is None:
            return "compute-sanitizer, of CUDA's toolkit, is neither in PATH nor in CUDA_HOME nor in /usr/local/cuda"
        return [program, "--tool", tool, "--error-exitcode", "9", str(binary), "--gtest_brief=1"]

    return command


def compute_sanitizer() -> str | None:
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    places = [f"{home}/{folder}" for home in homes if home for folder in ("bin", "compute-sanitizer")]
    return shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", ""), *places]))


def through_the_daemon(
    module: str, *more: object, models: bool = True, device: bool = True
) -> Callable[[Run], list[str] | None]:
    """A step of tests/gpu that starts stokerd itself."""

    def command(run: Run) -> list[str] | None:
        if run.binary("stokerd") is None:
            return None
        given: list[object] = ["--bundle", run.bundle, "--library-path", run.options.library_path]
        given += ["--models", run.work / "models"] if models else []
        given += ["--device", run.device] if device else []
        name = "_".join([module, *(str(word) for word in more if not str(word).startswith("-"))])
        return run.python(module, *given, "--work", run.work / name, *more)

    return command


def timeline(entry: str) -> Callable[[Run], list[str]]:
    name = entry.rpartition("_")[0]
    return lambda run: run.python(
        "timeline", "--name", name, "--program", run.program(entry), "--entry", run.work / "entries" / entry,
        "--device", run.device, "--out", run.options.out,
    )  # fmt: skip


def steps() -> Iterable[Step]:
    """Most important first."""
    yield Step("machine", 60, 5, lambda run: run.python("machine"), gpu=False)
    yield Step("gpu_test", 100, 10, gtest, gpu=False, bundled=True)
    yield Step("compile", 270, 30, compiling(*BUCKETS, timeout=250), makes=entries(*BUCKETS))
    yield Step("two_ops", 25, 5, bench("two_ops_1", 300))
    yield Step("gpu_test_artifacts", 100, 15, gtest, bundled=True, environment=artifacts)
    poison = {"STOKER_GPU_TEST_STICKY": "1"}
    yield Step("gpu_test_sticky", 30, 5, sticky, bundled=True, environment=lambda run: poison)
    for entry, count in (("kernels100_1", 300), ("kernels500_1", 100), ("minilm_1", 200), ("minilm_64", 50)):
        yield Step(entry, 40, 8, bench(entry, count))
        yield Step(f"daemon_{entry}", 30, 5, daemon_bench(entry, count), bundled=True)
    yield Step("hang", 150, 60, through_the_daemon("hang", models=False))
    yield Step(
        "neighbours", 200, 60, through_the_daemon("neighbours", "--requests", 10_000),
        needs=("mlp", "two_ops", "kernels10"),
    )  # fmt: skip
    yield Step("timeline", 60, 10, timeline("kernels100_1"))
    yield Step("gpt2_xl_1", 60, 20, bench("gpt2_xl_1", 30))
    yield Step("serve_minilm", 190, 60, serving("minilm", "ids,mask", "--seconds", 5), needs=("minilm",))
    yield Step("daemon_gpt2_xl_1", 60, 15, daemon_bench("gpt2_xl_1", 30, HALF), bundled=True)
    yield Step("gpt2_xl_8", 60, 20, bench("gpt2_xl_8", 30))
    yield Step("daemon_gpt2_xl_8", 60, 15, daemon_bench("gpt2_xl_8", 30, HALF), bundled=True)
    yield Step("adam_0", 30, 8, bench("adam_0", 100))
    yield Step("requests", 60, 15, requests("--requests", 10000, "--loads", 100))
    for entry in ("kernels10_1", "images_32"):
        yield Step(entry, 30, 8, bench(entry, 200))
        yield Step(f"daemon_{entry}", 30, 5, daemon_bench(entry, 200), bundled=True)
    yield Step(
        "serve_images", 90, 40, serving("images", "image", "--seconds", 4, "--concurrency", 64), needs=("images",)
    )
    # A start from nothing, and from the cache that it has filled.
    yield Step(
        "serve_gpt2_xl", 240, 120, serving("gpt2_xl", "ids", "--seconds", 4, "--concurrency", 1, 8),
        needs=("gpt2_xl",),
    )  # fmt: skip
    # The second half: what the first call has no time for.
    yield Step(
        "compile_more", 500, 120, compiling(*MORE_BUCKETS, timeout=480), needs=(*PEERS, *PRECISIONS),
        makes=entries(*MORE_BUCKETS),
    )  # fmt: skip
    for name in PEERS:
        for batch in (1, 8, 32):
            entry = f"{name}_{batch}"
            yield Step(entry, 60, 10, bench(entry, 50))
            yield Step(f"daemon_{entry}", 40, 8, daemon_bench(entry, 50), bundled=True)
            yield Step(f"modes_{entry}", 200, 40, modes(name, batch))
    for name in PRECISIONS:
        tolerance = 2 * HALF if name.endswith("bf16") else 1e-3
        for batch in (1, 8):
            entry = f"{name}_{batch}"
            yield Step(entry, 80, 25, bench(entry, 20))
            yield Step(f"daemon_{entry}", 80, 20, daemon_bench(entry, 20, tolerance), bundled=True)
    for batch in (1, 8):
        yield Step(f"modes_gpt2_xl_{batch}", 300, 90, modes("gpt2_xl", batch), needs=("gpt2_xl",))
    for name, given in (("bert_base", "ids,mask"), ("resnet50", "image")):
        yield Step(f"serve_{name}", 240, 90, serving(name, given, "--seconds", 5), needs=(name,))
    for kind in ("gpus", "mig"):
        several = through_the_daemon("several", "--kind", kind, device=False)
        yield Step(f"several_{kind}", 180, 30, several, needs=("mlp",))
    for tool in ("memcheck", "racecheck", "initcheck"):
        yield Step(f"sanitizer_{tool}", 120, 30, sanitizer(tool), bundled=True, environment=artifacts)


def steps_without_gpu() -> Iterable[Step]:
    """That the bundle runs at all."""
    buckets = compiling("two_ops:1", "mlp:8", "mlp:1", "mlp:64", timeout=140)
    yield Step("cpu_compile", 150, 30, buckets, gpu=False, needs=("two_ops", "mlp"))
    yield Step("cpu_two_ops", 30, 5, bench("two_ops_1", 100), gpu=False)
    yield Step("cpu_daemon_two_ops", 30, 5, daemon_bench("two_ops_1", 100), gpu=False, bundled=True)
    yield Step("cpu_requests", 60, 5, requests("--requests", 1000), gpu=False)
    yield Step("cpu_timeline", 60, 5, timeline("two_ops_1"), gpu=False)
    yield Step("cpu_serve", 200, 60, serving("mlp", "x", "--seconds", 2, "--concurrency", 8), gpu=False)
    neighbours = through_the_daemon("neighbours", "--requests", 400, "--neighbours", "two_ops")
    yield Step("cpu_neighbours", 200, 60, neighbours, gpu=False, needs=("two_ops", "mlp"))
