"""One compile: an exported program and a bucket in, a staged artifact out.

Runs in a process of its own, because torch keeps state between compiles that changes the next one.
"""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.guards import branches
from compiler.guards.refused import Refused
from compiler.job import (
    codegen,
    cuda,
    index_arithmetic,
    interface_object,
    manifest,
    named_calls,
    onednn_calls,
    parallel_loops,
    toolchain,
)
from compiler.job.protocol import PHASES
from compiler.job.recipe import COMPILER, RECIPE
from compiler.job.work_folder import temporary_files_in
from compiler.program import operators
from compiler.program.archive import MissingOperator, load_archive
from compiler.specialise import dynamic, passes
from compiler.specialise.bucket_graph import Specialised, specialise

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from compiler.program.archive import Archive

# Factors of the key with this prefix are options of TorchInductor, as JSON.
OPTION = "inductor."
# And with this one the SHA-256 of libraries of operators.
OPERATORS = "operators."

PRECISIONS = ("float32", "bfloat16")
CUDA_PRECISIONS = (*PRECISIONS, "float16", "tf32")

# What an artifact for a GPU has to be built with, whatever the key's options say.
CUDA_OPTIONS = {
    # One file to verify and to open; the machine code of this GPU's kind alone.
    "aot_inductor.embed_kernel_binary": True,
    "aot_inductor.emit_multi_arch_kernel": False,
    # In one pass. The other way runs the whole program, with its weights, to tune its kernels.
    "triton.autotune_at_compile_time": True,
    # The daemon captures.
    "triton.cudagraphs": False,
}

ARTIFACT = "model.so"
EXTERN_NODES = "model.json"


@dataclass
class Job:
    """A request to compile, as in the protocol; `timeout_seconds` is the worker's business."""

    id: int
    key: str
    factors: dict[str, str]
    model: str
    bucket: str
    program: Path
    sizes: dict[str, int]
    march: str
    simdlen: int
    stage: Path
    scratch: Path
    timeout_seconds: float
    memory_bytes: int
    passes: Path | None = None
    operators: dict[str, str] = field(default_factory=dict)
    device: str = "cpu"

    @staticmethod
    def parse(message: dict[str, Any]) -> Job:
        """Raises ValueError with the field's name when a field is missing or of the wrong kind."""
        job = Job(
            id=_field(message, "id", int),
            key=_field(message, "key", str),
            factors=_mapping(message, "factors", str),
            model=_field(message, "model", str),
            bucket=_field(message, "bucket", str),
            program=Path(_field(message, "program", str)),
            passes=Path(message["passes"]) if message.get("passes") else None,
            operators=_mapping(message, "operators", str) if "operators" in message else {},
            sizes=_mapping(message, "sizes", int),
            march=_field(message, "march", str),
            simdlen=_field(message, "simdlen", int),
            stage=Path(_field(message, "stage", str)),
            scratch=Path(_field(message, "scratch", str)),
            timeout_seconds=_field(message, "timeout_seconds", (int, float)),
            memory_bytes=_field(message, "memory_bytes", int),
            device=_field(message, "device", str) if "device" in message else "cpu",
        )
        if job.factors.get("recipe", RECIPE) != RECIPE:
            raise ValueError(
                f"recipe: the code in {COMPILER} is {RECIPE}, the job asks for {job.factors['recipe']}, which stokerd "
                "was built with: name that one by --compiler-folder, or build stokerd again"
            )
        cxx = toolchain.compiler_name()
        if job.factors.get("cxx", cxx) != cxx:
            raise ValueError(f"cxx: the compiler here is {cxx}, the job asks for {job.factors['cxx']}")
        toolchain.check_target(job.march, job.simdlen)
        cuda.check_name(job.device)
        known = CUDA_PRECISIONS if job.on_gpu else PRECISIONS
        if job.precision not in known:
            only = ", which is on a GPU only" if job.precision in CUDA_PRECISIONS else ""
            raise ValueError(f"precision: expected one of {known}, got {job.precision!r}{only}")
        return job

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def precision(self) -> str:
        return self.factors.get("precision", "float32")

    def libraries(self) -> dict[str, tuple[Path, str]]:
        """Path and digest of the libraries of operators that the program calls."""
        return {name: (Path(path), self.factors.get(OPERATORS + name, "")) for name, path in self.operators.items()}

    def options(self) -> dict[str, Any]:
        """What the key says of TorchInductor's options. Raises ValueError for text that is not JSON."""
        return {
            name.removeprefix(OPTION): json.loads(value)
            for name, value in self.factors.items()
            if name.startswith(OPTION)
        }


@dataclass
class Phases:
    """Times the phases of a job and tells about each as it begins."""

    report: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)
    _name: str | None = None
    _since: float = 0.0

    def enter(self, name: str | None) -> None:
        """Ends the phase that runs and begins `name`; None only ends."""
        assert name is None or name in PHASES, name
        now = time.monotonic()
        if self._name is not None:
            self.seconds[self._name] = round(now - self._since, 3)
        self._name, self._since = name, now
        if name is not None:
            self.report(name)


def run_job(job: Job, work: Path, report: Callable[[str], None]) -> dict[str, Any]:
    """Compiles and stages the artifact; returns the fields of the "done" reply.

    Raises Refused for a program that can't be made safe; every other exception is a failure of the
    compiler. `work` is a folder of the caller's for generated code, made here and removed; `report`
    is called with the name of each phase.
    """
    started = time.monotonic()
    phases = Phases(report)
    toolchain.select_target(job.march, job.simdlen, job.scratch)
    with _made(work), temporary_files_in(work):
        phases.enter("load")
        if job.on_gpu:
            job = replace(job, device=open_gpu(job))
        program, archive = _read(job)
        phases.enter("specialise")
        specialised = specialise_for(job, program)
        if job.on_gpu:
            cuda.check_room(job.device, specialised.largest_tensor)
        phases.enter("lower")
        built = build(job, specialised, work, phases)
        inputs = _inputs(specialised)
        phases.enter("package")
        shutil.move(built.library, job.stage / ARTIFACT)
        if built.extern_nodes is not None:
            shutil.move(built.extern_nodes, job.stage / EXTERN_NODES)
        toolchain.check_needed(job.stage / ARTIFACT, job.on_gpu)
    phases.enter(None)
    seconds = round(time.monotonic() - started, 3)
    manifest.write_manifest(
        job.stage,
        {
            "key": job.key,
            "model": job.model,
            "bucket": job.bucket,
            "factors": job.factors,
            "toolchain": toolchain.describe(job.march, job.simdlen, job.device),
            "inputs": inputs,
            "outputs": specialised.outputs,
            "validity_output": specialised.outputs if specialised.guards else None,
            "guards": specialised.guards,
            "constants": built.constants,
            "packed": [name for name in specialised.packed if name in built.constants],
            "packed_as": specialised.packed_as,
            "convolutions": [one.as_json() for one in specialised.convolutions if one.weight in built.constants],
            **_on_device(job, built),
            "phases": phases.seconds,
            "seconds": seconds,
            "peak_rss_bytes": _peak_rss_bytes(),
        },
    )
    return {"phases": phases.seconds, "seconds": seconds, "attest": attest(archive, job)}


def _read(job: Job) -> tuple[ExportedProgram, Archive]:
    """The program, with the operators that it calls known to torch. Raises Refused where those are nobody's."""
    operators.load(job.libraries())
    try:
        return load_archive(job.program)
    except MissingOperator:
        operators.declare()  # not before: it takes the place of torchvision's, should that be imported later
    try:
        return load_archive(job.program)
    except MissingOperator as error:
        raise Refused(str(error)) from None


def attest(archive: Archive, job: Job) -> dict[str, str]:
    """What was compiled, and by what: not what the job said, but what is. The libraries of operators were compared when
    they were opened."""
    import torch

    return {
        **{OPERATORS + name: digest for name, (_, digest) in job.libraries().items()},
        "program": archive.content_digest(),
        "recipe": RECIPE,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "sympy": metadata.version("sympy"),
        "torch.git": torch.version.git_version or "",
    }


def open_gpu(job: Job) -> str:
    """Makes this process one that compiles for the job's GPU; returns what that is called here."""
    import torch

    device = cuda.open_device(job.device)
    cuda.check_facts(cuda.facts(device), job.factors)
    toolchain.select_cuda(job.scratch)
    # Of Triton's templates; cuBLAS is told at run time.
    torch.set_float32_matmul_precision("high" if job.precision == "tf32" else "highest")
    return device


def _inputs(specialised: Specialised) -> list[dict[str, Any]]:
    """What the manifest says of the inputs; of those with dynamic dimensions also the sizes that they may
    have, which compiling has decided."""
    held = dynamic.ranges(specialised.fakes)
    return [
        one if sizes is None else {**one, "range": sizes} for one, sizes in zip(specialised.inputs, held, strict=True)
    ]


def _on_device(job: Job, built: Built) -> dict[str, Any]:
    """What the manifest says beyond what it says of artifacts for CPUs."""
    if not job.on_gpu:
        return {}
    reason = built.not_capturable
    return {"device": "cuda", "capturable": reason is None, "not_capturable": reason}


def specialise_for(job: Job, program: ExportedProgram) -> Specialised:
    """specialise, with the levers that the job's key names."""
    change = passes.load(job.passes, job.factors.get("passes", "")) if job.passes else None
    return specialise(program, job.sizes, change, job.precision, job.device)


@dataclass
class Built:
    """What Inductor left in the work folder."""

    library: Path
    extern_nodes: Path | None
    constants: list[str]
    not_capturable: str | None = None  # the reason, for a GPU


def build(job: Job, specialised: Specialised, work: Path, phases: Phases) -> Built:
    """Compiles the graph into the work folder; `phases` enters "build" when the C++ compilers start."""
    from torch._inductor.compile_fx import compile_fx_aot

    options = {
        # What a job without a key's factors gets: the weights bound when the artifact is opened.
        "aot_inductor.package_constants_in_so": False,
        "always_keep_tensor_constants": True,
        "joint_graph_constant_folding": False,
        "aot_inductor.use_runtime_constant_folding": False,
        "freezing": False,
        **job.options(),
        "aot_inductor.package": True,
        "aot_inductor.output_path": str(work),
        "aot_inductor.precompile_headers": True,
        **parallel_loops.OPTIONS,
        **(CUDA_OPTIONS if job.on_gpu else {}),
    }
    if branches.has_control_flow(specialised.module.graph):
        # torch 2.11 plans the reuse of a branch's buffers by places in the program around it and
        # fails where it finds none; so each gets a buffer of its own.
        options["allow_buffer_reuse"] = False
    with contextlib.ExitStack() as stack:
        if job.on_gpu:
            stack.enter_context(cuda.weights_told_apart())
        stack.enter_context(index_arithmetic.installed())
        stack.enter_context(parallel_loops.installed())
        own_part = None
        if not job.on_gpu:
            stack.enter_context(onednn_calls.installed())
            stack.enter_context(interface_object.installed())
            own_part = interface_object.without
        generated = stack.enter_context(codegen.installed(specialised.calls, lambda: phases.enter("build"), own_part))
        files = compile_fx_aot(specialised.module, specialised.fakes, config_patches=options)
    assert isinstance(files, list)
    paths = [Path(file) for file in files if isinstance(file, str)]
    (library,) = [path for path in paths if path.suffix == ".so"]
    nodes = library.with_suffix(".json")
    if nodes in paths:
        named_calls.translate(nodes)
    unknown = set(generated.constants) - specialised.constants
    if unknown:
        raise Refused(f"the compiled code needs constants that the program does not have: {sorted(unknown)}")
    others = [path.name for path in paths if path.name.startswith("custom_obj")]
    if others:
        raise Refused(f"the program holds script objects ({', '.join(others)}), which can't be bound")
    return Built(library, nodes if nodes in paths else None, generated.constants, generated.not_capturable)


@contextlib.contextmanager
def _made(work: Path) -> Iterator[None]:
    work.mkdir(mode=0o700)
    try:
        yield
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _peak_rss_bytes() -> int:
    """The largest of this process and its compilers."""
    peaks = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(peaks) * 1024


def _field(message: dict[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    value = message.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name}: expected {kind}, got {value!r}")
    return value


def _mapping(message: dict[str, Any], name: str, kind: type) -> dict[str, Any]:
    value = _field(message, name, dict)
    for key in value:
        _field(value, key, kind)
    return value
