"""Compiling for a GPU, on a machine without one: all of it but the measuring of kernels and the running.

torch and Triton see a recorded H100 (tests/fakes/recorded_gpu.py); what they generate for it is real, machine
code included.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from compiler.guards.refused import Refused
from compiler.job import capturable, codegen, cuda, toolchain
from compiler.job.job import Job, Phases, build, open_gpu, run_job, specialise_for
from compiler.job.limits import causes, is_out_of_memory
from compiler.program.archive import load_program
from compiler.specialise import dynamic
from compiler.specialise.bucket_graph import Specialised, specialise
from tests.compiler.conftest import Compiler
from tests.fakes import recorded_gpu

H100 = {
    "device": "cuda", "cuda.arch": "sm_90", "cuda.sms": "132", "cuda.memory_gib": "79", "cuda.driver": "580",
    "cuda.toolkit": "13.0", "triton": "3.6.0",
}  # fmt: skip


def have_headers() -> bool:
    try:
        toolchain.cuda_home()
    except RuntimeError:
        return False
    return True


class Mixed(nn.Module):
    """What is easily left on the CPU: constants, sequences, scalars; and what fails on values."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 64)
        self.wide, self.narrow = nn.Linear(64, 256), nn.Linear(256, 64)
        self.norm = nn.LayerNorm(64)
        self.register_buffer("places", torch.arange(16), persistent=False)
        self.scale = torch.tensor(2.0)

    def forward(self, tokens: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.table(tokens) * self.scale + self.places[None, :, None] / 3
        x = x + torch.arange(tokens.shape[1])[None, :, None] + torch.full((), 1.5) + torch.ones(64)
        x = torch.where(tokens[..., None] > 3, x, torch.tensor(0.5))
        rows = torch.arange(tokens.shape[0])
        x = self.norm(x + self.narrow(nn.functional.gelu(self.wide(x))))
        return x.softmax(-1), other // (tokens + 1), x[rows, other[:, 0]], x.max(-1).indices


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.into(x).view(x.shape[0], x.shape[1], 3, 4, 16).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
        )  # fmt: skip

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layers(image)


class Half(nn.Module):
    """Exported as float16."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64).half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).softmax(-1)


class Bags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 16, mode="sum")

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.bag(tokens)


class Scatter(nn.Module):
    def forward(self, index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(x.shape[0], 20).scatter_add(1, index, x).cumsum(1)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "mixed": (Mixed, lambda: (torch.ones(4, 16, dtype=torch.int64), torch.ones(4, 16, dtype=torch.int64))),
    "attention": (Attention, lambda: (torch.randn(4, 8, 64),)),
    "convolutions": (Convolutions, lambda: (torch.randn(4, 3, 32, 32),)),
    "half": (Half, lambda: (torch.randn(4, 64).half(),)),
    "bags": (Bags, lambda: (torch.ones(4, 5, dtype=torch.int64),)),
    "scatter": (Scatter, lambda: (torch.ones(4, 7, dtype=torch.int64), torch.randn(4, 7))),
    "lstm": (lambda: nn.LSTM(16, 32, batch_first=True), lambda: (torch.randn(4, 5, 16),)),
}


def exported(name: str) -> torch.export.ExportedProgram:
    make, inputs = MODELS[name]
    given = inputs()
    batch = torch.export.Dim("batch", min=2, max=64)
    shapes = tuple({0: batch} for _ in given)
    return torch.export.export(make().eval(), given, dynamic_shapes=None if name == "lstm" else shapes)


def job_for(compiler: Compiler, program: torch.export.ExportedProgram, **factors: str) -> Job:
    """A request for the bucket of batch 8."""
    request = compiler.request(compiler.save(program), {str(s): 8 for s in program.range_constraints})
    return Job.parse({**request, "device": "cuda:0", "factors": {**H100, **factors}})


class Stop(Exception):
    """Thrown where g++ would start."""


def generated(job: Job, specialised: Specialised, folder: Path) -> tuple[str, str | None]:
    """The wrapper that Inductor wrote, its kernels compiled for the device, and why it can't be captured."""
    texts: list[str] = []
    seen: list[codegen.Generated] = []
    scan, installed = codegen.scan, codegen.installed

    def collect(code: str, what: str) -> None:
        texts.append(code)
        scan(code, what)

    @contextmanager
    def stopping(
        calls: Counter[str], before_build: Callable[[], None], own_part: Callable[[str], str] | None
    ) -> Iterator[codegen.Generated]:
        assert own_part is None  # wrappers for GPUs stay whole
        def stop() -> None:
            raise Stop

        with installed(calls, stop) as found:
            seen.append(found)
            yield found

    folder.mkdir()
    with (
        codegen.replaced(codegen, "scan", collect),
        codegen.replaced(codegen, "installed", stopping),
        pytest.raises(Exception) as raised,  # noqa: PT011 (Inductor wraps it)
    ):
        build(job, specialised, folder, Phases(lambda name: None))
    if not any(isinstance(cause, Stop) for cause in causes(raised.value)):
        raise raised.value
    return texts[0], seen[0].not_capturable


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("STOKER_CUDA_STUB", "CUDA_INC_PATH"):  # a job sets them for its process
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with recorded_gpu.present() as properties:
        yield properties
    torch.set_float32_matmul_precision("highest")


def test_what_is_left_on_the_cpu_is_moved(compiler: Compiler, gpu: Any) -> None:
    program = exported("mixed")
    symbol = str(next(iter(program.range_constraints)))
    result = specialise(program, {symbol: 8}, device="cuda:0")
    assert {fake.device for fake in result.fakes} == {torch.device("cuda:0")}
    devices = {
        str(argument)
        for node in result.module.graph.nodes
        for argument in (*node.args, *node.kwargs.values())
        if isinstance(argument, torch.device)
    }
    assert devices == {"cuda:0"}
    assert result.largest_tensor == 8 * 16 * 256 * 4
    assert len(result.guards) >= 3


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "tf32"])
def test_code_is_generated(compiler: Compiler, gpu: Any, tmp_path: Path, name: str, precision: str) -> None:
    job = job_for(compiler, exported(name), precision=precision)
    open_gpu_or_skip(job)
    specialised = specialise_for(job, load_program(job.program))
    wrapper, reason = generated(job, specialised, tmp_path / "work")
    assert reason is None
    assert "tl.device_assert" not in wrapper
    assert "AOTICudaStreamGuard" in wrapper
    assert "aoti_torch_cpu_" not in wrapper
    assert set(codegen.ORIGINAL_NAME.findall(wrapper)) <= specialised.constants


@pytest.mark.parametrize("name", ["mixed", "attention", "convolutions"])
def test_code_is_generated_for_any_size(compiler: Compiler, gpu: Any, tmp_path: Path, name: str) -> None:
    job = job_for(compiler, exported(name))
    job.sizes.clear()
    open_gpu_or_skip(job)
    specialised = specialise_for(job, load_program(job.program))
    generated(job, specialised, tmp_path / "work")
    sizes = dynamic.ranges(specialised.fakes)
    assert all(held is not None and held[0] == [2, 64] for held in sizes)


@pytest.mark.slow
def test_an_artifact_is_built_and_opens(compiler: Compiler, gpu: Any, tmp_path: Path) -> None:
    """Everything that it calls is there in a process that has torch's CUDA libraries and a driver."""
    quick = {"inductor.aot_inductor.compile_wrapper_opt_level": '"O0"'}
    job = job_for(compiler, exported("mixed"), precision="float16", **quick)
    open_gpu_or_skip(job)
    run_job(job, tmp_path / "work", lambda phase: None)
    assert {path.name for path in job.stage.iterdir()} == {"model.so", "manifest.json"}

    manifest = json.loads((job.stage / "manifest.json").read_text())
    assert (manifest["device"], manifest["capturable"], manifest["not_capturable"]) == ("cuda", True, None)
    assert manifest["toolchain"]["arch"] == "sm_90" and manifest["toolchain"]["ptxas"].startswith("V1")
    assert manifest["packed"] == ["narrow.weight", "wide.weight"] and manifest["packed_as"] == "float16"
    assert manifest["validity_output"] == 4
    assert {"table.weight", "scale", "places", "norm.bias"} <= set(manifest["constants"])

    library = job.stage / "model.so"
    needed = toolchain.needed_libraries(library)
    assert {"libtorch_cpu.so", "libtorch_cuda.so", "libc10.so", "libcuda.so.1"} <= needed
    assert not needed & {"libtorch.so", "libtorch_python.so"}
    assert b"triton_" in library.read_bytes()
    driver = stub_of_the_driver(library, tmp_path)
    code = f"import torch, ctypes, os; ctypes.CDLL({str(library)!r}, os.RTLD_NOW)"
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "LD_LIBRARY_PATH": str(driver)}, check=True, timeout=120
    )


def stub_of_the_driver(library: Path, folder: Path) -> Path:
    """A folder with a libcuda.so.1 that has what the artifact calls."""
    undefined = subprocess.run(
        ["nm", "-D", "--undefined-only", str(library)], capture_output=True, text=True, check=True
    ).stdout
    called = re.findall(r" U (cu[A-Z]\w*)", undefined)
    assert "cuLaunchKernel" in called
    source = folder / "driver.c"
    source.write_text("".join(f"int {name}(void) {{ return 100; }}\n" for name in called))
    target = folder / "libcuda.so.1"
    command = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    return folder


def open_gpu_or_skip(job: Job) -> None:
    if not have_headers():
        pytest.skip("no headers of CUDA: nvidia-cuda-crt, nvidia-cuda-cccl")
    open_gpu(job)


class Solve(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh(x) * 2


def test_an_operator_that_waits_is_not_captured(compiler: Compiler, gpu: Any, tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Solve(), (torch.randn(4, 8, 8),), dynamic_shapes=({0: batch},))
    job = job_for(compiler, program)
    open_gpu_or_skip(job)
    _, reason = generated(job, specialise_for(job, load_program(job.program)), tmp_path / "work")
    assert reason is not None and re.fullmatch(r"aten\._?linalg_eig\w*\.\w+: the host waits for its result", reason)


def graph_of(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.fx.Graph:
    """Its operators, on fakes."""
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function, tracing_mode="fake")(*inputs).graph


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x * 2, None),
        (lambda x: x.relu().cpu() + 1, "aten._to_copy.default: on the CPU"),
        (lambda x: x[torch.arange(3, device=x.device)], None),
        (lambda x: torch.nn.functional.dropout(x, 0.5), "draws random numbers"),
        (lambda x: torch.rand_like(x), "draws random numbers"),
        (lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x), None),
        (lambda x: torch.linalg.inv(x), "the host waits for its result"),
    ],
)
def test_what_is_in_the_way_of_a_graph(gpu: Any, function: Callable[..., Any], reason: str | None) -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(3, 8, 8, device="cuda:0")
        found = capturable.reason_against(graph_of(function, x))
    assert found is None if reason is None else found is not None and found.endswith(reason), found


def test_a_program_made_for_a_cpu_is_refused(gpu: Any) -> None:
    class Lowered(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)[0]
            return answer

    program = torch.export.export(Lowered(), (torch.randn(1, 2, 8, 16),))
    with pytest.raises(Refused, match="exists on CPUs only"):
        specialise(program, {}, device="cuda:0")


def test_the_weights_take_no_memory_on_the_device(gpu: Any) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    result = specialise(torch.export.export(model, (torch.randn(4, 64),)), {}, device="cuda:0")
    weights = [*result.module.parameters(), *result.module.buffers()]
    assert len(weights) == 4
    assert all(isinstance(weight, torch._subclasses.FakeTensor) and weight.is_cuda for weight in weights)
    with cuda.weights_told_apart():
        from torch._inductor.graph import is_same_tensor

        assert is_same_tensor(weights[0], weights[0]) and not is_same_tensor(weights[0], weights[2])


def test_another_device_than_the_keys_is_named(gpu: Any) -> None:
    facts = cuda.facts("cuda:0")
    cuda.check_facts(facts, H100)
    cuda.check_facts(facts, {})
    with pytest.raises(RuntimeError) as raised:
        cuda.check_facts(facts, {**H100, "cuda.arch": "sm_80", "cuda.sms": "108"})
    assert str(raised.value) == (
        "NVIDIA H100 80GB HBM3 is not the device of this job: cuda.arch is sm_90, the job asks for sm_80; "
        "cuda.sms is 132, the job asks for 108"
    )


def test_a_full_device_is_said_to_be_full(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.check_room("cuda:0", 1 << 30)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3 << 30, 79 << 30))
    with pytest.raises(cuda.NoRoom) as raised:
        cuda.check_room("cuda:0", 1 << 30)
    assert str(raised.value) == (
        "out of memory on cuda:0: a compile needs about 5120 MiB (1024 MiB for CUDA and 4 x 1024 MiB, the graph's "
        "largest tensor), 3072 MiB of 80896 MiB are free"
    )
    assert is_out_of_memory(raised.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": "cuda"}, "device: expected cpu or cuda:N, got 'cuda'"),
        ({"device": "cuda:-1"}, "device: expected cpu or cuda:N"),
        ({"factors": {"precision": "tf32"}}, "expected one of .*, got 'tf32', which is on a GPU only"),
        ({"factors": {"precision": "float16"}}, "which is on a GPU only"),
        ({"device": "cuda:0", "factors": {"precision": "int4"}}, "got 'int4'$"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    compiler: Compiler, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Job.parse({**compiler.request(tmp_path / "program.pt2", {}), **changes})


def test_headers_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(toolchain, "CUDA_HEADERS", ("no_such_header.h",))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=rf"no headers of CUDA 13.0 in .*{tmp_path}.*nvidia-cuda-crt"):
        toolchain.cuda_home()


def test_the_host_memory_that_a_job_may_use_grows_with_its_device() -> None:
    h100, h200 = cuda.host_bytes(H100), cuda.host_bytes({**H100, "cuda.memory_gib": "140"})
    assert 4 << 30 <= h100 < h200 and h200 >= 6 << 30
    assert cuda.host_bytes({}) >= cuda.host_bytes({"cuda.memory_gib": "288"})


@pytest.mark.parametrize(
    ("visible", "device", "one"),
    [(None, "cuda:2", "2"), ("3,1", "cuda:1", "1"), ("GPU-8f, MIG-a1", "cuda:1", "MIG-a1"), ("0", "cuda:0", "0")],
)
def test_a_job_sees_its_device_alone(visible: str | None, device: str, one: str) -> None:
    assert cuda.only(visible, device) == one


@pytest.mark.parametrize(("visible", "count"), [("0,1", 2), ("", 0)])
def test_a_device_that_is_hidden_is_named(visible: str, count: int) -> None:
    with pytest.raises(RuntimeError, match=rf"cuda:2 can't be opened: CUDA_VISIBLE_DEVICES names {count}, "):
        cuda.only(visible, "cuda:2")
