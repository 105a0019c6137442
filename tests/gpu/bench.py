"""Runs an artifact in this process, three ways: op by op, compiled, and compiled and captured into a CUDA graph.

    python -m tests.gpu.bench --name minilm --program model.pt2 --entry FOLDER --device cuda:0 --iterations 200

Prints one JSON object a line for each tier: {"tier": "eager"|"aot"|"graph", "p50_us", "p99_us", "host_us",
"peak_bytes"}, and one of what was checked: {"check": ..., "passed": ...}. p50 and p99 are of a run from its
launch to its end on the device; host_us is how long the host takes to launch one of a row of runs. Written in
Python against torch's own runner, it measures the artifact without anything of the server around it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from compiler.program.archive import load_program
from tests.gpu import models

Run = Callable[[], list[torch.Tensor]]


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


class Artifact:
    """An opened artifact with its weights bound."""

    def __init__(self, entry: Path, weights: dict[str, torch.Tensor], device: str) -> None:
        self.manifest = json.loads((entry / "manifest.json").read_text())
        started = time.monotonic()
        if device == "cpu":
            self._runner: Any = torch._C._aoti.AOTIModelContainerRunnerCpu(str(entry / "model.so"), 1)
        else:
            self._runner = torch._C._aoti.AOTIModelContainerRunnerCuda(
                str(entry / "model.so"), 1, device, str(entry), True
            )
        self._weights = {}
        for name, original in self._runner.get_constant_names_to_original_fqns().items():
            tensor = weights[original].detach()
            if original in self.manifest["packed"]:
                if device == "cpu":
                    tensor = torch.ops.mkldnn._reorder_linear_weight(tensor, 1)
                else:
                    tensor = tensor.to(getattr(torch, self.manifest["packed_as"]))
            self._weights[name] = tensor
        self._runner.update_constant_buffer(self._weights, False, False, True)
        self.open_seconds = time.monotonic() - started

    def run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return self._runner.run(list(inputs))


class Device:
    """What measuring needs of a GPU, or of the CPU, which waits for nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.on_gpu = name != "cpu"

    def synchronize(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize()

    def measure(self, run: Run, iterations: int) -> dict[str, float]:
        for _ in range(5):
            run()
        self.synchronize()
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(iterations):
            started = time.perf_counter()
            run()
            self.synchronize()
            times.append((time.perf_counter() - started) * 1e6)
        launches = max(5, min(20, iterations))
        started = time.perf_counter()
        for _ in range(launches):
            run()
        launched = time.perf_counter() - started
        self.synchronize()
        times.sort()
        return {
            "p50_us": round(statistics.median(times), 1),
            "p99_us": round(times[min(len(times) - 1, int(len(times) * 0.99))], 1),
            "host_us": round(launched / launches * 1e6, 1),
            "peak_bytes": torch.cuda.max_memory_allocated() if self.on_gpu else 0,
        }


class Captured:
    """A CUDA graph over an artifact: inputs are copied to fixed places, outputs stay at fixed places. `beside`: another
    graph, whose memory and stream this one shares, as those of a device thread do."""

    def __init__(self, artifact: Artifact, inputs: list[torch.Tensor], beside: Captured | None = None) -> None:
        self._inputs = [tensor.clone() for tensor in inputs]
        self._stream: torch.cuda.Stream = beside._stream if beside else torch.cuda.Stream()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(3):  # modules are loaded and workspaces made by the first runs
                artifact.run(self._inputs)
        self._stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        started = time.monotonic()
        pool = beside.graph.pool() if beside else None
        with torch.cuda.graph(self.graph, pool=pool, stream=self._stream, capture_error_mode="thread_local"):
            self.outputs = artifact.run(self._inputs)
        torch.cuda.synchronize()
        self.capture_seconds = time.monotonic() - started

    def run(self, inputs: list[torch.Tensor] | None = None) -> list[torch.Tensor]:
        if inputs is not None:
            for place, tensor in zip(self._inputs, inputs, strict=True):
                place.copy_(tensor, non_blocking=True)
        self.graph.replay()
        return self.outputs


def apart(got: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest distance, relative to the largest value where that is above one."""
    worst = 0.0
    for a, b in zip(got, expected, strict=False):  # the validity comes last
        if not b.is_floating_point():
            worst = max(worst, float(not torch.equal(a, b)))
            continue
        scale = max(1.0, b.abs().max().item())
        worst = max(worst, (a.float() - b.float()).abs().max().item() / scale)
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True, help="of the model, for the range of its inputs")
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--entry", type=Path, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--requests", type=int, default=0, help="random inputs that replays must answer bit-equal")
    parser.add_argument("--others", type=Path, nargs="+", default=[], help="entries of other buckets, asked as well")
    parser.add_argument("--loads", type=int, default=0, help="times that the artifact is opened and closed")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    # float32 is float32, as in the server: cuDNN's default is TF32.
    torch.backends.cudnn.allow_tf32 = False
    device = Device(options.device)
    passed = True

    program = load_program(options.program)
    weights = {**program.state_dict, **program.constants}
    module = program.module(check_guards=False)
    if device.on_gpu:
        from torch.export.passes import move_to_device_pass

        torch.cuda.set_device(options.device)
        program = move_to_device_pass(program, options.device)
        weights = {**program.state_dict, **program.constants}
        module = program.module(check_guards=False)
    artifact = Artifact(options.entry, weights, options.device)
    say(opened_ms=round(artifact.open_seconds * 1e3, 1), entry=options.entry.name)

    def inputs(seed: int, of: Artifact = artifact) -> list[torch.Tensor]:
        described = of.manifest["inputs"]
        made = models.inputs_of(
            options.name,
            [given["shape"] for given in described],
            [given["name"] for given in described],
            [given["dtype"] for given in described],
            seed,
        )
        return [tensor.to(options.device) for tensor in made]

    given = inputs(1)
    arguments, keywords = program.call_spec.in_spec.unflatten(given)
    expected = torch.utils._pytree.tree_leaves(module(*arguments, **keywords))
    started = time.monotonic()
    got = artifact.run(given)
    device.synchronize()
    say(first_run_ms=round((time.monotonic() - started) * 1e3, 1))
    distance = apart(got, expected)
    close = distance <= models.MODELS[options.name].tolerance
    passed &= close
    say(check="compiled equals eager", distance=distance, passed=close)

    eager = device.measure(lambda: module(*arguments, **keywords), min(options.iterations, 50))
    say(tier="eager", **eager)
    compiled = device.measure(lambda: artifact.run(given), options.iterations)
    say(tier="aot", **compiled)
    if device.on_gpu and artifact.manifest["capturable"]:
        captured = Captured(artifact, given)
        say(captured_ms=round(captured.capture_seconds * 1e3, 1))
        say(tier="graph", **device.measure(lambda: captured.run(given), options.iterations))
        alone = device.measure(lambda: captured.run(None), options.iterations)
        say(replay_host_us=alone["host_us"], replay_p50_us=alone["p50_us"])
        buckets: list[tuple[Artifact, Answer]] = [(artifact, captured.run)]
        for entry in options.others:
            other = Artifact(entry, weights, options.device)
            buckets.append((other, Captured(other, inputs(1, other), captured).run))
        passed &= same_bits("replays are bit-equal", buckets, inputs, max(20, options.requests))
    elif device.on_gpu:
        say(not_captured=artifact.manifest["not_capturable"])
    elif options.requests:
        buckets = [(one, one.run) for one in (artifact, *(Artifact(e, weights, "cpu") for e in options.others))]
        passed &= same_bits("runs are bit-equal", buckets, inputs, options.requests)
    if options.loads:
        passed &= no_growth(options, weights, given)
    return 0 if passed else 1


Answer = Callable[[list[torch.Tensor]], list[torch.Tensor]]


def same_bits(
    check: str, buckets: list[tuple[Artifact, Answer]], inputs: Callable[[int, Artifact], Any], requests: int
) -> bool:
    """What answers, against earlier runs of the artifact on the same inputs: random ones, for buckets in random
    order."""
    made = []
    for artifact, answer in buckets:
        for seed in range(2, 2 + min(requests, 100)):
            given = inputs(seed, artifact)
            made.append((answer, given, [output.clone() for output in artifact.run(given)]))
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    differ = 0
    for number in torch.randint(0, len(made), (requests,)).tolist():
        answer, given, expected = made[number]
        differ += not all(torch.equal(a, b) for a, b in zip(answer(given), expected, strict=True))
    say(check=check, requests=requests, buckets=len(buckets), differ=differ, passed=differ == 0)
    return differ == 0


def no_growth(options: argparse.Namespace, weights: dict[str, torch.Tensor], given: list[torch.Tensor]) -> bool:
    """Opens, runs and drops the artifact again and again; torch 2.11 leaks a module's code each time."""
    code = (options.entry / "model.so").stat().st_size

    def once() -> None:
        Artifact(options.entry, weights, options.device).run(given)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    for _ in range(3):
        once()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(options.loads):
        once()
    grown = before - torch.cuda.mem_get_info()[0]
    # The driver takes memory for code in blocks of 2 MiB.
    allowed = options.loads * code + (32 << 20)
    say(check="memory after opening again", loads=options.loads, grown_bytes=grown, code_bytes=code,
        passed=grown <= allowed)  # fmt: skip
    return grown <= allowed


if __name__ == "__main__":
    sys.exit(main())
