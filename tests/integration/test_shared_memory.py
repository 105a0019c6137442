"""Proves that clients on the host can have tensors in POSIX shared memory, and do to it what they like."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from tests.integration.clients import check_mlp, expected, rows
from tests.integration.daemon import Daemon, eventually


@pytest.fixture(scope="module")
def daemon(serving: Callable[..., Daemon]) -> Daemon:
    return serving(["mlp"], "--allow-client-shm", uncompiled=True)


@pytest.fixture
def client(daemon: Daemon) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(daemon.address) as client:
        yield client
        client.unregister_system_shared_memory()


def key(name: str) -> str:
    """Of /dev/shm, which others run the same tests in."""
    return f"/stoker_test_{os.getpid()}_{name}"


@contextmanager
def region(client: triton.InferenceServerClient, name: str, size: int) -> Iterator[object]:
    """A registered region of a file of its own; unlinked in the end."""
    handle = shm.create_shared_memory_region(name, key(name), size)
    try:
        client.register_system_shared_memory(name, key(name), size)
        yield handle
    finally:
        client.unregister_system_shared_memory(name)
        shm.destroy_shared_memory_region(handle)


def given(shape: tuple[int, ...], name: str, size: int, offset: int = 0) -> triton.InferInput:
    x = triton.InferInput("x", shape, "FP32")
    x.set_shared_memory(name, size, offset)
    return x


def wanted(name: str, size: int, offset: int = 0) -> triton.InferRequestedOutput:
    y = triton.InferRequestedOutput("y")
    y.set_shared_memory(name, size, offset)
    return y


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(InferenceServerException) as error:
        call()
    return str(error.value.status()).removeprefix("StatusCode."), error.value.message()


def test_inputs_and_outputs(client: triton.InferenceServerClient, daemon: Daemon) -> None:
    x = rows(3)
    before = daemon.metric("stoker_shared_memory_copied_bytes_total", direction="read")
    with region(client, "in", 4096) as inputs, region(client, "out", 4096) as outputs:
        shm.set_shared_memory_region(inputs, [x], offset=64)
        answer = client.infer("mlp", [given(x.shape, "in", x.nbytes, 64)], outputs=[wanted("out", 100, 128)])
        output = answer.get_output("y")
        assert (list(output.shape), output.datatype) == ([3, 4], "FP32")
        assert list(answer.get_response().raw_output_contents) == [b""]
        y = shm.get_contents_as_numpy(outputs, np.float32, [3, 4], 128)
        np.testing.assert_allclose(y, expected(x), atol=1e-5)
    assert daemon.metric("stoker_shared_memory_copied_bytes_total", direction="read") == before + x.nbytes


def test_only_the_input_or_only_the_output(client: triton.InferenceServerClient) -> None:
    x = rows(2)
    with region(client, "in", x.nbytes) as inputs, region(client, "out", 32) as outputs:
        shm.set_shared_memory_region(inputs, [x])
        answer = client.infer("mlp", [given(x.shape, "in", x.nbytes)])
        np.testing.assert_allclose(answer.as_numpy("y"), expected(x), atol=1e-5)
        plain = triton.InferInput("x", x.shape, "FP32")
        plain.set_data_from_numpy(x)
        client.infer("mlp", [plain], outputs=[wanted("out", 32)])
        np.testing.assert_allclose(shm.get_contents_as_numpy(outputs, np.float32, [2, 4]), expected(x), atol=1e-5)


def test_streams(client: triton.InferenceServerClient) -> None:
    answers: list[object] = []
    with region(client, "stream", 4096) as memory:
        shm.set_shared_memory_region(memory, [rows(1)])
        client.start_stream(lambda result, error: answers.append(error or result))
        for row in range(4):
            output = wanted("stream", 16, 64 + 16 * row)
            client.async_stream_infer("mlp", [given((1, 16), "stream", 64)], outputs=[output])
        client.stop_stream()
        assert [type(answer) for answer in answers] == [triton.InferResult] * 4
        y = shm.get_contents_as_numpy(memory, np.float32, [4, 4], 64)
        np.testing.assert_allclose(y, np.tile(expected(rows(1)), (4, 1)), atol=1e-5)


def test_clients_side_by_side(daemon: Daemon) -> None:
    def ask(number: int) -> None:
        with triton.InferenceServerClient(daemon.address) as client, region(client, f"of-{number}", 4096) as memory:
            for round in range(20):
                x = rows(1 + number % 3, seed=100 * number + round)
                shm.set_shared_memory_region(memory, [x])
                client.infer(
                    "mlp",
                    [given(x.shape, f"of-{number}", x.nbytes)],
                    outputs=[wanted(f"of-{number}", 64, 2048)],
                )
                y = shm.get_contents_as_numpy(memory, np.float32, [x.shape[0], 4], 2048)
                np.testing.assert_allclose(y, expected(x), atol=1e-5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))


def test_status_and_unregister(client: triton.InferenceServerClient, daemon: Daemon) -> None:
    assert not client.get_system_shared_memory_status().regions
    with region(client, "a", 64), region(client, "b", 128):
        client.register_system_shared_memory("part", key("b"), 32, offset=96)
        regions = client.get_system_shared_memory_status().regions
        assert sorted(regions) == ["a", "b", "part"]
        part = regions["part"]
        assert (part.name, part.key, part.offset, part.byte_size) == ("part", key("b"), 96, 32)
        assert list(client.get_system_shared_memory_status("a").regions) == ["a"]
        assert daemon.metric("stoker_shared_memory_regions") == 3
        assert daemon.metric("stoker_shared_memory_bytes") == 224
        client.unregister_system_shared_memory("nobody")
        client.unregister_system_shared_memory()
        assert not client.get_system_shared_memory_status().regions
        assert refusal(lambda: client.get_system_shared_memory_status("a")) == (
            "NOT_FOUND",
            "Unable to find system shared memory region: 'a'",
        )


def test_cuda_as_on_a_host_without(client: triton.InferenceServerClient) -> None:
    assert not client.get_cuda_shared_memory_status().regions
    client.unregister_cuda_shared_memory()
    client.unregister_cuda_shared_memory("nobody")
    code, text = refusal(lambda: client.get_cuda_shared_memory_status("nobody"))
    assert (code, text) == ("NOT_FOUND", "Unable to find cuda shared memory region: 'nobody'")
    code, text = refusal(lambda: client.register_cuda_shared_memory("r", b"aA==", 0, 64))
    assert code == "UNIMPLEMENTED"
    assert text == "failed to register CUDA shared memory region: 'r', GPUs not supported"


def test_the_extension_is_announced(client: triton.InferenceServerClient) -> None:
    extensions = client.get_server_metadata().extensions
    assert "system_shared_memory" in extensions
    assert "cuda_shared_memory" not in extensions


def test_what_is_outside(client: triton.InferenceServerClient) -> None:
    def infer(name: str, size: int, offset: int = 0, out: int = 16) -> Callable[[], object]:
        return lambda: client.infer("mlp", [given((1, 16), name, size, offset)], outputs=[wanted("r", out)])

    with region(client, "r", 256):
        register = client.register_system_shared_memory
        assert refusal(lambda: register("r", key("r"), 256)) == (
            "ALREADY_EXISTS",
            "shared memory region 'r' already in manager",
        )
        for size, offset in [(257, 0), (256, 1), (1, 256), (0, 0), (2**64 - 1, 1), (1, 2**64 - 1)]:
            code, text = refusal(partial(register, "other", key("r"), size, offset))
            assert code == "INVALID_ARGUMENT"
            assert text.startswith("failed to register shared memory region 'other': invalid args"), text
        code, text = refusal(lambda: register("other", key("nobody"), 64))
        assert code == "INVALID_ARGUMENT"
        assert text.startswith(f"Unable to open shared memory region: '{key('nobody')}'"), text
        for name, size, offset, code, text in [
            ("nobody", 64, 0, "NOT_FOUND", "Unable to find shared memory region: 'nobody'"),
            ("r", 64, 256, "INVALID_ARGUMENT", "Invalid offset for shared memory region: 'r'"),
            ("r", 64, 193, "INVALID_ARGUMENT", "Invalid offset + byte size for shared memory region: 'r'"),
            ("r", 2**63 - 1, 1, "INVALID_ARGUMENT", "Invalid offset + byte size for shared memory region: 'r'"),
            ("r", 60, 0, "INVALID_ARGUMENT", "input byte size mismatch for input 'x'"),
        ]:
            got, said = refusal(infer(name, size, offset))
            assert got == code
            assert said.startswith(text), said
        code, text = refusal(infer("r", 64, out=12))
        assert code == "INVALID_ARGUMENT"
        assert text.startswith("shared memory size specified with the request for output 'y' (12 bytes)"), text
    check_mlp(client)


def test_a_region_outlives_its_name(client: triton.InferenceServerClient) -> None:
    """The client unlinks the file, and another is made in its place: the region stays what it was."""
    x = rows(1)
    handle = shm.create_shared_memory_region("r", key("gone"), 64)
    shm.set_shared_memory_region(handle, [x])
    client.register_system_shared_memory("r", key("gone"), 64)
    shm.destroy_shared_memory_region(handle)
    with open("/dev/shm" + key("gone"), "wb") as other:
        other.write(b"\1" * 64)
    try:
        answer = client.infer("mlp", [given(x.shape, "r", x.nbytes)])
        np.testing.assert_allclose(answer.as_numpy("y"), expected(x), atol=1e-5)
    finally:
        os.unlink("/dev/shm" + key("gone"))


def test_a_client_that_cuts_its_file_while_requests_run(client: triton.InferenceServerClient, daemon: Daemon) -> None:
    """A mapped file that is cut ends the process that looks at it. Here its own requests fail, and nobody else's."""
    x = rows(8)
    outcomes = {"answered": 0, "cut": 0}
    over = threading.Event()

    def victim() -> None:
        with triton.InferenceServerClient(daemon.address) as other:
            while not over.is_set():
                check_mlp(other)

    with region(client, "cut", 8192) as memory:
        shm.set_shared_memory_region(memory, [x])
        descriptor = os.open("/dev/shm" + key("cut"), os.O_RDWR)

        def cutter() -> None:
            while not over.is_set():
                os.ftruncate(descriptor, 0)
                os.ftruncate(descriptor, 8192)

        def both_seen() -> bool:
            try:
                client.infer("mlp", [given(x.shape, "cut", x.nbytes)], outputs=[wanted("cut", 128, 4096)])
                outcomes["answered"] += 1
            except InferenceServerException as error:
                assert "which has become smaller" in error.message()
                outcomes["cut"] += 1
            return min(outcomes.values()) >= 20

        with ThreadPoolExecutor(2) as pool:
            threads = [pool.submit(victim), pool.submit(cutter)]
            try:
                eventually(both_seen, "both outcomes")
            finally:
                over.set()
            for thread in threads:
                thread.result()
        os.ftruncate(descriptor, 10)
        code, text = refusal(lambda: client.infer("mlp", [given(x.shape, "cut", x.nbytes)]))
        assert code == "INVALID_ARGUMENT"
        assert text.startswith("shared memory region 'cut': expected 512 bytes or more in"), text
        os.close(descriptor)
    check_mlp(client)


def test_too_many_regions(client: triton.InferenceServerClient) -> None:
    with region(client, "first", 64):
        for number in range(511):
            client.register_system_shared_memory(f"more-{number}", key("first"), 64)
        code, text = refusal(lambda: client.register_system_shared_memory("last", key("first"), 64))
        assert code == "RESOURCE_EXHAUSTED"
        assert text.startswith("expected at most 512 shared memory regions"), text
    check_mlp(client)
