"""The exporter's sources in libraries that the project doesn't install: diffusers and torchaudio, in the environment
that `python -m loadtest.coverage` takes them from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch

from compiler.program.archive import load_program
from loadtest.circumstances import REPOSITORY, stoker_home
from loadtest.coverage.__main__ import MODULES, REQUIREMENTS
from loadtest.environments import Environment, show_project

pytestmark = pytest.mark.slow

MAKE = """
import sys, torch, diffusers
torch.manual_seed(0)
blocks = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
attending = {"attention_head_dim": 8, "sample_size": 16, "cross_attention_dim": 48,
             "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
             "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}
sizes = {"addition_embed_type": "text_time", "addition_time_embed_dim": 8,
         "projection_class_embeddings_input_dim": 6 * 8 + 32}
for name, model in {
    "unet": diffusers.UNet2DConditionModel(**blocks, **attending),
    "xl": diffusers.UNet2DConditionModel(**blocks, **attending, **sizes),
    "alone": diffusers.UNet2DModel(**blocks, sample_size=32, attention_head_dim=8,
                                   down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                                   up_block_types=("AttnUpBlock2D", "UpBlock2D")),
    "classes": diffusers.UNet2DModel(**blocks, sample_size=32, num_class_embeds=4,
                                     down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2),
    "vae": diffusers.AutoencoderKL(**blocks, down_block_types=("DownEncoderBlock2D",) * 2,
                                   up_block_types=("UpDecoderBlock2D",) * 2, sample_size=32),
    "dit": diffusers.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, num_layers=1, sample_size=16),
}.items():
    model.save_pretrained(sys.argv[1] + "/" + name)
"""


@pytest.fixture(scope="module")
def python() -> Path:
    environment = Environment(REQUIREMENTS, stoker_home() / "coverage-environments")
    environment.install(lambda new: show_project(new, MODULES))
    return environment.python


@pytest.fixture(scope="module")
def folders(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("diffusers")
    subprocess.run([python, "-c", MAKE, root], check=True, timeout=300)
    (root / "pipeline/unet").mkdir(parents=True)
    (root / "pipeline/unet/config.json").write_text("{}")
    (root / "pipeline/model_index.json").write_text("{}")
    (root / "transformers").mkdir()
    (root / "transformers/config.json").write_text('{"model_type": "bert"}')
    return root


def export(python: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    line = [str(python), "-m", "compiler.export", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("source", "options", "inputs", "outputs"),
    [
        ("diffusers:unet", [], {"x": (3, 4, 16, 16), "t": (3,), "text": (3, 77, 48)}, {"out_sample": (3, 4, 16, 16)}),
        (
            "diffusers:xl",
            ["--max-length", "20", "--image-size", "8"],
            {"x": (3, 4, 8, 8), "t": (3,), "text": (3, 20, 48), "pooled": (3, 32), "sizes": (3, 6)},
            {"out_sample": (3, 4, 8, 8)},
        ),
        ("diffusers:alone", [], {"x": (3, 3, 32, 32), "t": (3,)}, {"out_sample": (3, 3, 32, 32)}),
        ("diffusers:vae", ["--task", "vae-encoder"], {"image": (3, 3, 32, 32)}, {"latents": (3, 4, 16, 16)}),
        ("diffusers:vae", ["--task", "vae-decoder"], {"latents": (3, 4, 16, 16)}, {"image": (3, 3, 32, 32)}),
        ("torchaudio:wav2vec2_base", ["--max-length", "8000"], {"x": (3, 3200)}, {"features": (3, 9, 768)}),
        ("torchaudio:conv_tasnet_base", ["--max-length", "800"], {"x": (3, 1, 800)}, {"sources": (3, 2, 800)}),
    ],
)
def test_what_their_models_take(
    source: str,
    options: list[str],
    inputs: dict[str, tuple[int, ...]],
    outputs: dict[str, tuple[int, ...]],
    python: Path,
    folders: Path,
    tmp_path: Path,
) -> None:
    """The exporter has compared the answers with the model's; here is what goes in and comes out."""
    kind, _, name = source.partition(":")
    where = f"diffusers:{folders / name}" if kind == "diffusers" else source
    result = export(python, where, "--output", tmp_path / "net/1", *options)
    assert (result.returncode, result.stderr) == (0, "")
    program = load_program(tmp_path / "net/1/model.pt2")
    given = [torch.full(shape, 7) if name == "t" else torch.randn(shape) for name, shape in inputs.items()]
    found = program.module(check_guards=False)(*given)
    assert {key: tuple(value.shape) for key, value in found.items()} == outputs
    yaml = (tmp_path / "net/model.yaml").read_text()
    assert str(folders) not in yaml
    assert ("timestep: {range: [0, 999]}" in " ".join(yaml.split())) == ("t" in inputs)


@pytest.mark.parametrize(
    ("source", "options", "reason"),
    [
        ("diffusers:vae", [], "--task vae-encoder or --task vae-decoder says which half"),
        ("diffusers:unet", ["--task", "vae-encoder"], "UNet2DConditionModel is no autoencoder"),
        ("diffusers:pipeline", [], "a pipeline, expected one of its models: unet"),
        ("diffusers:transformers", [], "a config.json that has a _class_name"),
        ("diffusers:classes", [], "conditioned on more than a text"),
        ("diffusers:dit", [], "expected a UNet2D… or Autoencoder… of diffusers"),
        ("diffusers:unet", ["--weights", "w.pt"], "a diffusers folder holds its weights"),
        ("torchaudio:nothing", [], "no function 'nothing' that makes a model"),
        ("torchaudio:squim_objective_base", [], "SquimObjective: make a function"),
        ("torchaudio:hubert_base", ["--max-length", "1000"], "the model takes at least 1280 samples"),
    ],
)
def test_what_is_refused(
    source: str, options: list[str], reason: str, python: Path, folders: Path, tmp_path: Path
) -> None:
    kind, _, name = source.partition(":")
    where = f"diffusers:{folders / name}" if kind == "diffusers" else source
    result = export(python, where, "--output", tmp_path / "net/1", *options)
    assert result.returncode == 1
    assert reason in result.stderr
    assert not (tmp_path / "net").exists()
