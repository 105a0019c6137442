"""Proves that a load may bring its own configuration or files, as at Triton, and that a wrong one touches nothing."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import grpc
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2

from tests.integration.bearer import bearer, digest
from tests.integration.clients import check_mlp, infer, rows
from tests.integration.daemon import Daemon, ctl, eventually, write_yaml
from tests.integration.http1 import ask
from tests.integration.test_model_control import index, refusal
from tests.integration.test_repository_poll import IDENTITY, MLP, traffic

Program = Callable[[str], bytes]


@pytest.fixture
def program(exported: Callable[[str], Path]) -> Program:
    return lambda name: (exported(name) / "1/model.pt2").read_bytes()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Where the daemon writes what comes with loads, which is nowhere for long."""
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


@pytest.fixture
def control(start: Callable[..., Daemon], files: Path) -> Callable[..., Daemon]:
    flags = ("--model-control=explicit", f"--load-files-folder={files}")

    def make(root: Path, *more: str, compiles: bool = False, cache: Path | None = None) -> Daemon:
        return start(root, *flags, *more, *(() if compiles else ("--no-compile",)), cache=cache)

    return make


def max_batch(client: triton.InferenceServerClient, model: str = "mlp") -> int:
    return client.get_model_config(model).config.max_batch_size


def test_a_configuration(repository, control) -> None:
    with control(repository("mlp")) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        client.load_model("mlp")
        own = max_batch(client)
        client.load_model("mlp", config=json.dumps({"name": "mlp", "max_batch_size": 3}))
        assert max_batch(client) == 3 != own
        check_mlp(client)
        for wrong, said in [
            ("max_batch_size: 3", "failed to load 'mlp', config: expected a model configuration of Triton's as JSON"),
            ('{"max_batch_size": "many"}', "config: expected a model configuration of Triton's as JSON"),
            ('{"name": "other"}', "config: name: expected the folder's, mlp, got other"),
            ('{"input": [{"name": "x", "data_type": "TYPE_INT8", "dims": [16]}]}', "expected the program's TYPE_FP32"),
            ('{"platform": "onnxruntime_onnx"}', "config: platform: expected torch_aoti, got onnxruntime_onnx"),
        ]:
            code, text = refusal(partial(client.load_model, "mlp", config=wrong))
            assert (code, said in text) == ("INVALID_ARGUMENT", True), text
        assert max_batch(client) == 3
        code, text = refusal(lambda: client.load_model("nobody", config="{}"))
        assert (code, "failed to load 'nobody', there is none of that name" in text) == ("NOT_FOUND", True)
        client.load_model("mlp")  # what the repository says
        assert max_batch(client) == own
        assert daemon.stop() == 0


def test_a_program(repository, control, program: Program, files: Path) -> None:
    """A model that the repository lacks, and one in the place of its own."""
    with control(repository("mlp")) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        client.load_model("mine", config='{"max_batch_size": 5}', files={"file:7/model.pt2": program("mlp")})
        assert index(client)["mine:7"] == ("READY", "")
        assert max_batch(client, "mine") == 5
        assert infer(client, rows(5), "mine").shape == (5, MLP)
        assert not list(files.iterdir())  # nobody sees it
        client.load_model("mlp")
        with traffic(daemon) as requests:
            for name, width in (("identity", IDENTITY), ("mlp", MLP), ("identity", IDENTITY)):
                client.load_model("mlp", files={"file:1/model.pt2": program(name), "file:model.yaml": b"weight: 2\n"})
                assert infer(client, rows(2)).shape[1] == width
                assert requests.failure is None
            client.load_model("mlp")
            requests.sees(MLP)
        check_mlp(client)
        code, text = refusal(lambda: client.load_model("mine"))
        assert (code, "there is none of that name" in text) == ("INTERNAL", True)
        assert infer(client, rows(1), "mine").shape == (1, MLP)
        client.unload_model("mine")
        eventually(lambda: not any(line.startswith("mine:") for line in index(client)), "it is gone")
        assert daemon.stop() == 0


def test_a_program_is_compiled(repository, control, program: Program, fresh_cache) -> None:
    """Whose file has no name any more."""
    root = repository("identity")
    with control(root, compiles=True, cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        settings = b"max_batch_size: 2\nbuckets: {batch: [2]}\nready_when: warm\ndimensions: {batch: {axis: x.0}}\n"
        client.load_model("mlp", files={"file:1/model.pt2": program("mlp"), "file:model.yaml": settings})
        check_mlp(client, 2)
        assert daemon.metric("stoker_compile_seconds_count", outcome="ok") >= 1
        assert daemon.stop() == 0


def test_what_is_wrong_touches_nothing(repository, control, program: Program, files: Path) -> None:
    with control(repository("mlp"), "--max-load-files-mb=1") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        client.load_model("mlp")
        good = program("mlp")
        names = "model.yaml, config.pbtxt, labels.txt or aliases.yaml, got 'file:"
        for wrong, code, said in [
            ({"file:1/model.pt2": b"x"}, "INVALID_ARGUMENT", "file:1/model.pt2"),
            ({"file:1/model.pt2": good, "file:../x": b"x"}, "INVALID_ARGUMENT", names + "../x'"),
            ({"file:1/model.pt2": good, "file:/etc/x": b"x"}, "INVALID_ARGUMENT", names + "/etc/x'"),
            ({"file:1/model.pt2": good, "file:1/../../x": b""}, "INVALID_ARGUMENT", names),
            ({"file:model.yaml": b""}, "INVALID_ARGUMENT", "expected a program"),
            ({"file:1/model.pt2": good, "file:model.yaml": b"buckets: 7"}, "INVALID_ARGUMENT", "file:model.yaml:1"),
            (
                {"file:1/model.pt2": good, "file:2/model.pt2": bytes(1 << 20)},
                "RESOURCE_EXHAUSTED",
                "bytes of files of all loads together (--max-load-files-mb), got",
            ),
            ({"file:1/model.pt2": bytes(4 << 20)}, "INVALID_ARGUMENT", "expected a message of at most 2097152 bytes"),
        ]:
            got, text = refusal(partial(client.load_model, "mlp", files=wrong))
            assert (got, said in text) == (code, True), text
            assert str(files) not in text
            assert index(client) == {"mlp:1": ("READY", "")}
        assert not list(files.iterdir())
        check_mlp(client)
        for model in ("../mlp", "a/b", ""):
            code, text = refusal(partial(client.load_model, model, files={"file:1/model.pt2": good}))
            assert (code, "model_name: expected a model's name" in text) == ("INVALID_ARGUMENT", True), text
        assert not [line for line in daemon.log().splitlines() if "critical" in line]
        assert daemon.stop() == 0


def test_more_than_memory_holds(repository, control) -> None:
    """A message of 2 GiB is refused by its first bytes."""
    with control(repository("mlp"), "--max-request-memory-mb=64", "--max-load-files-mb=4000") as daemon:
        daemon.wait_ready(60)
        with daemon.client() as client:
            code, text = refusal(lambda: client.load_model("mlp", files={"file:1/model.pt2": bytes(100 << 20)}))
            assert code == "RESOURCE_EXHAUSTED", text
            code, text = refusal(lambda: client.load_model("mlp", files={"file:1/model.pt2": bytes(40 << 20)}))
            assert code == "RESOURCE_EXHAUSTED", text
            client.load_model("mlp")
            check_mlp(client)
        assert daemon.stop() == 0


def test_their_number(repository, control, program: Program) -> None:
    with control(repository("mlp"), "--max-loads-with-files=2") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        mine = {"file:1/model.pt2": program("mlp")}
        client.load_model("one", files=mine)
        client.load_model("two", files=mine)
        code, text = refusal(lambda: client.load_model("three", files=mine))
        assert (code, "--max-loads-with-files" in text) == ("RESOURCE_EXHAUSTED", True)
        client.unload_model("one")
        eventually(lambda: not any(line.startswith("one:") for line in index(client)), "it is gone")
        client.load_model("three", files=mine)
        assert daemon.stop() == 0


def test_two_at_once(repository, control, program: Program, fake_compiler, tmp_path: Path) -> None:
    root = repository("mlp")
    write_yaml(root / "mlp", ready_when="warm")
    with (
        control(root, fake_compiler("--job", "hang"), compiles=True, cache=tmp_path / "empty") as daemon,
        daemon.client() as client,
    ):
        daemon.wait_ready(60)
        told: list[tuple[str, str]] = []
        mine = {"file:1/model.pt2": program("mlp"), "file:model.yaml": b"ready_when: warm\n"}
        first = threading.Thread(target=lambda: told.append(refusal(lambda: client.load_model("mlp", files=mine))))
        first.start()
        eventually(lambda: "mlp:1: loading -> warming" in daemon.log(), "it warms up")
        with daemon.client() as other:
            for again in ({"files": mine}, {"config": "{}"}, {}):
                code, text = refusal(partial(other.load_model, "mlp", **again))
                assert (code, "another load of it is under way" in text) == ("ABORTED", True)
            other.unload_model("mlp")
        first.join()
        assert told[0][0] == "ABORTED"
        assert daemon.stop() == 0


def test_over_http(repository, control, program: Program) -> None:
    with control(repository("mlp"), "--max-load-files-mb=1") as daemon, daemon.client() as client:
        daemon.wait_ready(60)

        def load(model: str, **parameters: str) -> tuple[int, str]:
            body = json.dumps({"parameters": {name.replace("__", ":"): value for name, value in parameters.items()}})
            answer = ask(daemon.http_port, "POST", f"/v2/repository/models/{model}/load", body.encode())
            return answer.status, answer.error if answer.status != 200 else ""

        assert load("mlp", config='{"max_batch_size": 3}') == (200, "")
        assert max_batch(client) == 3
        mine = {"file:1/model.pt2": base64.b64encode(program("mlp")).decode()}
        assert load("mine", **mine) == (200, "")
        check_mlp(client)
        assert infer(client, rows(2), "mine").shape == (2, MLP)
        status, text = load("mine", **{"file:1/model.pt2": "not base64!"})
        assert (status, "expected a file in base64" in text) == (400, True)
        status, text = load("mine", **{"file:1/model.pt2": "A" * (3 << 20)})
        assert (status, "expected a body of at most" in text) == (413, True)
        long = base64.b64encode(bytes(900 << 10)).decode()  # read by another thread than the loop
        status, text = load("mine", **{"file:1/model.pt2": long})
        assert (status, "file:1/model.pt2" in text) == (400, True), text
        assert infer(client, rows(2), "mine").shape == (2, MLP)
        assert daemon.stop() == 0


def test_not_without_explicit_control(repository, start, program: Program) -> None:
    with start(repository("mlp"), "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        for given in ({"config": "{}"}, {"files": {"file:1/model.pt2": program("mlp")}}):
            code, text = refusal(partial(client.load_model, "mlp", **given))
            assert (code, "explicit model load / unload is not allowed" in text) == ("UNAVAILABLE", True)
        large = {"file:1/model.pt2": bytes(2 << 20)}
        assert refusal(lambda: client.load_model("mlp", files=large))[0] == "INVALID_ARGUMENT"
        check_mlp(client)
        assert daemon.stop() == 0


def test_the_policy(repository, control, program: Program, tmp_path: Path) -> None:
    """Who may load one model brings no other, however long the message is."""
    policy = tmp_path / "policy.yaml"
    rules = [
        {"callers": ["anonymous"], "groups": ["health", "metrics"]},
        {"callers": ["deployer"], "groups": ["control", "infer", "metadata"], "models": ["team-*"]},
    ]
    policy.write_text(json.dumps({"callers": {"deployer": {"tokens": [{"sha256": digest("deploy")}]}}, "rules": rules}))
    with control(repository("mlp"), f"--policy={policy}") as daemon, daemon.client() as client:
        mine = {"file:1/model.pt2": program("mlp")}
        padded = {**mine, "file:labels.txt": b"label\n" * (400 << 10)}
        allowed = bearer("deploy")
        for content in (mine, padded):
            assert refusal(partial(client.load_model, "team-a", files=content))[0] == "UNAUTHENTICATED"
            code, _ = refusal(partial(client.load_model, "mlp", headers=allowed, files=content))
            assert code == "PERMISSION_DENIED"
            client.load_model("team-a", headers=allowed, files=content)
        assert "RepositoryModelLoad" in daemon.log()
        assert daemon.stop() == 0


def test_two_messages_of_one_call(repository, control, program: Program) -> None:
    """The first is answered, or the second refused."""
    with control(repository("mlp")) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        large = service_pb2.RepositoryModelLoadRequest(model_name="mine")
        large.parameters["file:1/model.pt2"].bytes_param = program("mlp")
        large.parameters["file:labels.txt"].bytes_param = b"label\n" * (400 << 10)
        with grpc.insecure_channel(daemon.address) as channel:
            call = channel.stream_unary("/inference.GRPCInferenceService/RepositoryModelLoad")
            try:
                call(iter([large.SerializeToString()] * 2))
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        client.load_model("mlp")
        check_mlp(client)
        assert daemon.stop() == 0


def test_stokerctl(repository, control, exported, tmp_path: Path) -> None:
    with control(repository("mlp")) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        config = tmp_path / "config.json"
        config.write_text('{"max_batch_size": 3}')
        file = f"1/model.pt2={exported('mlp')}/1/model.pt2"
        grpc_port = ("--grpc", daemon.address)
        assert ctl("model", "load", "mine", "--config", config, "--file", file, *grpc_port) == "mine: loaded\n"
        assert max_batch(client, "mine") == 3
        assert "expected NAME=FILE, got x" in ctl("model", "load", "mine", "--file", "x", *grpc_port, code=4)
        assert "nothing-there" in ctl(
            "model", "load", "mine", "--config", tmp_path / "nothing-there", *grpc_port, code=4
        )
        assert daemon.stop() == 0
