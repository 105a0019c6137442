"""What the host and the device do while a program runs, tier by tier, as a picture: timeline.svg.

    python -m tests.gpu.timeline --name kernels100 --program model.pt2 --entry FOLDER --device cuda:0 --out FOLDER

Taken by torch's profiler (CUPTI on a GPU) of a few runs of each tier, op by op, compiled, captured. Prints one JSON
object a line: of each tier how many kernels there were, for how long the device was busy, and for how long between the
first and the last of them it wasn't. Without a GPU the device's lane is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

RUNS = 3
WIDTH, LANE, MARGIN = 1200, 26, 110
COLOURS = {"host": "#4878a8", "device": "#c8603c"}


@dataclass(frozen=True)
class Span:
    """Of one piece of work, in microseconds."""

    lane: str  # host or device
    name: str
    begin: float
    end: float


@dataclass(frozen=True)
class Summary:
    kernels: int
    busy_us: float
    idle_us: float  # between the first kernel's begin and the last one's end


def summary(spans: list[Span]) -> Summary:
    """Of the device's lane; work that overlaps counts once."""
    device = sorted((span.begin, span.end) for span in spans if span.lane == "device")
    if not device:
        return Summary(0, 0.0, 0.0)
    busy, reached = 0.0, device[0][0]
    for begin, end in device:
        busy += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return Summary(len(device), round(busy, 1), round(reached - device[0][0] - busy, 1))


def svg(tiers: dict[str, list[Span]]) -> str:
    """One row for each tier and lane, all on one scale, each tier from its own begin."""
    lengths = [max(s.end for s in spans) - min(s.begin for s in spans) for spans in tiers.values() if spans]
    length = max(lengths, default=1.0)
    scale = (WIDTH - MARGIN - 10) / max(length, 1e-9)
    parts, y = [], 34
    for tier, spans in tiers.items():
        begin = min((span.begin for span in spans), default=0.0)
        for lane in ("host", "device"):
            mine = [span for span in spans if span.lane == lane]
            if not mine:
                continue
            parts.append(f'<text x="8" y="{y + 17}">{escape(tier)}, {lane}</text>')
            for span in mine:
                x, width = MARGIN + (span.begin - begin) * scale, max((span.end - span.begin) * scale, 0.3)
                parts.append(
                    f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{LANE - 6}" fill="{COLOURS[lane]}">'
                    f"<title>{escape(span.name)}: {span.end - span.begin:.1f} us</title></rect>"
                )
            y += LANE
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 10}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="8" y="18">{RUNS} runs of each tier; the longest row is {length:.0f} us</text>'
    )
    return head + "".join(parts) + "</svg>\n"


def spans_of(events: Any) -> list[Span]:
    """Of the profiler's own events: kernels and copies on the device; on the host what isn't inside another."""
    found: list[Span] = []
    for event in events:
        begin, end = event.start_ns() / 1e3, (event.start_ns() + event.duration_ns()) / 1e3
        lane = "host" if str(event.device_type()).endswith("CPU") else "device"
        found.append(Span(lane, event.name(), begin, end))
    host, reached = [], float("-inf")
    for span in sorted((span for span in found if span.lane == "host"), key=lambda span: (span.begin, -span.end)):
        if span.begin >= reached:
            host.append(span)
            reached = span.end
    return host + [span for span in found if span.lane == "device"]


def profiled(run: Callable[[], object], synchronize: Callable[[], None], on_gpu: bool) -> list[Span]:
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    for _ in range(3):
        run()
    synchronize()
    with profile(activities=activities) as profiler:
        for _ in range(RUNS):
            run()
        synchronize()
    assert profiler.profiler is not None and profiler.profiler.kineto_results is not None
    return spans_of(profiler.profiler.kineto_results.events())


def main() -> int:
    import torch

    from compiler.program.archive import load_program
    from tests.gpu.bench import Artifact, Captured, Device, say
    from tests.gpu.models import inputs_of

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--entry", type=Path, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    device = Device(options.device)
    program = load_program(options.program)
    if device.on_gpu:
        from torch.export.passes import move_to_device_pass

        torch.cuda.set_device(options.device)
        program = move_to_device_pass(program, options.device)
    module = program.module(check_guards=False)
    artifact = Artifact(options.entry, {**program.state_dict, **program.constants}, options.device)
    described = artifact.manifest["inputs"]
    shapes, names, dtypes = ([one[key] for one in described] for key in ("shape", "name", "dtype"))
    made = inputs_of(options.name, shapes, names, dtypes, seed=1)
    given = [tensor.to(options.device) for tensor in made]
    arguments, keywords = program.call_spec.in_spec.unflatten(given)
    runs: dict[str, Callable[[], object]] = {
        "eager": lambda: module(*arguments, **keywords),
        "aot": lambda: artifact.run(given),
    }
    if device.on_gpu and artifact.manifest["capturable"]:
        captured = Captured(artifact, given)
        runs["graph"] = lambda: captured.run(given)
    tiers = {tier: profiled(run, device.synchronize, device.on_gpu) for tier, run in runs.items()}
    (options.out / "timeline.svg").write_text(svg(tiers))
    for tier, spans in tiers.items():
        say(timeline=tier, **vars(summary(spans)))
    seen = all(summary(spans).kernels > 0 for spans in tiers.values()) or not device.on_gpu
    say(check="every tier's work is in the timeline", passed=seen, picture="timeline.svg")
    return 0 if seen else 1


if __name__ == "__main__":
    sys.exit(main())
