"""What the parent does once, so that no job has to: most of what Inductor spends on a small model is first use."""

from __future__ import annotations

import contextlib
import gc
import shutil
from pathlib import Path

from compiler.job import cuda, toolchain
from compiler.job.job import Job, run_job
from compiler.worker import warm_program


def prewarm(scratch: Path, work: Path) -> None:
    """Does once what every compile of a fresh process would do: imports, tables, headers."""
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(ImportError):  # Inductor's progress bars start a thread where they can
        from tqdm import tqdm

        tqdm.monitor_interval = 0
    stage = work / "prewarm"
    stage.mkdir()
    program = work / "prewarm.pt2"
    with cuda.left_alone():
        sizes = warm_program.save(program)
        march, simdlen = toolchain.host_target()
        job = Job(
            id=0, key="", factors={}, model="prewarm", bucket="", program=program, sizes=sizes, threads=2,
            march=march, simdlen=simdlen, stage=stage, scratch=scratch, timeout_seconds=0, memory_bytes=0,
        )  # fmt: skip
        run_job(job, work / "prewarming", lambda phase: None)
    shutil.rmtree(stage)
    program.unlink()
    torch._inductor.config.aot_inductor.metadata.clear()
    gc.collect()
    gc.freeze()
