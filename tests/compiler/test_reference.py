"""The float64 run that a parity check asks for, as the daemon asks: in a process, over pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from compiler.reference import is_the_hosts
from compiler.sandbox import landlock, seccomp

REPOSITORY = Path(__file__).resolve().parents[2]


def ask(program: Path, inputs: list[Tensor]) -> list[Tensor]:
    outputs = reply(program, inputs)
    return [outputs[str(i)] for i in range(len(outputs))]


def reply(program: Path, inputs: list[Tensor]) -> dict[str, Tensor]:
    """What `python -m compiler.reference` writes, its reply pipe at descriptor 3."""
    pipe, end = os.pipe()
    script = f'exec 3>&{end}; exec "$0" -m compiler.reference "$1"'
    with subprocess.Popen(
        ["/bin/bash", "-c", script, sys.executable, str(program)],
        stdin=subprocess.PIPE, pass_fds=(end,), cwd=REPOSITORY, env={"PATH": os.environ["PATH"]},
    ) as process:  # fmt: skip
        os.close(end)
        assert process.stdin is not None
        process.stdin.write(save({str(i): tensor for i, tensor in enumerate(inputs)}))
        process.stdin.close()
        with os.fdopen(pipe, "rb") as file:
            answer = file.read()
    assert process.returncode == 0
    return load(answer)


class Mixed(nn.Module):
    """Weights, a constant, dtypes named in the graph, an integer output, several inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8)
        self.register_buffer("scale", torch.rand(8))
        self.bias = torch.rand(8)

    def forward(self, x: Tensor, ids: Tensor, *, half: Tensor) -> dict[str, Tensor]:
        y = self.linear(x) * self.scale + self.bias + torch.arange(8, dtype=torch.float32)
        z = y.to(torch.float16).to(torch.float32) + half.float()[:, :8]
        return {"y": y.softmax(-1), "z": z, "n": ids + z.argmax(-1)}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mixed, Path]:
    torch.manual_seed(0)
    model = Mixed().eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    example = (torch.randn(2, 16), torch.arange(2))
    program = torch.export.export(
        model, example, {"half": torch.randn(2, 8).half()},
        dynamic_shapes={"x": {0: batch}, "ids": {0: batch}, "half": {0: batch}},
    )  # fmt: skip
    path = tmp_path_factory.mktemp("reference") / "model.pt2"
    torch.export.save(program, path)
    return model, path


def test_everything_that_floats_is_float64(mixed: tuple[Mixed, Path]) -> None:
    model, path = mixed
    x, ids, half = torch.randn(5, 16), torch.arange(5), torch.randn(5, 8).half()
    y, z, n = ask(path, [x, ids, half])
    assert (y.dtype, z.dtype, n.dtype) == (torch.float64, torch.float64, torch.int64)
    exact = x.double() @ model.linear.weight.double().T + model.linear.bias.double()
    exact = exact * model.scale.double() + model.bias.double() + torch.arange(8).double()
    assert torch.allclose(y, exact.softmax(-1), rtol=1e-14, atol=1e-15)
    # The detour through float16 is gone too: only its input keeps what it was rounded to.
    assert torch.allclose(z, exact + half.double(), rtol=1e-13, atol=1e-13)
    assert torch.equal(n, ids + z.argmax(-1))


class Half(nn.Module):
    """float16 throughout, and float32 in the middle, as normalisations do."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8).to(dtype)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.linear(x)
        return {"y": y.float().softmax(-1).to(y.dtype), "n": y.argmax(-1)}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_of_half_the_size_throughout_is_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = Half(dtype).eval(), torch.randn(5, 16, dtype=dtype)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    y, n = ask(tmp_path / "model.pt2", [x])
    assert (y.dtype, n.dtype) == (torch.float64, torch.int64)
    assert torch.equal(y, y.float().double())
    exact = (x.double() @ model.linear.weight.double().T + model.linear.bias.double()).softmax(-1)
    # A thousandth of what the program itself is apart.
    apart = (model(x)["y"].double() - exact).abs().max()
    assert 0 < (y - exact).abs().max() < apart / 1000


class Reinterpreted(nn.Module):
    """Takes floats for what their bits say, of which float64 has twice as many."""

    def forward(self, x: Tensor) -> Tensor:
        return x + x.view(torch.int32)


def test_a_program_without_a_float64_form_is_refused(tmp_path: Path) -> None:
    x = torch.randn(2, 4)
    torch.export.save(torch.export.export(Reinterpreted(), (x,)), tmp_path / "model.pt2")
    refused = reply(tmp_path / "model.pt2", [x])["refused"]
    assert bytes(refused.tolist()).decode().startswith("RuntimeError: The size of tensor a (4) must match")


@pytest.mark.parametrize(
    ("error", "hosts"),
    [
        (MemoryError(), True),
        (OSError("no space left"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
        (RuntimeError("expected Float but found Double"), False),
        (NotImplementedError("no kernel"), False),
    ],
)
def test_what_the_host_lacks_says_nothing_of_the_program(error: Exception, hosts: bool) -> None:
    assert is_the_hosts(error) == hosts


def test_a_program_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(b"nothing")
    with pytest.raises(AssertionError):
        ask(tmp_path / "model.pt2", [torch.zeros(1)])


ATTEMPTS = """
import os, socket, sys
from pathlib import Path
from compiler.reference import held_to

program, secret = map(Path, sys.argv[1:])
found = held_to(program)
assert found.read_bytes()[:2] == b"PK"
attempts = {
    "read": lambda: secret.read_text(),
    "write": lambda: secret.write_text("x"),
    "make": lambda: secret.with_name("new").touch(),
    "change the program": lambda: open(program, "r+b"),
    "list": lambda: os.listdir(secret.parent),
    "connect": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
    "signal": lambda: os.kill(os.getppid(), 0),
    "leave": lambda: os.setsid(),
}
for name, attempt in attempts.items():
    try:
        attempt()
        print(name)
    except PermissionError:
        pass
"""


@pytest.mark.skipif(landlock.version() < landlock.WITH_SIGNALS, reason="this kernel has no Landlock of version 6")
@pytest.mark.skipif(not seccomp.available(), reason="this kernel takes no seccomp filter")
def test_a_program_reads_what_it_needs_and_reaches_nobody(mixed: tuple[Mixed, Path], tmp_path: Path) -> None:
    secret = tmp_path / "home" / ".netrc"
    secret.parent.mkdir()
    secret.write_text("a password")
    done = subprocess.run(
        [sys.executable, "-c", ATTEMPTS, mixed[1], secret], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert secret.read_text() == "a password"
