"""Proves that bad models are reported where they are bad, run nothing, and keep no other from serving."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.fakes import malicious_pt2
from tests.integration.clients import check_mlp, expected, infer, rows
from tests.integration.daemon import Daemon, write_yaml

# They attack whoever unpickles or generates code, which the daemon never does: it serves them.
HARMLESS_ON_EAGER = {"sample_inputs", "guard", "node_name", "argument_name", "quoted_string", "tree_module"}


def index(daemon: Daemon) -> dict[str, tuple[str, str]]:
    """Model → state and reason."""
    with daemon.client() as client:
        return {line.name: (line.state, line.reason) for line in client.get_model_repository_index().models}


@pytest.mark.parametrize(
    ("text", "line", "field", "wanted"),
    [
        ("max_batch_size: 8\nbukkets: {batch: [1]}\n", 2, "bukkets", "expected"),
        ("ready_when: warm\n\nmax_batch_size: lots\n", 3, "max_batch_size", "expected"),
        ("buckets:\n  batch: [1, 65]\n", 2, "buckets", "1 to 64"),
        ("versions: newest\n", 1, "versions", "latest, {latest: <number>}, all or a list of versions"),
        ("buckets: {batch: [1, 8\n", 2, "", "YAML"),
    ],
)
def test_a_mistake_in_model_yaml(
    repository, start, text: str, line: int, field: str, wanted: str
) -> None:
    root = repository("mlp", "identity")
    yaml = root / "identity/model.yaml"
    yaml.write_text(text)
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        check_mlp(client)
        states = index(daemon)
        assert states["mlp"][0] == "READY"
        state, reason = states["identity"]
        assert state == "UNAVAILABLE"
        for words in (f"{yaml}:{line}", field, wanted):
            assert words in reason, reason
        assert reason in daemon.log()
        with pytest.raises(InferenceServerException, match="unknown model: 'identity'"):
            infer(client, rows(1), "identity")
        assert daemon.stop() == 0


def put_malicious(root: Path, kind: str, base: Path, markers: Path) -> None:
    version = root / kind / "1"
    version.mkdir(parents=True)
    malicious_pt2.build(kind, base, version / "model.pt2", markers / f"{kind}.executed")


def ask(client: triton.InferenceServerClient, name: str, count: int) -> None:
    """A request to a model made from mlp, whose input and output may have odd names."""
    metadata = client.get_model_metadata(name)
    x = triton.InferInput(metadata.inputs[0].name, [count, 16], "FP32")
    x.set_data_from_numpy(rows(count))
    answer = client.infer(name, [x]).as_numpy(metadata.outputs[0].name)
    np.testing.assert_allclose(answer, expected(rows(count)), atol=1e-5)


def nothing_ran(markers: Path) -> bool:
    return not list(markers.rglob("*.executed")) and not list(markers.rglob("escaped.txt"))


def test_malicious_archives(repository, start, exported, tmp_path: Path) -> None:
    root = repository("mlp")
    for kind in malicious_pt2.KINDS:
        put_malicious(root, kind, exported("mlp") / "1/model.pt2", tmp_path)
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        check_mlp(client)
        states = index(daemon)
        assert states.pop("mlp")[0] == "READY"
        assert states.keys() == malicious_pt2.KINDS.keys()
        served = {name for name, (state, _) in states.items() if state == "READY"}
        assert served == HARMLESS_ON_EAGER
        for name in states.keys() - served:
            assert states[name][0] == "UNAVAILABLE"
            assert str(root / name / "1/model.pt2") in states[name][1], states[name]
            assert states[name][1] in daemon.log()
        for name in served:
            ask(client, name, 2)
        assert daemon.stop() == 0
    assert nothing_ran(tmp_path)


def test_malicious_archives_with_a_compiler(start, exported, tmp_path: Path, fresh_cache: Path) -> None:
    """What the daemon serves reaches the compile worker, which does generate code."""
    root = tmp_path / "models"
    for kind in HARMLESS_ON_EAGER:
        put_malicious(root, kind, exported("mlp") / "1/model.pt2", tmp_path)
        write_yaml(root / kind, max_batch_size=2, buckets={"batch": [1]})
    with start(root, cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        assert daemon.metric("stoker_compile_worker_starts_total") == 1  # none brought it down
        assert daemon.metric("stoker_bucket_state", state="compiled", model="sample_inputs") == 1
        for kind in HARMLESS_ON_EAGER:
            ask(client, kind, 1)
            ask(client, kind, 2)
        assert daemon.stop() == 0
    assert nothing_ran(tmp_path)


def test_files_of_other_kinds_are_named(repository, start) -> None:
    """What people put there instead of an exported program, and what they are to do."""
    root = repository("mlp")
    linear = torch.nn.Linear(4, 2)
    files = {
        "scripted": lambda path: torch.jit.script(linear).save(path),
        "weights": lambda path: torch.save(linear.state_dict(), path),
        "pickled": lambda path: torch.save(linear.state_dict(), path, _use_new_zipfile_serialization=False),
    }
    for name, save in files.items():
        (root / name / "1").mkdir(parents=True)
        save(str(root / name / "1/model.pt2"))
    with start(root, "--no-compile") as daemon:
        daemon.wait_ready(60)
        states = index(daemon)
        assert "this is a TorchScript archive: export the model itself with torch.export" in states["scripted"][1]
        assert "this is what torch.save wrote, such as weights" in states["weights"][1]
        assert "this is a pickle, which is never opened" in states["pickled"][1]


class Running(torch.nn.Module):
    """A running sum, by an operator that calls a graph for each row, of which there are more than are unrolled."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        from torch._higher_order_ops.scan import scan

        return {"y": scan(lambda total, row: (total + row, total * row), torch.zeros(4), x)[1]}


class Each(torch.nn.Module):
    """A graph that is called for each of as many rows as there are."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        from torch._higher_order_ops.map import map as map_rows

        return {"y": map_rows(lambda row: row * 2, x)}


class Lower(torch.nn.Module):
    """A product in bfloat16."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return {"y": x @ x}


def test_operators_that_nothing_here_runs(repository, start) -> None:
    """Refused by the operator, the line of the model, and what to do."""
    root = repository("mlp")
    rows = torch.export.Dim("rows", min=1, max=64)
    for name, module, size, sizes in (
        ("long", Running(), 257, None),
        ("any", Each(), 4, ({0: rows},)),
        ("lower", Lower(), 4, None),
    ):
        (root / name / "1").mkdir(parents=True)
        program = torch.export.export(module, (torch.ones(size, 4),), dynamic_shapes=sizes)
        torch.export.save(program, root / name / "1/model.pt2")
    wanted = {
        "long": ("higher_order.scan' over 257 rows", "as a while_loop, and export the model again"),
        "any": ("higher_order.map_impl' over a number of rows that varies", "1 to 256 rows"),
        "lower": ("higher_order.wrap_with_autocast'", "compile: {precision: bfloat16}"),
    }
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        check_mlp(client)
        for name, words in wanted.items():
            state, reason = index(daemon)[name]
            assert state == "UNAVAILABLE"
            for word in (f"{name}/1/model.pt2", *words, " at test_bad_models.py:"):
                assert word in reason, reason
            assert "\n" not in reason
        assert daemon.stop() == 0


def test_files_that_are_no_models(repository, start, tmp_path: Path) -> None:
    root = repository("mlp")
    for name in ("empty", "text", "folder", "loose", "no versions"):
        (root / name / "1").mkdir(parents=True)
    (root / "empty/1/model.pt2").touch()
    (root / "text/1/model.pt2").write_text("import torch\n")
    (root / "folder/1/model.pt2").mkdir()
    (root / "loose/1/model.pt2").symlink_to(tmp_path / "nowhere")
    shutil.copy(root / "mlp/1/model.pt2", root / "stray.pt2")
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        check_mlp(client)
        states = index(daemon)
        assert states.pop("mlp")[0] == "READY"
        assert set(states) == {"empty", "text", "folder", "loose", "no versions"}
        for name, (state, reason) in states.items():
            assert state == "UNAVAILABLE"
            assert str(root / name) in reason and "expected" in reason, reason
        assert daemon.stop() == 0
