"""How each server is started, with the settings that served it best."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from loadtest.peers import environments
from loadtest.peers.workspace import Workspace
from loadtest.servers.inference_server import InferenceServer
from loadtest.servers.process import free_ports
from loadtest.servers.stokerd import Daemon

STOKER = "Stoker"
ECHO = "bare gRPC echo"
NULLS, MINILM = ("null", "payload"), ("minilm",)


@dataclass(frozen=True)
class Launch:
    """One way to start one server, and the scenarios that it is measured in."""

    server: str
    settings: str  # what is not the server's default
    models: tuple[str, ...]
    scenarios: tuple[str, ...]
    start: Callable[[Workspace, tuple[str, ...]], InferenceServer]
    peer: str | None = None  # the environment that it needs


def launches() -> list[Launch]:
    """All of them: first what computes nothing, then the demo model."""
    both = ("minilm_32", "minilm_mixed")
    return [
        Launch(STOKER, "", NULLS, NULLS, start_stoker),
        Launch(ECHO, "raw bytes", ("null",), ("null",), start_echo),
        Launch(ECHO, "raw bytes", ("payload",), ("payload",), start_echo),
        Launch("Triton's core", "null backend in C", NULLS, NULLS, start_triton_core, "triton"),
        Launch("Triton", "dynamic batching", NULLS, NULLS, start_triton, "triton"),
        Launch("MLServer", "no workers", NULLS, NULLS, start_mlserver_plain, "mlserver"),
        Launch("KServe", "no request log", NULLS, NULLS, start_kserve, "kserve"),
        Launch(STOKER, "", MINILM, both, start_stoker),
        Launch("Triton", "dynamic batching, ragged", MINILM, both, start_triton, "triton"),
        Launch("MLServer", "no workers", MINILM, both, start_mlserver_plain, "mlserver"),
        # Worse with one request under way, better with many; its batches can't be ragged.
        Launch(
            "MLServer batching", "up to 8, 10 ms", MINILM, ("minilm_32",), start_mlserver_batching, "mlserver"
        ),
        Launch("KServe", "no request log", MINILM, both, start_kserve, "kserve"),
    ]


def start_stoker(workspace: Workspace, models: tuple[str, ...]) -> InferenceServer:
    repository, log = workspace.stoker_repository(models), workspace.log("stoker")
    stokerd = workspace.build / "server/main/stokerd"
    return Daemon(repository, workspace.cache, log, binary=stokerd, grace_seconds=20)


def start_echo(workspace: Workspace, models: tuple[str, ...]) -> InferenceServer:
    """Of raw bytes, by the API that is faster here: its limit, not its habit."""
    (port,), (model,) = free_ports(1), models
    width = {"null": 16, "payload": 3 * 224 * 224}[model]
    command = [
        str(workspace.build / "loadtest/echo_server"),
        f"--listen=127.0.0.1:{port}",
        "--http-listen=none",
        "--form=raw",
        f"--model={model}",
        f"--input=x:FP32:-1,{width}",
        "--output=y:FP32:-1,16",
    ]
    return InferenceServer(command, port, workspace.log("echo"), folder=workspace.folder)


def start_triton(workspace: Workspace, models: tuple[str, ...]) -> InferenceServer:
    """Its Python backend; README.md says what was tried."""
    return _start_tritonserver(workspace, workspace.triton_repository(models))


def start_triton_core(workspace: Workspace, models: tuple[str, ...]) -> InferenceServer:
    return _start_tritonserver(workspace, workspace.triton_core_repository(models))


def _start_tritonserver(workspace: Workspace, repository: os.PathLike[str]) -> InferenceServer:
    (port,) = free_ports(1)
    server = environments.triton_folder(environments.environment("triton"))
    command = [
        str(server / "bin/tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={server / 'backends'}",
        "--grpc-address=127.0.0.1",
        f"--grpc-port={port}",
        "--allow-http=false",
        "--allow-metrics=false",
        "--disable-auto-complete-config",
    ]
    # Its Python backend ignores PYTHONPATH and takes the packages of the first python3 in PATH.
    path = f"{environments.python('triton').parent}:{os.environ['PATH']}"
    return InferenceServer(
        command, port, workspace.log("triton"), environment=os.environ | {"PATH": path}, folder=workspace.folder
    )


def start_mlserver_plain(workspace: Workspace, models: tuple[str, ...]) -> InferenceServer:
    return _start_mlserver(workspace, models, {"parallel_workers": 0}, {})


def start_mlserver_batching(workspace: Workspace, models: tuple[str, ...]) -> InferenceServer:
    batching: dict[str, object] = {"max_batch_size": 8, "max_batch_time": 0.01}
    return _start_mlserver(workspace, models, {"parallel_workers": 0}, batching)


def _start_mlserver(
    workspace: Workspace, models: tuple[str, ...], server: dict[str, object], model: dict[str, object]
) -> InferenceServer:
    http, grpc, metrics = free_ports(3)
    server = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics} | server
    repository = workspace.mlserver_repository(models, server, model)
    command = [str(environments.python("mlserver")), "-m", "mlserver.cli.main", "start", str(repository)]
    return InferenceServer(
        command, grpc, workspace.log("mlserver"), environment=environments.variables(), folder=workspace.folder
    )


def start_kserve(workspace: Workspace, models: tuple[str, ...]) -> InferenceServer:
    http, grpc = free_ports(2)
    command = [
        str(environments.python("kserve")),
        "-m",
        "loadtest.peers.adapters.kserve.serve",
        f"--http_port={http}",
        f"--grpc_port={grpc}",
        "--enable_latency_logging=false",
        *(f"minilm={workspace.program(m)}" if m == "minilm" else m for m in models),
    ]
    return InferenceServer(
        command, grpc, workspace.log("kserve"), environment=environments.variables(), folder=workspace.folder
    )
