"""The protocol between stokerd and its compile worker: one JSON object a line.

stokerd starts `python -m compiler.worker --reply-fd N`. Jobs arrive on stdin, replies leave on
descriptor N, and everything written to stdout or stderr is log text. The worker ends when its
stdin closes. Several jobs may be outstanding; replies carry the job's id.

stokerd → worker

    {"op": "compile", "id": 7,
     "key": "<64 hex digits>",            goes into the manifest
     "factors": {"graph": "...", ...},    likewise, strings only
     "model": "minilm:1", "bucket": "batch=8,tokens=32",     names for people
     "program": "/proc/4711/fd/9",        the .pt2, as stokerd holds it open
     "passes": "/models/minilm/passes.py",  custom passes over the graph; "" without any
     "operators": {"mine": "/opt/libmine.so"},  libraries of operators that the program calls; their SHA-256 is a
                                          factor, "operators.mine", and is compared when they are opened
     "sizes": {"s43": 8, "s53": 32},      graph symbol → size; one that is absent stays dynamic
     "device": "cpu",                     where it will run; "cuda:0": a GPU, by this process' numbers
     "march": "x86-64-v4", "simdlen": 512,  0: scalar code
     "stage": "/cache/v1/staging/x",      an empty folder that gets the artifact
     "scratch": "/cache/v1/scratch",      Inductor's caches, kept between jobs and workers
     "timeout_seconds": 900, "memory_bytes": 8589934592}

    {"op": "cancel", "id": 7}             the job's process group is killed; replied as "failed"

worker → stokerd

    {"event": "ready", "pid": 1234, "torch": "2.11.0+cu130", "seconds": 12.3,     once, first
     "sandbox": "landlock 7, seccomp"}       what holds jobs here; "none"
    {"event": "phase", "id": 7, "phase": "load"}       load, specialise, lower, build, package
    {"event": "done", "id": 7, "phases": {"load": 0.4, ...}, "seconds": 18.2,
     "attest": {"program": "<64 hex digits>",   program.archive.content_digest of what was read,
                "recipe": "...", "python": "3.11", "sympy": "1.14.0", "torch.git": "...",
                "operators.mine": "<64 hex digits>"}}
                                            and the code that compiled it: stokerd compares
    {"event": "failed", "id": 7, "kind": "...", "message": "...", "seconds": 3.1}

`kind` is one of
    refused   the program can't be compiled into code that is safe on every value; final
    error     the compiler failed; `message` ends with the last lines of its log
    timeout   timeout_seconds passed
    memory    memory_bytes was exceeded, by all of the job's processes together
    crashed   the job's process ended without a reply; `message` says how
    cancelled

The staged folder, when a job is done, holds exactly the files of manifest.json and the manifest:

    model.so        the generated code, weights excluded, NEEDED libtorch_cpu but not libtorch
    model.json      extern kernel nodes for the proxy executor, when there are any
    manifest.json   {"schema": 1, "key": "...", "model": "...", "bucket": "...",
                     "factors": {...},
                     "files": {"model.so": {"bytes": 712345, "sha256": "..."}, ...},
                     "toolchain": {"torch": "2.11.0+cu130", "torch_git": "...", "cxx": "g++ ... 12.2.0",
                                   "python": "3.11.7", "march": "x86-64-v4", "simdlen": 512},
                     "inputs": [{"name": "input_ids", "dtype": "int64", "shape": [8, 32]}],
                     "outputs": 2,               outputs of the program, without the validity
                     "validity_output": 2,       index of the extra int64 output, or null without guards:
                                                 shape [batch], or [1] when rows can't be told apart;
                                                 bit i of an element is set where guard i failed
                     "guards": [{"bit": 0, "operator": "aten.embedding.default",
                                 "input": "input_ids",       the program's input, or null when not known
                                 "message": "index out of range, expected 0 <= index < 30522"}],
                     "constants": ["m.embeddings.word_embeddings.weight", ...],   names it must be given
                     "packed": ["m.layer.weight", ...],    those of them that oneDNN packs (specialise/onednn.py),
                     "packed_as": "float32",    or rounded to "bfloat16"; on a GPU they are only rounded,
                                                to that or to "float16", and lie as they did
                     "convolutions": [{"weight": "m.conv.weight", "stride": [2, 2], "padding": [3, 3],
                       "dilation": [1, 1], "groups": 1, "input": [1, 3, 224, 224]}, ...],
                                                whose weights oneDNN takes in the layouts that it wants
                                                (specialise/convolutions.py)
                     "device": "cuda",          with what follows; absent for a CPU
                     "capturable": false, "not_capturable": "aten.inverse.default: the host waits for ...",
                     "phases": {...}, "seconds": 18.2, "peak_rss_bytes": 812345678}

With "device": "cuda:0" the factors may name cuda.arch (sm_90), cuda.sms, cuda.memory_gib, cuda.driver (580),
cuda.toolkit (13.0) and triton (3.6.0): a job fails with "error" where the device is another one. Its model.so
needs libtorch_cuda and libcuda.so.1 too, and holds the kernels' machine code.

A dimension that stays dynamic has -1 in "shape". With more than 62 guards, bit 62 stands for all
the guards from the 63rd on, and its message says so.
"""

from __future__ import annotations

import json
import os
from typing import Any

PHASES = ("load", "specialise", "lower", "build", "package")


def encode(message: dict[str, Any]) -> bytes:
    """One protocol line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def send(fd: int, message: dict[str, Any]) -> None:
    """Writes one line whole: lines of up to PIPE_BUF bytes never interleave between processes."""
    data = encode(message)
    while data:
        data = data[os.write(fd, data) :]
