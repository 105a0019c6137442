"""A server of the Open Inference Protocol (KServe v2 over gRPC) on a port of loopback."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loadtest.servers.process import ServerProcess, listens

if TYPE_CHECKING:
    import tritonclient.grpc as triton


class InferenceServer(ServerProcess):
    """Any such server whose port is known before it is launched; that it is free is the caller's business.

    `ready_seconds`, from the launch, and `version` are known after `wait_ready`.
    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        port: int,
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        grace_seconds: float = 20,
        descriptors: Sequence[int] = (),
    ) -> None:
        self.port = port
        self.ready_seconds = 0.0
        self.version = ""
        super().__init__(
            command,
            log,
            environment=environment,
            folder=folder,
            grace_seconds=grace_seconds,
            descriptors=descriptors,
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def client(self) -> triton.InferenceServerClient:
        """A new one; the caller closes it."""
        import tritonclient.grpc

        return tritonclient.grpc.InferenceServerClient(self.address)

    def wait_ready(self, seconds: float = 900, models: Sequence[str] = ()) -> None:
        """Until the server says that it is ready, or that each of `models` is. Raises ServerError."""
        from tritonclient.utils import InferenceServerException

        # gRPC waits a second before it tries again a port that nobody listens on yet.
        self.until(lambda: listens(self.port), seconds, "it listens")
        with self.client() as client:

            def ready() -> bool:
                try:
                    if not models:
                        return client.is_server_ready(client_timeout=5)
                    return all(client.is_model_ready(model, client_timeout=5) for model in models)
                except InferenceServerException:
                    return False  # busy with starting, or it doesn't know the model yet

            self.ready_seconds = self.until(ready, seconds, "it is ready")
            self.version = client.get_server_metadata().version
