"""Proves that model.yaml's `versions` chooses which versions are served, and a folder may be one model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tritonclient.utils import InferenceServerException

from tests.integration.clients import expected, infer, rows
from tests.integration.daemon import Daemon, write_yaml

MODEL = "mlp"


@pytest.fixture
def three_versions(repository, exported) -> Path:
    """Versions 1 and 3 are mlp, version 2 is identity: their answers have different shapes."""
    root = repository("mlp")
    shutil.copytree(exported("identity") / "1", root / MODEL / "2")
    shutil.copytree(exported("mlp") / "1", root / MODEL / "3")
    (root / MODEL / "model.yaml").unlink()
    return root


def ready_versions(daemon: Daemon) -> list[str]:
    with daemon.client() as client:
        lines = client.get_model_repository_index().models
        assert all(line.name == MODEL for line in lines)
        return sorted(line.version for line in lines if line.state == "READY")


@pytest.mark.parametrize(
    ("versions", "served", "newest_width"),
    [(None, ["3"], 4), ("latest", ["3"], 4), ("all", ["1", "2", "3"], 4), ([1, 2], ["1", "2"], 16)],
)
def test_policy(start, three_versions: Path, versions, served: list[str], newest_width: int) -> None:
    if versions is not None:
        write_yaml(three_versions / MODEL, versions=versions)
    with start(three_versions, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        assert ready_versions(daemon) == served
        assert client.get_model_metadata(MODEL).versions == served
        x = rows(2)
        assert infer(client, x).shape == (2, newest_width)  # no version asked for: the newest
        for version in ("1", "2", "3"):
            if version in served:
                assert client.is_model_ready(MODEL, version)
                answer = infer(client, x, model_version=version)
                assert answer.shape == (2, 16 if version == "2" else 4)
            else:
                assert not client.is_model_ready(MODEL, version)
                with pytest.raises(InferenceServerException, match=f"version {version} is not found"):
                    infer(client, x, model_version=version)
        assert daemon.stop() == 0


def test_a_listed_version_that_is_missing(start, three_versions: Path) -> None:
    write_yaml(three_versions / MODEL, versions=[1, 7])
    with start(three_versions, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        lines = {line.version: line for line in client.get_model_repository_index().models}
        assert lines["1"].state == "READY" and lines["7"].state == "UNAVAILABLE"
        assert f"{three_versions}/{MODEL}/7/model.pt2: expected a file" in lines["7"].reason
        assert infer(client, rows(2)).shape == (2, 4)
        assert daemon.stop() == 0


@pytest.mark.parametrize(("flags", "name"), [([], "greeter"), (["--model-name=host"], "host")])
def test_the_folder_is_the_model(start, exported, tmp_path: Path, flags: list[str], name: str) -> None:
    folder = shutil.copytree(exported("mlp") / "1", tmp_path / "greeter")
    with start(folder, "--no-compile", *flags) as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        x = rows(2)
        assert abs(infer(client, x, name) - expected(x)).max() < 1e-5
        assert client.get_model_metadata(name).versions == ["1"]
        assert daemon.stop() == 0
