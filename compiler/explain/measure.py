"""Where the time of a program goes: runs of the compiled code and of eager, timed by turns and profiled."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from compiler.explain import kernel_calls
from compiler.explain.kernel_calls import Call
from compiler.explain.subject import Report, Subject, is_operator, numbers
from compiler.program import origins
from compiler.program.origins import Origin
from compiler.specialise.bucket_graph import input_names, resolve

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node

Run = Callable[[list["torch.Tensor"]], Any]  # of flat inputs

SEED = 1
# Turns of compiled and eager: as many as fit into the time, within these limits.
MEASURE_SECONDS = 4.0
FEWEST_TURNS, MOST_TURNS = 3, 500
MOST_PROFILED = 20
WHOLE_RUN = "whole run"


def measure(
    subject: Subject, inputs: list[torch.Tensor], compiled: Run | None, calls: list[Call], result: Report
) -> None:
    """Adds what runs of the compiled code, if there is one, and of eager take."""
    eager = _Eager(subject.program)
    turns: dict[str, Callable[[], Any]] = {"eager": lambda: eager.forward(*inputs)}
    if compiled is not None:
        turns["compiled"] = lambda: compiled(inputs)
    times = _time(turns)
    runs = min(MOST_PROFILED, times["turns"])
    eager_records = _profile(runs, lambda: eager.run(*inputs))
    times["eager_profiled_ms"] = eager_records[WHOLE_RUN][1] / runs / 1e3
    spent: dict[int | None, list[float]] = {}  # by number: eager, compiled microseconds
    for node in eager.timed:
        spent.setdefault(origins.number(node), [0.0, 0.0])[0] += eager_records[node.name][1] / runs
    result["eager_operators"] = _by_operator(eager.timed, eager_records, runs)
    if compiled is not None:
        records = _profile(runs, turns["compiled"])
        times["profiled_ms"] = records[WHOLE_RUN][1] / runs / 1e3
        _add_kernel_times(calls, records, runs, result, times)
        for call, described in zip(calls, result["calls"], strict=True):
            # What is fused into a product or a convolution costs little beside it.
            of = numbers(call) if call.kind == kernel_calls.FUSED else numbers(call)[:1]
            for number in of:
                spent.setdefault(number, [0.0, 0.0])[1] += described["us"] / len(of)
    by_origin: dict[Origin, list[float]] = {}
    for number, us in spent.items():
        both = by_origin.setdefault(subject.origin(number), [0.0, 0.0])
        both[0] += us[0]
        both[1] += us[1]
    result["places"] = _grouped(by_origin, lambda origin: origin.place, with_example=True)
    result["modules"] = _grouped(by_origin, _module_of)
    result["times"] = times


def _module_of(origin: Origin) -> str:
    return origin.module_type if origin == origins.GUARDS else origin.module


def _add_kernel_times(
    calls: list[Call], records: dict[str, tuple[int, float]], runs: int, result: Report, times: Report
) -> None:
    """Times of each call, and of kernels: calls of one function that come from the same places."""
    total = sum(records[call.record][1] for call in calls if call.record in records) or 1.0
    kernels: dict[tuple[Any, ...], Report] = {}
    for call, described in zip(calls, result["calls"], strict=True):
        count, us = records.get(call.record, (0, 0.0))  # none: in the branch that was not taken
        described |= {"runs": count / runs, "us": us / runs, "share": us / total}
        places = list(dict.fromkeys(origin["place"] for origin in described["origins"]))
        key = (call.function, *sorted(places))
        kernel = kernels.setdefault(
            key,
            {
                "kernel": call.function, "kind": call.kind, "by_proxy": described["by_proxy"],
                "operators": described["operators"], "places": places, "functions": _functions(described),
                "calls": 0.0, "total_us": 0.0, "share": 0.0,
            },
        )  # fmt: skip
        kernel["calls"] += count / runs
        kernel["total_us"] += us / runs
        kernel["share"] += us / total
    for kernel in kernels.values():
        kernel["mean_us"] = kernel["total_us"] / kernel["calls"] if kernel["calls"] else 0.0
    result["kernels"] = sorted(kernels.values(), key=lambda kernel: -kernel["total_us"])
    times["explained"] = total / runs / 1e3 / times["profiled_ms"]


def _functions(described: Report) -> list[str]:
    return list(dict.fromkeys(origin["function"] for origin in described["origins"] if origin["function"]))


def _grouped(
    by_origin: dict[Origin, list[float]], key: Callable[[Origin], str], with_example: bool = False
) -> list[Report]:
    groups: dict[str, Report] = {}
    for origin, (eager, compiled) in by_origin.items():
        group = groups.setdefault(key(origin), {"name": key(origin), "eager_us": 0.0, "compiled_us": 0.0})
        group["eager_us"] += eager
        group["compiled_us"] += compiled
        if with_example:
            group["origin"] = origin.as_json()
    total = sum(group["compiled_us"] for group in groups.values())
    for group in groups.values():
        group["share"] = group["compiled_us"] / total if total else 0.0
    return sorted(groups.values(), key=lambda group: (-group["compiled_us"], -group["eager_us"]))


def _by_operator(nodes: list[Node], records: dict[str, tuple[int, float]], runs: int) -> list[Report]:
    groups: dict[str, Report] = {}
    for node in nodes:
        count, us = records[node.name]
        group = groups.setdefault(
            str(node.target), {"operator": str(node.target), "calls": 0.0, "total_us": 0.0}
        )
        group["calls"] += count / runs
        group["total_us"] += us / runs
    total = sum(group["total_us"] for group in groups.values()) or 1.0
    for group in groups.values():
        group["mean_us"] = group["total_us"] / group["calls"]
        group["share"] = group["total_us"] / total
    return sorted(groups.values(), key=lambda group: -group["total_us"])


def make_inputs(
    program: ExportedProgram, sizes: dict[str, int], ranges: list[tuple[float, float] | None]
) -> list[torch.Tensor]:
    """Seeded inputs of the bucket's sizes. Raises ValueError, naming the input, for one that is no
    tensor or has a dimension without a size."""
    import torch

    generator = torch.Generator().manual_seed(SEED)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    inputs = []
    for i, (node, name) in enumerate(
        zip(program.graph_signature.user_inputs, input_names(program), strict=True)
    ):
        value = values.get(str(node))
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"the input {name} is no tensor")
        shape = [resolve(size, sizes) for size in value.shape]
        if not all(isinstance(size, int) for size in shape):
            raise ValueError(f"the input {name} is {shape}: the bucket does not say how large")
        between = ranges[i] if i < len(ranges) else None
        if value.dtype.is_floating_point or value.dtype.is_complex:
            drawn = torch.randn(shape, generator=generator)
            if between is not None:
                low, high = between
                drawn = torch.rand(shape, generator=generator) * (high - low) + low
            inputs.append(drawn.to(value.dtype))
        else:
            first, last = (0, 1) if between is None else (int(between[0]), int(between[1]))
            inputs.append(torch.randint(first, last + 1, shape, generator=generator).to(value.dtype))
    return inputs


def _time(turns: dict[str, Callable[[], Any]]) -> Report:
    """Medians in milliseconds, "<name>_ms", of each of the runs, done in turns."""
    taken: dict[str, list[float]] = {name: [] for name in turns}
    for run in turns.values():
        run()
        run()
    begun = time.perf_counter()
    done = 0
    while done < FEWEST_TURNS or (done < MOST_TURNS and time.perf_counter() - begun < MEASURE_SECONDS):
        for name, run in turns.items():
            before = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - before)
        done += 1
    medians = {f"{name}_ms": sorted(seconds)[done // 2] * 1e3 for name, seconds in taken.items()}
    return {"turns": done, **medians}


def _profile(runs: int, run: Callable[[], Any]) -> dict[str, tuple[int, float]]:
    """Calls and microseconds of everything that was recorded, by name, over so many runs."""
    from torch.profiler import ProfilerActivity, profile, record_function

    run()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(runs):
            with record_function(WHOLE_RUN):
                run()
    return {event.key: (event.count, event.cpu_time_total) for event in profiled.key_averages()}


class _Eager:
    """The program as eager runs it, and operator by operator, each recorded under its node's name."""

    def __init__(self, program: ExportedProgram) -> None:
        import torch
        from torch.fx.graph import CodeGen
        from torch.profiler import record_function

        module = program.module(check_guards=False)
        module.graph.set_codegen(CodeGen())  # flat inputs
        module.recompile()
        self.forward = module.forward  # the module's own call wants inputs as they were exported, by their names
        self.timed = [node for node in module.graph.nodes if is_operator(node)]
        timed = set(self.timed)

        class Recorder(torch.fx.Interpreter):
            def run_node(self, n: Node) -> Any:
                with record_function(n.name) if n in timed else contextlib.nullcontext():
                    return super().run_node(n)

        self.run = Recorder(module).run
