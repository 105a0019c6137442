"""Has gRPC's own client try the transport with the cases that gRPC's implementations try each other with.

tests/interop/install.sh installs the client, which is Go's; tests/interop/interop_server.cc is the service on
stokerd's transport.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.certificates import Authority
from tests.integration.daemon import REPO, STOKERD

SERVER = STOKERD.parents[2] / "tests/interop/interop_server"

# All that the client has but those for Google's credentials, and for what methods here never have: metadata of their
# own in an answer (custom_metadata), and reports of load.
CASES = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "unimplemented_method",
    "unimplemented_service",
    "rpc_soak",
    "channel_soak",
]

# A second for each of ten calls is for a machine that nothing else runs on.
SOAK = ["-soak_overall_timeout_seconds=50", "-soak_per_iteration_max_acceptable_latency_ms=20000"]


@pytest.fixture(scope="module", params=["plain", "tls"])
def flags(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What the client is told of a server that runs."""
    line: list[str | Path] = [SERVER]
    trust = []
    if request.param == "tls":
        authority = Authority(tmp_path_factory.mktemp("tls"))
        certificate, key = authority.sign("server", "DNS:localhost")
        line += [certificate, key]
        trust = ["-use_tls", "-use_test_ca", f"-ca_file={authority.certificate}", "-server_host_override=localhost"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            # Behind what the log says.
            port = next(int(line) for line in server.stdout if line.strip().isdigit())
            # Of a name Go asks a DNS server, too, which may take five seconds not to answer.
            yield ["-server_host=127.0.0.1", f"-server_port={port}", *trust]
        finally:
            server.stdin.close()
            assert server.wait(30) == 0


@pytest.fixture(scope="module")
def client() -> str:
    program = subprocess.run(
        [REPO / "tests/interop/install.sh", "--program"], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert Path(program).exists(), "expected the client to be installed: tests/interop/install.sh"
    return program


@pytest.mark.parametrize("case", CASES)
def test_case(client: str, flags: list[str], case: str) -> None:
    line = [client, *flags, *SOAK, f"-test_case={case}"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
