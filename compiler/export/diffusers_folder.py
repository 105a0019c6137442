"""A local folder of a diffusers model as an export source: one step of a denoising UNet, or one half of the
autoencoder around it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from compiler.export.refusal import ExportRefused
from compiler.export.source import ExportSource, Limits, batch_dimension, one_input

# Tasks that name the half of an autoencoder.
HALVES = ("vae-encoder", "vae-decoder")
TEXT_TOKENS = 77  # of CLIP's encoder, which conditions most of them
TRAINING_STEPS = 1000
MOST_ROWS = 63  # their upsampling goes another way for more, and a program has one
TIME_IDS = 6  # original size, crop, target size: the micro-conditioning of Stable Diffusion XL


class Denoiser(nn.Module):
    """One step: what is to be taken from the sample. Towards what a text says where its states are given, and of an
    image of given sizes."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        sample: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor | None = None,
        text_embeds: Tensor | None = None,
        time_ids: Tensor | None = None,
    ) -> dict[str, Tensor]:
        conditions: dict[str, Any] = {}
        if encoder_hidden_states is not None:
            conditions["encoder_hidden_states"] = encoder_hidden_states
        if text_embeds is not None:
            conditions["added_cond_kwargs"] = {"text_embeds": text_embeds, "time_ids": time_ids}
        return {"out_sample": self.model(sample, timestep, **conditions, return_dict=False)[0]}


class VaeEncoder(nn.Module):
    """An image to the mean of its latents."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        found = self.model.encode(image, return_dict=False)[0]
        return {"latents": found if isinstance(found, Tensor) else found.mode()}


class VaeDecoder(nn.Module):
    """Latents to an image."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, latents: Tensor) -> dict[str, Tensor]:
        return {"image": self.model.decode(latents, return_dict=False)[0]}


def from_diffusers(folder: Path, limits: Limits, task: str) -> ExportSource:
    """Reads the folder of one model; raises ExportRefused when it holds none that is known, and for a pipeline, which
    is several."""
    try:
        import diffusers
    except ImportError as error:
        raise ExportRefused(f"diffusers can't be imported: {error}") from error
    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    name = _class_name(folder)
    cls = getattr(diffusers, name, None)
    if not name.startswith(("UNet2D", "Autoencoder")) or cls is None:
        raise ExportRefused(f"{name}: expected a UNet2D… or Autoencoder… of diffusers; for another model make a "
                            "function that returns (module, args)")  # fmt: skip
    if (task in HALVES) != name.startswith("Autoencoder"):
        raise ExportRefused(f"{name}: --task {' or --task '.join(HALVES)} says which half" if task not in HALVES
                            else f"task {task}: {name} is no autoencoder")  # fmt: skip
    try:
        model = cls.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise ExportRefused(f"{name} can't load it: {str(error).splitlines()[0]}") from error
    limits = replace(limits, batch=min(limits.batch, MOST_ROWS))
    called = folder.resolve().name
    if name.startswith("Autoencoder"):
        return _autoencoder(called, model, limits, task)
    return _denoiser(called, model, limits)


def _class_name(folder: Path) -> str:
    """Of the model, as its configuration says."""
    if (folder / "model_index.json").is_file():
        parts = sorted(path.parent.name for path in folder.glob("*/config.json"))
        raise ExportRefused(f"a pipeline, expected one of its models: {', '.join(parts) or 'it has none'}")
    try:
        name = json.loads((folder / "config.json").read_text())["_class_name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExportRefused("expected a diffusers model folder, with a config.json that has a _class_name") from error
    return str(name)


def _denoiser(called: str, model: Any, limits: Limits) -> ExportSource:
    config = model.config
    if config.get("class_embed_type") or config.get("num_class_embeds") or config.get("time_cond_proj_dim"):
        raise ExportRefused("it is conditioned on more than a text: make a function that returns (module, args)")
    size = config.sample_size
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    if limits.image_size:
        height = width = limits.image_size
    if not height:
        raise ExportRefused("its config.json has no sample_size: --image-size says how large a sample is")
    batch = batch_dimension(limits)
    rows = 2 if batch else 1
    steps = torch.randint(0, TRAINING_STEPS, (rows,))
    args: list[Tensor] = [torch.randn(rows, config.in_channels, height, width), steps]
    if "cross_attention_dim" in config:
        # Of models with several blocks' widths each block projects the same states.
        widths = config.cross_attention_dim
        width_of_text = widths[0] if isinstance(widths, (list, tuple)) else widths
        width_of_text = config.get("encoder_hid_dim") or width_of_text
        args.append(torch.randn(rows, limits.length or TEXT_TOKENS, width_of_text))
        kind = config.get("addition_embed_type")
        if kind == "text_time":
            ids = TIME_IDS * config.addition_time_embed_dim
            args.append(torch.randn(rows, config.projection_class_embeddings_input_dim - ids))
            args.append(torch.randint(0, 1024, (rows, TIME_IDS)).float())
        elif kind:
            raise ExportRefused(f"addition_embed_type {kind}: make a function that returns (module, args)")
    shapes = tuple({0: batch} for _ in args) if batch else None
    return ExportSource(
        called, Denoiser(model), tuple(args), dynamic_shapes=shapes, ranges={"timestep": (0, TRAINING_STEPS - 1)}
    )


def _autoencoder(called: str, model: Any, limits: Limits, task: str) -> ExportSource:
    config = model.config
    size = limits.image_size or config.get("sample_size") or 256
    channels = config.in_channels
    module: nn.Module = VaeEncoder(model)
    if task == "vae-decoder":
        # What the encoder makes of such an image says how large latents are.
        with torch.no_grad():
            latents = module(torch.zeros(1, channels, size, size))["latents"]
        module, channels, size = VaeDecoder(model), latents.shape[1], latents.shape[2]
    return one_input(f"{called}-{task.removeprefix('vae-')}", module, (channels, size, size), limits)
