"""diffusers' networks: one step of denoising, and both halves of the autoencoders around it. Widths are small."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import Tensor, nn

from loadtest.coverage.program import B, Input, Program, floats, image, integers

FAMILY = "diffusers"
BLOCKS: dict[str, Any] = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
AUTOENCODER: dict[str, Any] = {
    **BLOCKS, "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
}  # fmt: skip
STEP = integers(1000, B)
LATENT = floats(B, 4, 16, 16)
WORDS = floats(B, 16, 64)

# Class, configuration, inputs.
DENOISERS: tuple[tuple[str, dict[str, Any], dict[str, Input]], ...] = (
    ("UNet2DModel", {**BLOCKS, "sample_size": 32, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                     "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "attention_head_dim": 8},
     {"sample": image(32), "timestep": STEP}),
    ("UNet2DConditionModel", {**BLOCKS, "sample_size": 16, "cross_attention_dim": 64, "attention_head_dim": 8,
                              "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
                              "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")},
     {"sample": LATENT, "timestep": STEP, "encoder_hidden_states": WORDS}),
    ("UNet1DModel", {"block_out_channels": (32, 64), "extra_in_channels": 64, "sample_size": 128,
                     "down_block_types": ("DownBlock1DNoSkip", "DownBlock1D"),
                     "up_block_types": ("UpBlock1D", "UpBlock1DNoSkip")},
     {"sample": floats(B, 2, 128), "timestep": STEP}),
    ("DiTTransformer2DModel", {"num_attention_heads": 4, "attention_head_dim": 32, "num_layers": 3, "sample_size": 16,
                               "in_channels": 4, "out_channels": 8, "num_embeds_ada_norm": 1000},
     {"hidden_states": LATENT, "timestep": STEP, "class_labels": integers(10, B)}),
    ("PixArtTransformer2DModel", {"num_attention_heads": 4, "attention_head_dim": 32, "num_layers": 2,
                                  "sample_size": 16, "cross_attention_dim": 128, "caption_channels": 64},
     {"hidden_states": LATENT, "encoder_hidden_states": WORDS, "timestep": STEP}),
    ("SD3Transformer2DModel", {"sample_size": 16, "num_layers": 2, "attention_head_dim": 32, "num_attention_heads": 4,
                               "in_channels": 4, "out_channels": 4, "joint_attention_dim": 64,
                               "caption_projection_dim": 128, "pooled_projection_dim": 64, "pos_embed_max_size": 16},
     {"hidden_states": LATENT, "encoder_hidden_states": WORDS, "pooled_projections": floats(B, 64), "timestep": STEP}),
    ("ControlNetModel", {**BLOCKS, "cross_attention_dim": 64, "attention_head_dim": 8,
                         "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
                         "conditioning_embedding_out_channels": (16, 32)},
     {"sample": LATENT, "timestep": STEP, "encoder_hidden_states": WORDS, "controlnet_cond": image(32)}),
)  # fmt: skip
# Class, configuration.
AUTOENCODERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("AutoencoderKL", AUTOENCODER),
    ("AutoencoderTiny", {"encoder_block_out_channels": (32, 32), "decoder_block_out_channels": (32, 32),
                         "num_encoder_blocks": (1, 2), "num_decoder_blocks": (2, 1)}),
)  # fmt: skip


class Denoiser(nn.Module):
    """Answers with tensors only."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.model = build(name, arguments)

    def forward(
        self,
        sample: Tensor | None = None,
        timestep: Tensor | None = None,
        hidden_states: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        class_labels: Tensor | None = None,
        pooled_projections: Tensor | None = None,
        controlnet_cond: Tensor | None = None,
    ) -> Any:
        given = {name: value for name, value in locals().items() if isinstance(value, Tensor)}
        return self.model(**given, return_dict=False)


class Encoder(nn.Module):
    """An image to the mean of its latents."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.model = build(name, arguments)

    def forward(self, image: Tensor) -> Tensor:
        found = self.model.encode(image, return_dict=False)[0]
        return found if isinstance(found, Tensor) else found.mode()


class Decoder(nn.Module):
    """Latents to an image."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.model = build(name, arguments)

    def forward(self, latents: Tensor) -> Tensor:
        return self.model.decode(latents, return_dict=False)[0]


def build(name: str, arguments: dict[str, Any]) -> nn.Module:
    import diffusers

    return getattr(diffusers, name)(**arguments)


def programs() -> Iterator[Program]:
    for name, arguments, inputs in DENOISERS:
        yield Program(f"df_{name.removesuffix('Model').lower()}", FAMILY, partial(Denoiser, name, arguments), inputs)
    for name, arguments in AUTOENCODERS:
        called = f"df_{name.lower()}"
        yield Program(f"{called}_encoder", FAMILY, partial(Encoder, name, arguments), {"image": image(32)})
        yield Program(f"{called}_decoder", FAMILY, partial(Decoder, name, arguments), {"latents": LATENT})
