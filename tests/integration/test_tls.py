"""TLS and mutual TLS on the gRPC port, by the clients that people have."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import torch
import tritonclient.grpc as triton

from loadtest.servers.process import ServerError, ServerProcess
from loadtest.servers.stokerd import LISTENING, command
from tests.integration.certificates import Authority
from tests.integration.daemon import Daemon, ctl, eventually, health_page
from tests.integration.wire import assert_same, eager, raw_request, read, stub

X = {"x": torch.linspace(-1, 1, 16).reshape(1, 16)}
SERVER_NAMES = "DNS:localhost,IP:127.0.0.1"


@dataclass
class Pair:
    certificate: Path
    key: Path

    def flags(self) -> list[str]:
        return [f"--tls-certificate={self.certificate}", f"--tls-key={self.key}"]


@dataclass
class Secured:
    """A daemon with mutual TLS."""

    daemon: Daemon
    authority: Authority
    server: Pair
    client: Pair

    def channel(self, client: Pair | None = None) -> grpc.Channel:
        own = client or self.client
        return grpc.secure_channel(
            self.daemon.address,
            grpc.ssl_channel_credentials(
                self.authority.certificate.read_bytes(), own.key.read_bytes(), own.certificate.read_bytes()
            ),
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )

    def ask(self, channel: grpc.Channel) -> None:
        assert_same(read(stub(channel).ModelInfer(raw_request("identity", X), timeout=30)), eager("identity", X))

    def failures(self, reason: str) -> float:
        return self.daemon.metric("stoker_tls_handshakes_failed_total", reason=reason)


def serve(root: Path, folder: Path, *flags: str) -> Daemon:
    return Daemon(root, folder / "cache", folder / "stokerd.log", "--no-compile", *flags)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, exported: Callable[[str], Path]) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    (folder / "models").mkdir()
    for model in ("identity", "heavy", "wide"):
        (folder / "models" / model).symlink_to(exported(model))
    authority = Authority(folder / "pki")
    server = Pair(*authority.sign("server", SERVER_NAMES))
    client = Pair(*authority.sign("client", "DNS:batch.example.com"))
    flags = [*server.flags(), f"--tls-client-ca={authority.certificate}", "--tls-client-name=*.example.com",
             "--tls-client-name=spiffe://cluster/asker"]  # fmt: skip
    with serve(folder / "models", folder, *flags) as daemon:
        eventually(lambda: "ready " in daemon.log(), "it is ready")
        yield Secured(daemon, authority, server, client)


def refused(secured: Secured, client: Pair | None, reason: str) -> None:
    before = secured.failures(reason)
    with secured.channel(client) as channel, pytest.raises(grpc.RpcError) as error:
        secured.ask(channel)
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    eventually(lambda: secured.failures(reason) > before, f"{reason} is counted", 20)


def test_the_real_client(secured: Secured) -> None:
    client = triton.InferenceServerClient(
        secured.daemon.address,
        ssl=True,
        root_certificates=str(secured.authority.certificate),
        private_key=str(secured.client.key),
        certificate_chain=str(secured.client.certificate),
    )
    with client:
        assert client.is_server_ready()
        data = triton.InferInput("x", [1, 16], "FP32")
        data.set_data_from_numpy(X["x"].numpy())
        client.infer("identity", [data])


def test_who_has_no_certificate_may_ask_the_pages_for_health(secured: Secured) -> None:
    for service in ("liveness", "readiness", "startup"):
        assert health_page(secured.daemon, service) == (200, "serving\n")


def test_large_messages_both_ways(secured: Secured) -> None:
    asked = {"x": torch.linspace(-1, 1, 1 << 20).reshape(1, -1)}
    with secured.channel() as channel:
        for _ in range(3):
            answer = stub(channel).ModelInfer(raw_request("heavy", asked), timeout=60)
            assert_same(read(answer), eager("heavy", asked))
        request = raw_request("wide", X)
        pending = [stub(channel).ModelInfer.future(request, timeout=60) for _ in range(8)]
        for one in pending:
            assert_same(read(one.result()), eager("wide", X))


def test_two_hundred_connections(secured: Secured) -> None:
    with ExitStack() as open_channels:
        channels = [open_channels.enter_context(secured.channel()) for _ in range(200)]
        request = raw_request("identity", X)
        pending = [stub(channel).ModelInfer.future(request, timeout=60) for channel in channels]
        for one in pending:
            assert_same(read(one.result()), eager("identity", X))


def test_a_uri_is_a_name(secured: Secured) -> None:
    with secured.channel(Pair(*secured.authority.sign("asker", "URI:spiffe://cluster/asker"))) as channel:
        secured.ask(channel)


def test_a_name_that_is_not_let_in(secured: Secured) -> None:
    refused(secured, Pair(*secured.authority.sign("stranger", "DNS:example.com,DNS:a.b.example.com")), "name")


def test_hosts_of_other_names_are_none(secured: Secured) -> None:
    names = "email:ann@batch.example.com,URI:https://batch.example.com"
    refused(secured, Pair(*secured.authority.sign("ann", names)), "name")


def test_an_expired_client(secured: Secured) -> None:
    late = secured.authority.sign("late", "DNS:batch.example.com", expired=True)
    refused(secured, Pair(*late), "expired")


def test_a_client_of_another_authority(secured: Secured, tmp_path: Path) -> None:
    refused(secured, Pair(*Authority(tmp_path, "another").sign("client", "DNS:batch.example.com")), "certificate")


def shake(secured: Secured, context: ssl.SSLContext) -> None:
    """A handshake, and what the server says to it."""
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", secured.daemon.port), timeout=20) as plain:
        with context.wrap_socket(plain) as encrypted:
            encrypted.recv(1)


def raw_context(secured: Secured, *protocols: str, own: bool = True) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if own:
        context.load_cert_chain(secured.client.certificate, secured.client.key)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def test_a_client_without_a_certificate(secured: Secured) -> None:
    before = secured.failures("no_certificate")
    with pytest.raises(ssl.SSLError, match="certificate.required|CERTIFICATE_REQUIRED"):
        shake(secured, raw_context(secured, "h2", own=False))
    assert secured.failures("no_certificate") == before + 1


@pytest.mark.parametrize("protocols", [(), ("http/1.1",)])
def test_another_protocol(secured: Secured, protocols: tuple[str, ...]) -> None:
    before = secured.failures("alpn")
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        shake(secured, raw_context(secured, *protocols))
    assert secured.failures("alpn") == before + 1


def test_an_old_version(secured: Secured) -> None:
    before = secured.failures("version")
    context = raw_context(secured, "h2")
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match="(?i)version"):
        shake(secured, context)
    assert secured.failures("version") == before + 1


def test_version_1_2_is_enough(secured: Secured) -> None:
    context = raw_context(secured, "h2")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    shake(secured, context)


def test_plain_text_to_a_port_with_tls(secured: Secured) -> None:
    before = secured.failures("plain_text")
    with grpc.insecure_channel(secured.daemon.address) as channel, pytest.raises(grpc.RpcError):
        secured.ask(channel)
    assert secured.failures("plain_text") > before
    assert secured.daemon.log().count("doesn't speak TLS") == 1


def test_a_client_that_stops_amid_its_handshake(secured: Secured) -> None:
    with ExitStack() as stalled:
        for _ in range(50):
            one = stalled.enter_context(socket.create_connection(("127.0.0.1", secured.daemon.port)))
            one.sendall(bytes.fromhex("1603010200010001"))
        with secured.channel() as channel:
            taken = []
            for _ in range(100):
                start = time.monotonic()
                secured.ask(channel)
                taken.append(time.monotonic() - start)
    assert sorted(taken)[90] < 0.25


def test_the_operators_tool(secured: Secured) -> None:
    flags = [f"--tls-ca={secured.authority.certificate}", *secured.client.flags()]
    address = ["--grpc", secured.daemon.address]
    assert ctl("health", *address, *flags) == "serving\n"
    assert ctl("health", *address, *flags, "--tls-server-name=localhost") == "serving\n"
    ctl("health", *address, *flags, "--tls-server-name=elsewhere", code=4)
    ctl("health", *address, code=4)
    ctl("health", *address, *secured.client.flags(), code=2)


@contextmanager
def traffic(secured: Secured, failed: list[Exception]) -> Iterator[None]:
    """New connections and old ones, one request after the other."""
    over = threading.Event()

    def ask() -> None:
        with secured.channel() as kept:
            while not over.is_set():
                try:
                    secured.ask(kept)
                    with secured.channel() as fresh:
                        secured.ask(fresh)
                except Exception as error:
                    failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_files_are_exchanged_under_traffic(secured: Secured) -> None:
    def reloads(outcome: str) -> float:
        return secured.daemon.metric("stoker_tls_reloads_total", outcome=outcome)

    def shown() -> str:
        context = raw_context(secured, "h2")
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", secured.daemon.port)) as plain:
            with context.wrap_socket(plain) as encrypted:
                return ssl.DER_cert_to_PEM_cert(encrypted.getpeercert(binary_form=True) or b"")

    failed: list[Exception] = []
    old = shown()
    fresh = Pair(*secured.authority.sign("fresh", SERVER_NAMES))
    whole = fresh.certificate.read_text()
    ok, wrong = reloads("ok"), reloads("failed")
    with traffic(secured, failed):
        secured.server.certificate.write_text(whole[: len(whole) // 2])
        eventually(lambda: reloads("failed") == wrong + 1, "half a certificate is found", 30)
        secured.server.certificate.write_text(whole)  # which isn't the old key's
        eventually(lambda: reloads("failed") == wrong + 2, "the wrong pair is found", 30)
        assert shown() == old
        fresh.key.rename(secured.server.key)
        eventually(lambda: reloads("ok") == ok + 1, "the new pair is used", 30)
        assert shown() != old
    assert not failed
    assert secured.daemon.metric("stoker_tls_certificate_expiry_timestamp_seconds") > time.time() + 86_400


@pytest.mark.parametrize("port", ["port", "http_port", "metrics_port"])
def test_tls_to_a_port_without(tmp_path: Path, repository: Callable[..., Path], port: str) -> None:
    with serve(repository("identity"), tmp_path) as daemon:
        daemon.wait_ready()
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", getattr(daemon, port))) as plain, suppress(OSError):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                context.wrap_socket(plain)
        # The client may hear of the end before it is counted.
        ended = "stoker_connections_ended_total"
        eventually(lambda: daemon.metric(ended, reason="tls") == 5, "all five have ended")
        assert daemon.log().count("speaks TLS to a port without") == 1
        daemon.wait_ready()


def halve(file: Path) -> None:
    text = file.read_text()
    file.write_text(text[: len(text) // 2])


def with_passphrase(key: Path) -> Path:
    secret = key.with_suffix(".secret")
    command: list[str | Path] = ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:x", "-out", secret]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return secret


WRONG = {
    "another key": "is not the key of the certificate",
    "no PEM": "expected certificates in PEM form, found none",
    "half a certificate": "expected certificates in PEM form, found half a one",
    "half a chain": "expected certificates in PEM form, found half a one",
    "half a key": "expected a private key in PEM form without a passphrase, found none",
    "a passphrase": "expected a private key in PEM form without a passphrase, found none",
    "swapped": "expected certificates in PEM form, found none",
    "expired": "expired",
    "no authority": "may not sign others (no CA:TRUE)",
    "half an authority": "expected certificates in PEM form, found half a one",
}


@pytest.mark.parametrize("what", WRONG)
def test_files_that_are_wrong(tmp_path: Path, repository: Callable[..., Path], what: str) -> None:
    authority = Authority(tmp_path / "pki")
    own = Pair(*authority.sign("server", SERVER_NAMES, expired=what == "expired"))
    other = Pair(*authority.sign("other", SERVER_NAMES))
    flags = own.flags()
    named = own.certificate
    if what == "another key":
        flags, named = Pair(own.certificate, other.key).flags(), other.key
    elif what == "no PEM":
        own.certificate.write_text("certificate")
    elif what == "half a certificate":
        halve(own.certificate)
    elif what == "half a chain":
        halve(authority.certificate)
        own.certificate.write_text(own.certificate.read_text() + authority.certificate.read_text())
    elif what == "half a key":
        halve(own.key)
        named = own.key
    elif what == "a passphrase":
        named = with_passphrase(own.key)
        flags = Pair(own.certificate, named).flags()
    elif what == "swapped":
        flags, named = Pair(own.key, own.certificate).flags(), own.key
    elif what == "no authority":
        flags, named = [*flags, f"--tls-client-ca={other.certificate}"], other.certificate
    elif what == "half an authority":
        halve(authority.certificate)
        flags, named = [*flags, f"--tls-client-ca={authority.certificate}"], authority.certificate
    daemon = serve(repository("identity"), tmp_path, *flags)
    with pytest.raises(ServerError):
        daemon.__enter__()
    (line,) = [line for line in daemon.log().splitlines() if str(named) in line]
    assert f"{named}: " in line and WRONG[what] in line


def test_an_authority_that_is_exchanged(tmp_path: Path, repository: Callable[..., Path]) -> None:
    """New connections are let in by the new one; what is none, or half of one, changes nothing."""
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    server = Pair(*old.sign("server", SERVER_NAMES))
    of_old, of_new = (Pair(*one.sign("client", "DNS:batch.example.com")) for one in (old, new))
    trusted = tmp_path / "clients.pem"
    trusted.write_text(old.certificate.read_text())
    with serve(repository("identity"), tmp_path, *server.flags(), f"--tls-client-ca={trusted}") as daemon:
        eventually(lambda: "ready " in daemon.log(), "it is ready")
        secured = Secured(daemon, old, server, of_old)

        def lets_in(client: Pair) -> bool:
            with secured.channel(client) as channel:
                try:
                    secured.ask(channel)
                except grpc.RpcError:
                    return False
                return True

        def reloads(outcome: str) -> float:
            return daemon.metric("stoker_tls_reloads_total", outcome=outcome)

        def await_failures(count: int) -> None:
            eventually(lambda: reloads("failed") == count, "it is found to be wrong", 30)

        assert lets_in(of_old) and not lets_in(of_new)
        whole = new.certificate.read_text()
        for number, wrong in enumerate((whole[: len(whole) // 2], of_new.certificate.read_text(), "")):
            trusted.write_text(wrong)
            await_failures(number + 1)
            assert lets_in(of_old) and not lets_in(of_new)
        with secured.channel(of_old) as kept:
            secured.ask(kept)
            trusted.write_text(whole)
            eventually(lambda: reloads("ok") == 1, "the new one is used", 30)
            secured.ask(kept)
        assert lets_in(of_new) and not lets_in(of_old)


@pytest.mark.parametrize("port", ["http_port", "metrics_port"])
def test_plain_text_to_pages_with_tls(tmp_path: Path, repository: Callable[..., Path], port: str) -> None:
    server = Pair(*Authority(tmp_path / "pki").sign("server", SERVER_NAMES))
    with serve(repository("identity"), tmp_path, *server.flags(), "--metrics-tls") as daemon:
        eventually(lambda: "ready " in daemon.log(), "it is ready")
        with socket.create_connection(("127.0.0.1", getattr(daemon, port)), timeout=30) as plain, suppress(OSError):
            plain.sendall(b"GET /health/liveness HTTP/1.1\r\nHost: here\r\n\r\n")
            assert plain.recv(100) == b""
        eventually(lambda: "127.0.0.1 failed, plain_text: the client doesn't speak TLS" in daemon.log(), "it is said")


@pytest.mark.parametrize(("address", "warned"), [("0.0.0.0:0", True), ("127.0.0.1:0", False), ("unix:", False)])
def test_an_open_port_is_warned_of(
    tmp_path: Path, repository: Callable[..., Path], address: str, warned: bool
) -> None:
    listen = f"{address}{tmp_path / 'socket'}" if address == "unix:" else address
    others = ("--metrics-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0")
    line = command(repository("identity"), tmp_path, "--no-compile", f"--listen={listen}", *others)
    with ServerProcess(line, tmp_path / "log", grace_seconds=0) as process:
        process.logged(LISTENING, 60)
        assert ("--tls-certificate" in process.log()) == warned
