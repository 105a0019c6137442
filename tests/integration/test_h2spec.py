"""Holds the gRPC port to HTTP/2's standard by h2spec, and names what it finds wanting on purpose.

tests/h2spec/install.sh installs it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from tests.integration.daemon import REPO, Daemon

TESTS = 145

# What fails by design. A test that fails beside these, or one of these that passes, fails this one.
ON_PURPOSE = {
    # A frame may have a megabyte here, more than five headers can have which the server takes: h2spec's is no longer.
    # tests/unit/wire/wire_limits_test.cc sends one that is.
    "http2/4.2: Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE",
    # nghttp2's: who sends headers on a smaller stream may not know yet that this side has ended it, and nghttp2 keeps
    # no list of those that were never opened.
    "http2/5.1.1: Sends stream identifier that is numerically smaller than previous",
    # Priorities of RFC 7540 are declined (SETTINGS_NO_RFC7540_PRIORITIES) and read no further; RFC 9113, which took
    # them out, has no such rule any more.
    "http2/5.3.1: Sends PRIORITY frame that depend on itself",
}

WRONG_LENGTH = 'http2/8.1.2.6: Sends a HEADERS frame with the "content-length" header field which does not equal'

# They send a request without its end, and then what is wrong with the stream. The answer may be out before that, and
# on a busy machine it is: then the stream is over, by this side, and what comes on it is passed over, as the standard
# says.
EITHER_WAY = {
    "http2/6.1: Sends a DATA frame with invalid pad length",
    "http2/6.9: Sends a WINDOW_UPDATE frame with a flow control window increment of 0 on a stream",
    "http2/6.9.1: Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream",
    "http2/8.1: Sends a second HEADERS frame without the END_STREAM flag",
    "http2/8.1.2.1: Sends a HEADERS frame that contains a pseudo-header field as trailers",
    f"{WRONG_LENGTH} the DATA frame payload length",
    f"{WRONG_LENGTH} the sum of the multiple DATA frames payload length",
}

# Of a header, of which some tests send five: more than a call may have, and less than what ends the connection.
HEADER_BYTES = 22_000


def test_what_h2spec_finds(serving: Callable[..., Daemon], tmp_path: Path) -> None:
    program = subprocess.run(
        [REPO / "tests/h2spec/install.sh", "--program"], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert Path(program).exists(), "expected h2spec to be installed: tests/h2spec/install.sh"
    daemon = serving(["identity"], uncompiled=True)
    report = tmp_path / "report.xml"
    line = [program, "-h", "127.0.0.1", "-p", str(daemon.port), "-o", "5", "-j", str(report),
            "--max-header-length", str(HEADER_BYTES)]  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True, timeout=400)
    tests, failed = 0, set()
    # Payloads are in it as they are.
    for case in ElementTree.fromstring(report.read_bytes().replace(b"\0", b"")).iter("testcase"):
        tests += 1
        if any(case.find(outcome) is not None for outcome in ("error", "failure", "skipped")):
            failed.add(f"{case.get('package')}: {case.get('classname')}")
    assert tests == TESTS, done.stdout
    assert failed - EITHER_WAY == ON_PURPOSE, done.stdout
    assert not daemon.ended()
