"""A GPU that isn't there: TorchInductor and Triton compile for it, up to the machine code, and nothing runs.

What they ask of a device while they compile (properties, streams, the driver) is answered as an H100 answered
it. Where they would measure a kernel to choose among its configurations, the first is taken.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from compiler.job import cuda

# One NVIDIA H100 80GB HBM3 with driver 580, as torch 2.11 describes it.
H100 = {
    "name": "NVIDIA H100 80GB HBM3",
    "major": 9,
    "minor": 0,
    "total_memory": 85017493504,
    "multi_processor_count": 132,
    "regs_per_multiprocessor": 65536,
    "max_threads_per_multi_processor": 2048,
    "max_threads_per_block": 1024,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 232448,
    "shared_memory_per_multiprocessor": 233472,
    "warp_size": 32,
    "L2_cache_size": 52428800,
    "is_integrated": 0,
    "gcnArchName": "",
}
FREE_BYTES = 84_000_000_000


@contextlib.contextmanager
def present(**changes: Any) -> Iterator[SimpleNamespace]:
    """Within, torch and Triton see one H100; `changes` are properties that it has instead."""
    import torch
    import torch._inductor.config
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
    from torch._inductor.fx_passes import pad_mm
    from torch._inductor.runtime import triton_heuristics
    from torch._subclasses import fake_tensor
    from triton.compiler import CompiledKernel
    from triton.runtime import driver

    properties = SimpleNamespace(**{**H100, **changes})
    # What torch.cuda's functions come down to: some of them are held elsewhere by reference.
    answers = {
        "_lazy_init": lambda: None,
        "init": lambda: None,
        "is_initialized": lambda: True,
        "set_device": lambda device: None,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "_get_device_properties": lambda device: properties,
        "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda state, device=None: None,
        "mem_get_info": lambda device=None: (FREE_BYTES, properties.total_memory),
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
    }
    calls = {
        "_cuda_getDeviceCount": 1,
        "_cuda_getDevice": 0,
        "_cuda_getCurrentRawStream": 0,
        "_cuda_exchangeDevice": 0,
        "_cuda_maybeExchangeDevice": 0,
        "_cuda_setDevice": None,
        "_cuda_synchronize": None,
    }
    with contextlib.ExitStack() as stack:
        # What is replaced here is this process's: another one would look for a real GPU.
        stack.enter_context(torch._inductor.config.patch(compile_threads=1))
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer, create=True))
        for name in ("exchange_device", "maybe_exchange_device", "get_raw_stream"):
            stack.enter_context(mock.patch.object(CudaInterface, name, mock.Mock(return_value=0)))
        for name, result in calls.items():
            stack.enter_context(mock.patch.object(torch._C, name, mock.Mock(return_value=result)))
        stack.enter_context(mock.patch.object(fake_tensor, "init_gpu_context", lambda device: None))
        # As where torch sees no GPU: tensors are never made on it, whatever the guard of a device does.
        stack.enter_context(
            mock.patch.object(fake_tensor.FakeTensorMode, "avoid_device_init", property(lambda self: True))
        )
        stack.enter_context(mock.patch.object(cuda, "driver_branch", lambda: "580"))
        stack.enter_context(mock.patch.object(driver, "_active", _driver(properties)))
        stack.enter_context(mock.patch.object(CompiledKernel, "_init_handles", _loaded))
        stack.enter_context(
            mock.patch.object(triton_heuristics.CachingAutotuner, "run", _first_configuration)
        )
        # Whether padding a product makes it faster would be measured.
        stack.enter_context(mock.patch.object(pad_mm, "should_pad", lambda *_, **__: False))
        tune = PythonWrapperCodegen.generate_and_run_autotune_block

        def tune_with_fakes(self: Any) -> None:
            with torch._subclasses.FakeTensorMode():
                tune(self)

        stack.enter_context(
            mock.patch.object(PythonWrapperCodegen, "generate_and_run_autotune_block", tune_with_fakes)
        )
        yield properties


def run_worker(arguments: list[str]) -> int:
    """A compile worker whose jobs find the GPU when they open it; its parent finds none, as it does anywhere."""
    from compiler.worker import __main__ as worker

    gpu = present()  # until the process ends

    def opened(device: str) -> str:
        cuda._forget_absence()
        gpu.__enter__()
        return "cuda:0"

    with mock.patch.object(cuda, "open_device", opened):
        return worker.main(arguments)


def _driver(properties: SimpleNamespace) -> Any:
    """The part of Triton's driver that compiling needs."""
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget

    class Driver(backends["nvidia"].driver):  # type: ignore[misc]
        def __init__(self) -> None:
            self.get_current_device = lambda: 0

        def get_current_target(self) -> GPUTarget:
            return GPUTarget("cuda", properties.major * 10 + properties.minor, properties.warp_size)

    return Driver()


def _loaded(kernel: Any) -> None:
    """In the place of loading machine code onto the device."""
    kernel.module, kernel.function = object(), 0
    kernel.n_regs, kernel.n_spills, kernel.n_max_threads = 32, 0, 1024
    # What it would be launched by.
    kernel._run = lambda *arguments, **options: None


def _first_configuration(tuner: Any, *arguments: Any, stream: int, **options: Any) -> None:
    """In the place of running a kernel: notes the first configuration's machine code, as for the fastest."""
    if not tuner.launchers:
        tuner.precompile()
    tuner.launchers = tuner.launchers[:1]
    tuner.save_gpu_kernel(stream, tuner.launchers[0])


if __name__ == "__main__":
    sys.exit(run_worker(sys.argv[1:]))
