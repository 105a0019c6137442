"""HTTP/1.1 for tests: requests whose every byte is the test's, and inferences in the protocol's two forms."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

Json = dict[str, Any]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes = b""
    interim: list[int] = field(default_factory=list)  # statuses before it, such as 100

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json()["error"])


class Connection:
    """A connection on which the test sends bytes and reads answers; `source`: the address that it comes from."""

    def __init__(self, port: int, seconds: float = 60, source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds, source_address=(source, 0))
        self._kept = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        self.send(request(method, path, body, headers))
        return self.answer(has_body=method != "HEAD")

    def answer(self, has_body: bool = True) -> Answer:
        interim: list[int] = []
        while True:
            status, headers = self._head()
            if status >= 200:
                break
            interim.append(status)
        size = int(headers["content-length"]) if has_body else 0
        return Answer(status, headers, self._take(size), interim)

    def closed(self) -> bool:
        """Whether nothing but the end comes."""
        try:
            return self._kept == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _head(self) -> tuple[int, dict[str, str]]:
        while b"\r\n\r\n" not in self._kept:
            self._more()
        head, self._kept = self._kept.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        return int(first.split()[1]), {name.lower(): value for name, value in pairs}

    def _take(self, size: int) -> bytes:
        while len(self._kept) < size:
            self._more()
        taken, self._kept = self._kept[:size], self._kept[size:]
        return taken

    def _more(self) -> None:
        more = self.socket.recv(1 << 16)
        if not more:
            raise EOFError("the server closed the connection")
        self._kept += more


def request(method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: here"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def ask(
    port: int, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    with Connection(port) as connection:
        return connection.ask(method, path, body, headers)


def infer(port: int, model: str, message: Json, **headers: str) -> Answer:
    """With its elements in JSON."""
    return ask(port, "POST", f"/v2/models/{model}/infer", json.dumps(message).encode(), headers)


def binary(message: Json, elements: Sequence[bytes]) -> tuple[bytes, dict[str, str]]:
    """A body with the elements behind the JSON, and its header."""
    text = json.dumps(message).encode()
    return text + b"".join(elements), {"Inference-Header-Content-Length": str(len(text))}


def floats(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)
