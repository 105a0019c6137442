"""What a program's graph is made of, what TorchInductor makes of it, and where the time goes.

    python -m compiler.explain --program model.pt2 --sizes '{"s77": 8}' --threads 2 --scratch FOLDER

prints a report as JSON: the graph's size; every kernel of the code compiled for a bucket, with the
operators and source lines that it was made from; the operators that TorchInductor leaves to libtorch;
why a program can't be compiled, and its line; and times, which are measured: the compiled code and eager
by turns, then both under torch.profiler. With --reply-fd it talks like the compile worker instead
(compiler/job/protocol.py): lines with the phases, then {"event": "done", "report": ...}.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.explain import kernel_calls
from compiler.job import toolchain
from compiler.program import origins
from compiler.program.archive import ArchiveError, load_program
from compiler.job.job import Built, Job, Phases, build, specialise_for
from compiler.explain.kernel_calls import Call
from compiler.job.limits import causes
from compiler.program.origins import Origin
from compiler.job.protocol import send
from compiler.guards.refused import Refused
from compiler.specialise.bucket_graph import Specialised, input_names, resolve
from compiler.job.work_folder import claimed, temporary_files_in

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node

Report = dict[str, Any]
Run = Callable[[list["torch.Tensor"]], Any]  # of flat inputs

SEED = 1
# The same that the daemon packs weights for (server/runner/weight_store.cc).
PACKED_ROWS = 64
# Turns of compiled and eager: as many as fit into the time, within these limits.
MEASURE_SECONDS = 4.0
FEWEST_TURNS, MOST_TURNS = 3, 500
MOST_PROFILED = 20
WHOLE_RUN = "whole run"


@dataclass
class Subject:
    """The program in question, and where its operators come from."""

    program: ExportedProgram
    notes: list[Origin]  # by the operators' numbers

    def origin(self, number: int | None) -> Origin:
        return origins.UNKNOWN if number is None else self.notes[number]


def explain(
    job: Job, ranges: list[tuple[float, float] | None], work: Path, report: Callable[[str], None]
) -> Report:
    """The report on one bucket of a program.

    `ranges` are the closed ranges that the inputs' values are drawn from, in the program's flat order;
    None, or too few: integers 0..1, floats from a standard normal distribution. `work` is an empty
    folder for generated code; `report` is called with the name of each phase. Raises ArchiveError for
    a file that is no program; one that can't be compiled, or not run, is explained as far as it goes,
    and the report says why.
    """
    import torch

    if job.on_gpu:
        raise ValueError(f"device: only what runs on cpu can be explained, got {job.device!r}")
    phases = Phases(report)
    toolchain.select_target(job.march, job.simdlen, job.scratch)
    phases.enter("load")
    notes: list[Any] = []
    program = load_program(job.program, notes)
    subject = Subject(program, [origins.read(note) for note in notes])
    result: Report = {
        "model": job.model,
        "bucket": job.bucket,
        "sizes": job.sizes,
        "threads": job.threads,
        "toolchain": toolchain.describe(job.march, job.simdlen),
        "graph": describe_graph(subject),
        "compiled": None,
        "not_compiled": None,
        "not_run": None,
        "kernels": [],
        "calls": [],
        "times": None,
        "places": [],
        "modules": [],
        "eager_operators": [],
    }
    calls: list[Call] = []
    compiled = None
    try:
        compiled, calls = _compile(job, subject, work, phases, result)
    except Exception as error:
        result["not_compiled"] = why_not(error, subject)
    phases.enter(None)
    report("measure")
    try:
        inputs = make_inputs(program, job.sizes, ranges)
        torch.set_num_threads(job.threads)
        with torch.inference_mode():
            _measure(subject, inputs, compiled, calls, result)
    except Exception as error:  # what the program raises on made-up values, or at this size
        result["not_run"] = _first_line(error)
    return result


def describe_graph(subject: Subject) -> Report:
    """How large the program is, and of which operators it consists."""
    import torch

    program = subject.program
    nodes = [node for graph in origins.graphs(program.graph_module) for node in graph.nodes]
    operators = Counter(str(n.target) for n in nodes if _is_operator(n))
    tensors = [t for t in [*program.state_dict.values(), *program.constants.values()] if torch.is_tensor(t)]
    storages = {t.untyped_storage().data_ptr(): t.numel() * t.element_size() for t in tensors}
    lines = sum(1 for note in subject.notes if note.file)
    return {
        "nodes": len(nodes),
        "operators": operators.total(),
        "by_operator": [{"operator": name, "count": count} for name, count in operators.most_common()],
        "operators_with_a_line": lines,
        "inputs": len(program.graph_signature.user_inputs),
        "outputs": len(program.graph_signature.user_outputs),
        "parameters": sum(t.numel() for t in tensors if isinstance(t, torch.nn.Parameter)),
        "weight_bytes": sum(storages.values()),
    }


def _is_operator(node: Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem"


def why_not(error: Exception, subject: Subject) -> Report:
    """Why the program could not be compiled: {"kind": "refused" or "error", "reason", "origin"}; the
    origin is None where the error does not say which operator it is about."""
    for cause in causes(error):
        if isinstance(cause, Refused):
            number = None if cause.node is None else origins.number(cause.node)
            origin = None if number is None else subject.origin(number).as_json()
            return {"kind": "refused", "reason": str(cause), "origin": origin}
    # Inductor's lowering ends with "Found from : \n node 17".
    found = origins.NUMBER.fullmatch(str(error).rpartition("\n")[2].strip())
    origin = subject.origin(int(found.group(1))).as_json() if found else None
    return {"kind": "error", "reason": _first_line(error), "origin": origin}


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"


# ---- compiling ----


def _compile(
    job: Job, subject: Subject, work: Path, phases: Phases, result: Report
) -> tuple[Run, list[Call]]:
    """The compiled code, and the places where it calls kernels."""
    phases.enter("specialise")
    specialised = specialise_for(job, subject.program)
    for node in specialised.module.graph.nodes:
        if node.op == "call_function" and origins.number(node) is None:
            node.meta["stack_trace"] = f"node {len(subject.notes)}"
    subject.notes.append(origins.GUARDS)
    phases.enter("lower")
    with kernel_calls.marked() as noted:
        built = build(job, specialised, work, phases)
    phases.enter(None)
    calls = [call for call in noted if call.function]
    # Inductor counts what reads a library call's result through a view as made from that call too.
    elsewhere = {node for call in calls if call.kind != kernel_calls.FUSED for node in call.nodes}
    for call in calls:
        if call.kind == kernel_calls.FUSED:
            call.nodes = [node for node in call.nodes if node not in elsewhere] or call.nodes
    fused = {call.function for call in calls if call.kind == kernel_calls.FUSED}
    result["compiled"] = {
        "fused_kernels": len(fused),
        "fused_calls": sum(call.kind == kernel_calls.FUSED for call in calls),
        "library_calls": sum(call.kind == kernel_calls.LIBRARY for call in calls),
        "fallback_calls": sum(call.kind == kernel_calls.FALLBACK for call in calls),
        "guards": [{k: guard[k] for k in ("operator", "input", "message")} for guard in specialised.guards],
        "packed_weights": sum(name in built.constants for name in specialised.packed),
        "phases": phases.seconds,
    }
    result["calls"] = [_described(call, subject) for call in calls]
    return _open(subject.program, specialised, built), calls


def _described(call: Call, subject: Subject) -> Report:
    numbers = _numbers(call)
    return {
        "call": call.number,
        "kernel": call.function,
        "kind": call.kind,
        "by_proxy": call.function == kernel_calls.PROXY,
        "operators": list(dict.fromkeys(str(node.target) for node in call.nodes)),
        "origins": [origin.as_json() for origin in dict.fromkeys(map(subject.origin, numbers))],
    }


def _numbers(call: Call) -> list[int | None]:
    """The program's operators that the kernel computes, each once; [None] where nothing is known."""
    known = [n for n in dict.fromkeys(map(origins.number, call.nodes)) if n is not None]
    return known or [None]


def _open(program: ExportedProgram, specialised: Specialised, built: Built) -> Run:
    """The compiled code with its weights bound as the daemon binds them."""
    import torch

    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(built.library), 1)  # type: ignore[attr-defined]
    weights = {**program.state_dict, **program.constants}
    bound = {}
    for name, original in runner.get_constant_names_to_original_fqns().items():
        tensor = weights[original].detach()
        if original in specialised.packed:
            tensor = tensor.to(getattr(torch, specialised.packed_as))
            tensor = torch.ops.mkldnn._reorder_linear_weight(tensor, PACKED_ROWS)
        bound[name] = tensor
    runner.update_constant_buffer(bound, False, False, True)

    def run(inputs: list[torch.Tensor]) -> Any:
        assert bound  # the runner itself keeps no weight alive
        return runner.run(inputs)

    return run


# ---- measuring ----


def _measure(
    subject: Subject, inputs: list[torch.Tensor], compiled: Run | None, calls: list[Call], result: Report
) -> None:
    """Adds what runs of the compiled code, if there is one, and of eager take."""
    eager = _Eager(subject.program)
    turns: dict[str, Callable[[], Any]] = {"eager": lambda: eager.module(*inputs)}
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
            numbers = _numbers(call) if call.kind == kernel_calls.FUSED else _numbers(call)[:1]
            for number in numbers:
                spent.setdefault(number, [0.0, 0.0])[1] += described["us"] / len(numbers)
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
        low, high = ranges[i] if i < len(ranges) and ranges[i] is not None else (None, None)
        if value.dtype.is_floating_point or value.dtype.is_complex:
            drawn = torch.randn(shape, generator=generator)
            if low is not None:
                drawn = torch.rand(shape, generator=generator) * (high - low) + low
            inputs.append(drawn.to(value.dtype))
        else:
            first, last = (0, 1) if low is None or high is None else (int(low), int(high))
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
        self.module = module
        self.timed = [node for node in module.graph.nodes if _is_operator(node)]
        timed = set(self.timed)

        class Recorder(torch.fx.Interpreter):
            def run_node(self, n: Node) -> Any:
                with record_function(n.name) if n in timed else contextlib.nullcontext():
                    return super().run_node(n)

        self.run = Recorder(module).run


# ---- command line ----


def _arguments() -> argparse.Namespace:
    march, simdlen = toolchain.host_target()
    parser = argparse.ArgumentParser(prog="python -m compiler.explain", description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, help="the .pt2 file")
    parser.add_argument("--sizes", type=json.loads, default={}, help="JSON: sizes by the program's symbols")
    parser.add_argument("--ranges", type=json.loads, default=[], help="JSON: [low, high] or null per input")
    parser.add_argument("--factors", type=json.loads, default={}, help="JSON: factors of the artifact's key")
    parser.add_argument("--passes", type=Path, help="the operator's passes")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--march", default=march)
    parser.add_argument("--simdlen", type=int, default=simdlen)
    parser.add_argument("--scratch", type=Path, required=True, help="folder of caches, kept between runs")
    parser.add_argument("--model", default="", help="name for the report")
    parser.add_argument("--bucket", default="", help="name for the report")
    parser.add_argument("--html", type=Path, help="file to write the report to as one page")
    parser.add_argument("--reply-fd", type=int, help="descriptor for the protocol's lines")
    return parser.parse_args()


@contextlib.contextmanager
def _work_folder(scratch: Path) -> Iterator[Path]:
    with claimed(scratch) as folder, temporary_files_in(folder):
        work = folder / "explain"
        work.mkdir(mode=0o700)
        yield work


def main() -> int:
    given = _arguments()
    toolchain.prepare_environment(given.scratch)

    def tell(message: dict[str, Any]) -> None:
        if given.reply_fd is not None:
            send(given.reply_fd, message)
        elif message["event"] == "done":
            print(json.dumps(message["report"], indent=1))
        else:
            print(message.get("message") or message["phase"], file=sys.stderr, flush=True)

    try:
        if given.html is not None and not given.html.absolute().parent.is_dir():
            raise ValueError(f"--html: there is no folder {given.html.absolute().parent}")
        job = Job(
            id=0, key="", factors=given.factors, model=given.model, bucket=given.bucket,
            program=given.program, sizes=given.sizes, threads=given.threads, march=given.march,
            simdlen=given.simdlen, stage=given.scratch, scratch=given.scratch, timeout_seconds=0,
            memory_bytes=0, passes=given.passes,
        )  # fmt: skip
        with _work_folder(given.scratch) as work:
            report = explain(
                job, given.ranges, work, lambda phase: tell({"event": "phase", "id": 0, "phase": phase})
            )
        if given.html is not None:
            from compiler.explain.page import page

            given.html.write_text(page(report), encoding="utf-8")
    except (ArchiveError, ValueError, OSError) as error:
        tell({"event": "failed", "id": 0, "kind": "error", "message": str(error)})
        return 1
    tell({"event": "done", "id": 0, "report": report})
    return 0
