"""transformers' models with small configurations: the architectures are the real ones, widths and depths are not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import nn

from loadtest.coverage.program import B, Input, Program, floats, image, integers, ones

VOCABULARY = 1000
LENGTH = 32
# What most configurations call the same.
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "max_position_embeddings": 128,
}
# GPT-2 and those after it.
GPT: dict[str, Any] = {"vocab_size": VOCABULARY, "n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 128}
# Ids of special tokens must be in the vocabulary.
SPECIAL: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED: dict[str, Any] = {**SMALL, **SPECIAL, "num_key_value_heads": 2}
SEQ2SEQ: dict[str, Any] = {
    **SPECIAL, "vocab_size": VOCABULARY, "d_model": 128, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256,
    "decoder_start_token_id": 2, "max_position_embeddings": 128,
}  # fmt: skip
IMAGES: dict[str, Any] = {**SMALL, "image_size": 64}
SPEECH: dict[str, Any] = {
    **SMALL, "conv_dim": (64,) * 5, "conv_stride": (5, 2, 2, 2, 2), "conv_kernel": (10, 3, 3, 3, 2),
    "num_feat_extract_layers": 5, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip

TEXT: dict[str, Input] = {"input_ids": integers(VOCABULARY, B, LENGTH), "attention_mask": ones(B, LENGTH)}
IDS: dict[str, Input] = {"input_ids": integers(VOCABULARY, B, LENGTH)}
PAIR: dict[str, Input] = {**IDS, "decoder_input_ids": integers(VOCABULARY, B, 8)}
PIXELS: dict[str, Input] = {"pixel_values": image(64)}
WAVE: dict[str, Input] = {"input_values": floats(B, 8000)}

ENCODERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Bert", SMALL),
    ("Roberta", {**SMALL, **SPECIAL}),
    ("DistilBert", {"vocab_size": VOCABULARY, "dim": 128, "n_layers": 3, "n_heads": 4, "hidden_dim": 256}),
    ("Albert", {**SMALL, "embedding_size": 64}),
    ("Electra", {**SMALL, "embedding_size": 64}),
    ("MPNet", {**SMALL, **SPECIAL}),
    ("DebertaV2", {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm",
                   "position_buckets": 16, "share_att_key": True}),
    ("ModernBert", {**SMALL, **SPECIAL, "cls_token_id": 1, "sep_token_id": 2}),
    ("FNet", {**SMALL, "use_tpu_fourier_optimizations": False}),
    ("Funnel", {"vocab_size": VOCABULARY, "block_sizes": [1, 1, 1], "num_decoder_layers": 1, "d_model": 128,
                "n_head": 4, "d_head": 32, "d_inner": 256}),
    ("RoFormer", {**SMALL, "embedding_size": 128}),
    ("ConvBert", {**SMALL, "embedding_size": 64, "head_ratio": 2}),
    ("SqueezeBert", {**SMALL, "embedding_size": 128}),
    # Memories for a text that goes on would come out as well, and batches lie along their second axis.
    ("XLNet", {**SPECIAL, "vocab_size": VOCABULARY, "d_model": 128, "n_layer": 3, "n_head": 4, "d_inner": 256,
               "use_mems_eval": False}),
    ("MobileBert", {**SMALL, "intra_bottleneck_size": 64, "embedding_size": 64, "num_feedforward_networks": 2}),
    ("Esm", {**SMALL, **SPECIAL, "mask_token_id": 4, "position_embedding_type": "rotary"}),
)  # fmt: skip
DECODERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Llama", GROUPED),
    ("Qwen2", GROUPED),
    ("Qwen3", {**GROUPED, "head_dim": 32}),
    ("Mistral", {**GROUPED, "sliding_window": 16}),
    ("Gemma", {**GROUPED, "head_dim": 32}),
    ("Gemma2", {**GROUPED, "head_dim": 32, "sliding_window": 16}),
    ("Phi", {**SMALL, **SPECIAL}),
    ("Phi3", GROUPED),
    ("Falcon", {**SMALL, **SPECIAL, "new_decoder_architecture": True, "num_kv_heads": 2}),
    ("GPT2", {**GPT, **SPECIAL}),
    ("GPTJ", {**GPT, **SPECIAL, "rotary_dim": 16}),
    ("GPTNeoX", {**SMALL, **SPECIAL}),
    ("Bloom", {**SPECIAL, "vocab_size": VOCABULARY, "hidden_size": 128, "n_layer": 3, "n_head": 4}),
    ("OPT", {**SPECIAL, **SMALL, "ffn_dim": 256, "word_embed_proj_dim": 128}),
    ("Olmo2", GROUPED),
    ("Cohere", GROUPED),
    ("Mamba", {**SPECIAL, **SMALL, "state_size": 16}),
    ("Mamba2", {**SPECIAL, **SMALL, "state_size": 16, "num_heads": 8, "head_dim": 32, "n_groups": 2,
                "chunk_size": 16}),
    ("Mixtral", {**GROUPED, "num_local_experts": 4}),
    ("Qwen3Moe", {**GROUPED, "head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128}),
    ("GptOss", {**GROUPED, "head_dim": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16}),
    ("DeepseekV3", {**GROUPED, "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2,
                    "topk_group": 1, "first_k_dense_replace": 1, "kv_lora_rank": 32, "q_lora_rank": 48,
                    "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 32, "moe_intermediate_size": 64}),
)  # fmt: skip
PAIRS: tuple[tuple[str, str, dict[str, Any], dict[str, Input]], ...] = (
    ("T5", "T5Model", {**SPECIAL, "vocab_size": VOCABULARY, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2,
                       "num_heads": 4}, PAIR),
    ("Bart", "BartModel", SEQ2SEQ, PAIR),
    ("Pegasus", "PegasusModel", SEQ2SEQ, PAIR),
    ("Whisper", "WhisperModel", {**SEQ2SEQ, "num_mel_bins": 40, "max_source_positions": 100,
                                 "max_target_positions": 64},
     {"input_features": floats(B, 40, 200), "decoder_input_ids": integers(VOCABULARY, B, 8)}),
)  # fmt: skip
VISION: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("ViT", "ViTModel", IMAGES),
    ("DeiT", "DeiTModel", IMAGES),
    ("Swin", "SwinModel", {"image_size": 64, "embed_dim": 48, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}),
    ("ConvNext", "ConvNextModel", {"hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 2, 1]}),
    ("Segformer", "SegformerForSemanticSegmentation", {"decoder_hidden_size": 64}),
    ("Dinov2", "Dinov2Model", {**IMAGES, "patch_size": 8}),
    ("Yolos", "YolosForObjectDetection", {**IMAGES, "image_size": [64, 64], "num_detection_tokens": 10}),
    ("Detr", "DetrForObjectDetection", {"backbone_config": {"model_type": "resnet",
        "embedding_size": 32, "hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 1, 1], "layer_type": "basic",
        "out_features": ["stage4"]}, "d_model": 64,
        "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "num_queries": 10,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4}),
)  # fmt: skip
AUDIO: tuple[tuple[str, str, dict[str, Any], dict[str, Input]], ...] = (
    ("Wav2Vec2", "Wav2Vec2Model", SPEECH, WAVE),
    ("Hubert", "HubertModel", SPEECH, WAVE),
    ("WavLM", "WavLMModel", SPEECH, WAVE),
    ("AST", "ASTModel", {**SMALL, "max_length": 128, "num_mel_bins": 64}, {"input_values": floats(B, 128, 64)}),
)  # fmt: skip
TOWERS: tuple[tuple[str, str, dict[str, Any], dict[str, Input]], ...] = (
    ("CLIPText", "CLIPTextModelWithProjection", {**SMALL, **SPECIAL, "projection_dim": 64}, IDS),
    ("CLIPVision", "CLIPVisionModelWithProjection", {**IMAGES, "projection_dim": 64, "patch_size": 16}, PIXELS),
    ("SiglipText", "SiglipTextModel", {**SMALL, **SPECIAL, "projection_size": 128}, IDS),
    ("SiglipVision", "SiglipVisionModel", IMAGES, PIXELS),
)


def build(config: str, model: str, arguments: dict[str, Any]) -> nn.Module:
    import transformers

    known = getattr(transformers, f"{config}Config")
    made = getattr(transformers, model)(known(**arguments))
    for part in made.modules():  # what a model answers besides: no key-value caches
        if hasattr(getattr(part, "config", None), "use_cache"):
            part.config.use_cache = False
    return made


def programs() -> Iterator[Program]:
    def made(family: str, config: str, model: str, arguments: dict[str, Any], inputs: dict[str, Input]) -> Program:
        return Program(f"hf_{config.lower()}", family, partial(build, config, model, arguments), inputs)

    for name, arguments in ENCODERS:
        yield made("text encoders", name, f"{name}Model", arguments, IDS if name == "FNet" else TEXT)
    for name, arguments in DECODERS:
        yield made("decoders", name, "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM", arguments, IDS)
    for name, model, arguments, inputs in PAIRS:
        yield made("encoder-decoders", name, model, arguments, inputs)
    for name, model, arguments in VISION:
        yield made("vision transformers", name, model, arguments, PIXELS)
    for name, model, arguments, inputs in AUDIO:
        yield made("audio", name, model, arguments, inputs)
    for name, model, arguments, inputs in TOWERS:
        yield made("image and text", name, model, arguments, inputs)
