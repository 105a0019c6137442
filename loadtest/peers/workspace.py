"""The temporary folder of a comparison: models as each server wants them, logs, results."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from loadtest.benchmarks import null_models

ADAPTERS = Path(__file__).parent / "adapters"
BATCHES, TOKENS = (1, 2, 4, 8), (16, 32, 64, 128)
MINILM_YAML = {
    "max_batch_size": BATCHES[-1],
    "dimensions": {"batch": {"axis": "input_ids.0"}, "tokens": {"axis": "input_ids.1", "padding": True}},
    "inputs": {"input_ids": {"range": [0, 30521]}, "attention_mask": {"range": [0, 1]}},
    "buckets": {"batch": list(BATCHES), "tokens": list(TOKENS)},
}


@dataclass(frozen=True)
class Workspace:
    """`build` is a release build; `cache` a kernel cache; `folder` is the caller's, who removes it."""

    folder: Path
    build: Path
    cache: Path
    minilm: Path  # the demo model's model.pt2

    def __post_init__(self) -> None:
        for name in null_models.WIDTHS:
            null_models.write(name, self.folder / "programs")

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def program(self, model: str) -> Path:
        """Its model.pt2."""
        return self.minilm if model == "minilm" else self.folder / "programs" / model / "1/model.pt2"

    def repository(self, server: str, models: tuple[str, ...]) -> Path:
        """An empty model repository, with a folder for each model."""
        root = self.folder / f"{server}-{'-'.join(models)}"
        shutil.rmtree(root, ignore_errors=True)
        for model in models:
            (root / model).mkdir(parents=True)
        return root

    def link_program(self, model: str, folder: Path) -> None:
        """Puts its model.pt2 into `folder`, which is created."""
        folder.mkdir(parents=True, exist_ok=True)
        source = self.program(model).resolve()
        try:
            os.link(source, folder / "model.pt2")
        except OSError:  # another file system
            shutil.copy(source, folder / "model.pt2")

    def stoker_repository(self, models: tuple[str, ...]) -> Path:
        root = self.repository("stoker", models)
        for model in models:
            self.link_program(model, root / model / "1")
            yaml = json.dumps(MINILM_YAML) if model == "minilm" else null_models.YAML
            (root / model / "model.yaml").write_text(yaml)  # JSON is YAML
        return root

    def triton_repository(self, models: tuple[str, ...]) -> Path:
        root = self.repository("triton", models)
        for model in models:
            (root / model / "1").mkdir()
            shutil.copy(ADAPTERS / f"triton/{model}.pbtxt", root / model / "config.pbtxt")
            source = "minilm_model.py" if model == "minilm" else "null_model.py"
            shutil.copy(ADAPTERS / "triton" / source, root / model / "1/model.py")
            if model == "minilm":
                shutil.copy(ADAPTERS / "minilm.py", root / model / "1")
                self.link_program(model, root / model / "1")
        return root

    def triton_core_repository(self, models: tuple[str, ...]) -> Path:
        root = self.repository("triton-core", models)
        for model in models:
            (root / model / "1").mkdir()
            shutil.copy(ADAPTERS / f"triton_core/{model}.pbtxt", root / model / "config.pbtxt")
        return root

    def mlserver_repository(
        self, models: tuple[str, ...], server_settings: dict[str, object], model_settings: dict[str, object]
    ) -> Path:
        """Settings are added to those of the server, and to those of each model."""
        root = self.repository("mlserver", models)
        for model in models:
            settings = json.loads((ADAPTERS / f"mlserver/{model}.json").read_text()) | model_settings
            (root / model / "model-settings.json").write_text(json.dumps(settings))
            if model == "minilm":
                self.link_program(model, root / model)
        (root / "settings.json").write_text(json.dumps(server_settings))
        return root
