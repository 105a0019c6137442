"""What a program's graph is made of, what TorchInductor makes of it, and where the time goes.

The report is a JSON object: the graph's size; every kernel of the code compiled for a bucket, with the
operators and source lines that it was made from; the operators that TorchInductor leaves to libtorch;
why a program can't be compiled, and its line; and times, which are measured: the compiled code and eager
by turns, then both under torch.profiler.
"""

from __future__ import annotations

import contextlib
import importlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.explain import kernel_calls
from compiler.explain.kernel_calls import Call
from compiler.explain.measure import Run, make_inputs, measure
from compiler.explain.subject import Report, Subject, is_operator, numbers
from compiler.guards.refused import Refused
from compiler.job import toolchain
from compiler.job.job import Built, Job, Phases, build, specialise_for
from compiler.job.limits import causes
from compiler.program import operators, origins
from compiler.program.archive import MissingOperator, load_program
from compiler.specialise.bucket_graph import Specialised

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

# The same that the daemon packs weights for (server/runner/weight_store.cc).
PACKED_ROWS = 64
# What registers the operators of compiler/program/operators.py's OWN.
ORIGINALS = ("torchvision", "transformers.integrations.moe")


def explain(
    job: Job, threads: int, ranges: list[tuple[float, float] | None], work: Path, report: Callable[[str], None]
) -> Report:
    """The report on one bucket of a program, as run by so many compute threads.

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
    program = _read(job, notes)
    subject = Subject(program, [origins.read(note) for note in notes])
    result: Report = {
        "model": job.model,
        "bucket": job.bucket,
        "sizes": job.sizes,
        "threads": threads,
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
    # Before weights are packed, which is done for a number of threads.
    torch.set_num_threads(threads)
    try:
        compiled, calls = _compile(job, subject, work, phases, result)
    except Exception as error:
        result["not_compiled"] = why_not(error, subject)
    phases.enter(None)
    report("measure")
    try:
        inputs = make_inputs(program, job.sizes, ranges)
        with torch.inference_mode():
            measure(subject, inputs, compiled, calls, result)
    except Exception as error:  # what the program raises on made-up values, or at this size
        result["not_run"] = _first_line(error)
    return result


def _read(job: Job, notes: list[Any]) -> ExportedProgram:
    """The program, with the operators that it calls where they can be run, too. Raises LibraryError."""
    operators.load(job.libraries())
    try:
        return load_program(job.program, notes)
    except MissingOperator:
        notes.clear()
    # Those that the server has of its own are run by the libraries that they are from, where those are here.
    for original in ORIGINALS:
        with contextlib.suppress(ImportError):
            importlib.import_module(original)
    operators.declare()
    return load_program(job.program, notes)


def describe_graph(subject: Subject) -> Report:
    """How large the program is, and of which operators it consists."""
    import torch

    program = subject.program
    nodes = [node for graph in origins.graphs(program.graph_module) for node in graph.nodes]
    called = Counter(str(n.target) for n in nodes if is_operator(n))
    tensors = [t for t in [*program.state_dict.values(), *program.constants.values()] if torch.is_tensor(t)]
    storages = {t.untyped_storage().data_ptr(): t.numel() * t.element_size() for t in tensors}
    lines = sum(1 for note in subject.notes if note.file)
    return {
        "nodes": len(nodes),
        "operators": called.total(),
        "by_operator": [{"operator": name, "count": count} for name, count in called.most_common()],
        "operators_with_a_line": lines,
        "inputs": len(program.graph_signature.user_inputs),
        "outputs": len(program.graph_signature.user_outputs),
        "parameters": sum(t.numel() for t in tensors if isinstance(t, torch.nn.Parameter)),
        "weight_bytes": sum(storages.values()),
    }


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


def _compile(job: Job, subject: Subject, work: Path, phases: Phases, result: Report) -> tuple[Run, list[Call]]:
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
    of = numbers(call)
    return {
        "call": call.number,
        "kernel": call.function,
        "kind": call.kind,
        "by_proxy": call.function == kernel_calls.PROXY,
        "operators": list(dict.fromkeys(str(node.target) for node in call.nodes)),
        "origins": [origin.as_json() for origin in dict.fromkeys(map(subject.origin, of))],
    }


def _open(program: ExportedProgram, specialised: Specialised, built: Built) -> Run:
    """The compiled code with its weights as the daemon gives them to it."""
    import torch

    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(built.library), 1)
    weights = {**program.state_dict, **program.constants}
    for convolution in specialised.convolutions:
        weights[convolution.weight] = convolution.pack(weights[convolution.weight].detach())
    bound = {}
    for name, original in runner.get_constant_names_to_original_fqns().items():
        tensor = weights[original].detach()
        if original in specialised.packed:
            tensor = tensor.to(getattr(torch, specialised.packed_as))
            tensor = torch.ops.mkldnn._reorder_linear_weight(tensor, PACKED_ROWS)
        bound[name] = tensor
    runner.update_constant_buffer(bound, False, False, True)

    def run(inputs: list[torch.Tensor]) -> Any:
        assert bound is not None  # there may be none, and the runner itself keeps none alive
        return runner.run(inputs)

    return run
