"""A gRPC client on a bare socket, which sends what no library would and reads only when told to."""

from __future__ import annotations

import socket
import struct

from tests.integration.hpack import HeaderDecoder

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4
MAX_FRAME = 16384


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header_block(method: str, extra: dict[str, str] | None = None, path: str = "") -> bytes:
    """The headers of a call, each as a literal that is not indexed; `path` instead of a method of ours."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path or f"/inference.GRPCInferenceService/{method}",
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
        **(extra or {}),
    }

    def length(text: str) -> bytes:
        assert len(text) < 127
        return bytes([len(text)])

    return b"".join(
        b"\0" + length(name) + name.encode() + length(value) + value.encode()
        for name, value in headers.items()
    )


class RawClient:
    """One connection. Use as a context manager."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b""))
        self._next_stream = 1
        self._received = b""
        self._headers = HeaderDecoder()
        # What the server lets us send, of the connection and of each call.
        self.window: dict[int, int] = {0: 65535}
        self._initial_window = 65535

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Ends the connection as a process that was killed does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def open(self, method: str = "ModelInfer", extra: dict[str, str] | None = None, path: str = "") -> int:
        """Sends the headers of a call; its stream."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        self.window[stream] = self._initial_window
        self.socket.sendall(frame(HEADERS, END_HEADERS, stream, header_block(method, extra, path)))
        return stream

    def send(self, stream: int, data: bytes, last: bool = False) -> None:
        """Bytes of the call, whatever the server's windows say."""
        for start in range(0, len(data), MAX_FRAME):
            piece = data[start : start + MAX_FRAME]
            ends = last and start + MAX_FRAME >= len(data)
            self.socket.sendall(frame(DATA, END_STREAM if ends else 0, stream, piece))
            self.window[0] -= len(piece)
            self.window[stream] -= len(piece)

    def send_within_windows(self, stream: int, size: int, seconds: float) -> int:
        """Up to `size` zeros, as the server's windows allow; how many it took in that time."""
        return self.send_content(stream, bytes(size), seconds)

    def send_content(self, stream: int, content: bytes, seconds: float) -> int:
        """Bytes of the call, as the server's windows allow; how many it took in that time."""
        sent, size = 0, len(content)
        self.socket.settimeout(seconds)
        try:
            while sent < size:
                room = min(self.window[0], self.window[stream], MAX_FRAME, size - sent)
                if room <= 0:  # a server that is short of memory takes windows back
                    self._read_frame()
                    continue
                self.socket.sendall(frame(DATA, 0, stream, content[sent : sent + room]))
                self.window[0] -= room
                self.window[stream] -= room
                sent += room
        except (TimeoutError, ConnectionError):
            pass
        return sent

    def answer(self, stream: int) -> bytes:
        """Everything that came until the call has a status or is reset; headers as lines of text."""
        seen = b""
        while True:
            kind, _, of, payload = self._read_frame()
            if of == stream:
                seen += payload
                if kind == RST_STREAM or b"grpc-status: " in payload:
                    return seen

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            piece = self.socket.recv(65536)
            if not piece:
                raise ConnectionError("the server closed the connection")
            self._received += piece
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    def _read_frame(self) -> tuple[int, int, int, bytes]:
        head = self._take(9)
        kind, flags = head[3], head[4]
        stream = struct.unpack(">I", head[5:])[0]
        payload = self._take(int.from_bytes(head[:3], "big"))
        if kind == SETTINGS and not flags & ACK:
            self.socket.sendall(frame(SETTINGS, ACK, 0, b""))
            for at in range(0, len(payload), 6):
                setting, value = struct.unpack(">HI", payload[at : at + 6])
                if setting == INITIAL_WINDOW_SIZE:
                    for of in self.window.keys() - {0}:
                        self.window[of] += value - self._initial_window
                    self._initial_window = value
        elif kind == PING and not flags & ACK:
            self.socket.sendall(frame(PING, ACK, 0, payload))
        elif kind == HEADERS:
            payload = b"".join(b"%s: %s\n" % header for header in self._headers.decode(payload))
        elif kind == WINDOW_UPDATE and stream in self.window:
            self.window[stream] += struct.unpack(">I", payload)[0]
        return kind, flags, stream, payload


def message(content: bytes, claimed: int | None = None) -> bytes:
    """A gRPC message; its length may be a lie."""
    return struct.pack(">BI", 0, len(content) if claimed is None else claimed) + content
