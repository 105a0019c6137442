"""Proves that a model for a GPU is refused in one clear line where there is none, and all else is served."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from pathlib import Path

import pytest
from tritonclient.utils import InferenceServerException

from tests.integration.clients import check_mlp, infer, rows
from tests.integration.daemon import STOKERD, ctl

NO_DRIVER = "no NVIDIA driver"


@pytest.fixture(autouse=True)
def _no_driver() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    pytest.skip("this host has a driver")


@pytest.mark.parametrize(
    ("device", "arguments", "why"),
    [
        ("cuda:0", [], NO_DRIVER),
        ("cuda:auto", [], NO_DRIVER),
        ("[cuda:0, cuda:1]", [], NO_DRIVER),
        ("cuda:0", ["--cuda-library=/nowhere/libstoker_cuda.so"], "/nowhere/libstoker_cuda.so isn't there"),
        ("cuda:0", ["--cuda-library=/etc/hostname"], "/etc/hostname: "),
    ],
)
def test_one_line_says_what_is_missing(repository, start, device: str, arguments: list[str], why: str) -> None:
    root = repository("mlp", "identity")
    (root / "identity/model.yaml").write_text(f"device: {device}\n")
    with start(root, "--no-compile", *arguments) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        check_mlp(client)
        states = {line.name: (line.state, line.reason) for line in client.get_model_repository_index().models}
        assert states["mlp"][0] == "READY"
        state, reason = states["identity"]
        assert state == "UNAVAILABLE"
        assert reason.startswith(f"device {device.strip('[]')} was asked for: no GPU can be used: ")
        assert why in reason and "\n" not in reason
        with pytest.raises(InferenceServerException, match="unknown model: 'identity'.*was asked for"):
            infer(client, rows(1), "identity")
        assert daemon.stop() == 0


def test_a_default_device_is_for_models_that_say_none(repository, start) -> None:
    root = repository("mlp", "identity")
    (root / "mlp/model.yaml").write_text("device: cpu\nbuckets: []\n")
    with start(root, "--no-compile", "--default-device=cuda:0") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        check_mlp(client)
        states = {line.name: line.state for line in client.get_model_repository_index().models}
        assert states == {"mlp": "READY", "identity": "UNAVAILABLE"}
        assert daemon.stop() == 0


def test_the_daemon_itself_links_no_cuda() -> None:
    """But for the runtime that libtorch_cpu links; the library's only symbol is its door."""
    assert b"stoker_open_gpus" in (STOKERD.parent / "libstoker_cuda.so").read_bytes()
    assert b"libtorch_cuda.so" not in STOKERD.read_bytes()


# What has values in libstoker_cuda.so and in stokerd, each its own.
TWICE = {
    "GpuMonitor": "reads the driver's version with it, a constant",
    "torch_avx2": "of kernels that only stokerd replaces",
    "torch_default": "likewise",
    "ReplaceCpuKernels": "likewise",
    "RegisterOnce()": "of operators that only stokerd registers, with torch, which there is once",
    "RegisterOperatorsOnce()": "likewise",
    "Register()": "likewise",
    "reorder": "an operator of torch's, looked up once",
    "::describe": "likewise",
    "HasBfloat16": "of the processor",
    "LinearPointwise": "a function of libtorch's, looked up once",
    "EdgesOf": "constants",
    "LatencyEdges": "constants",
    "nothing": "no value",
    "Children::Ours": "the library starts no process",
    "UniqueSpelling": "the library opens no folder",
    "Clock::Real": "the clock comes through the door",
    "Files::Real": "has no state",
    "TheAllowed": "the library's is told to go by stokerd's",
    "TheLevels": "likewise",
    "::guarded": "each handles the lost pages of its own mappings, and asks the other",
    "::before": "likewise",
}
OWN = ("out_of_memory",)  # that stokerd hasn't got


def test_what_the_library_has_twice_is_known() -> None:
    """What stokerd is told (an option, a handler) holds in the library only where somebody saw to it."""
    library = STOKERD.parent / "libstoker_cuda.so"
    said = subprocess.run(["objdump", "-t", "-C", library], capture_output=True, text=True, check=True).stdout
    mutable = re.compile(r"\s\.t?(?:bss|data)\s+[0-9a-f]+\s+(?:\.hidden )?(stoker::.*)")
    found = [name for name in mutable.findall(said) if "SpareMemory::kKinds" not in name]
    assert len(found) > len(OWN)
    unknown = [name for name in found if not any(known in name for known in (*TWICE, *OWN))]
    assert not unknown, "which stokerd has, too: is it told to the library, or doesn't it matter?"


def test_keys_are_those_of_the_gpu_that_is_named(repository, start, tmp_path: Path) -> None:
    root = repository("mlp", "identity")
    (root / "mlp/model.yaml").write_text("device: cuda:0\n")
    with start(root, "--no-compile", cache=tmp_path / "cache") as daemon:
        daemon.wait_ready(60)
        said = ctl("plan", "mlp", "--model-repository", root, "--cache", tmp_path / "cache", code=4)
        assert "mlp:1 runs on cuda:0: its keys depend on that GPU" in said and "--gpu says what it is" in said
        keys = {planned(root, tmp_path / "cache", gpu) for gpu in ("sm_90:132:79:580", "sm_90:114:79:580")}
        assert len(keys) == 2 and all(keys)
        said = ctl("plan", "mlp", "--model-repository", root, "--gpu", "H100", code=2)
        assert "such as sm_90:132:79:580, got 'H100'" in said
        assert daemon.stop() == 0


def planned(root: Path, cache: Path, gpu: str) -> frozenset[str]:
    """The keys of a plan for a GPU that nobody here has."""
    table = json.loads(
        ctl("cache", "explain", "mlp", "--model-repository", root, "--cache", cache, "--gpu", gpu, "--json", code=1)
    )
    return frozenset(bucket["key"] for bucket in table)
