"""A local `transformers` model folder as an export source: which class reads it, and whose input it takes.

A sentence-transformers folder becomes one program that embeds sentences; others give what their head computes, or the
last hidden state; a task names the half of a model that has two.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import nn

from compiler.export.refusal import ExportRefused
from compiler.export.source import ExportSource, Limits
from compiler.export.transformers_media import (
    ImageEmbedding,
    ImageInput,
    TextEmbedding,
    audio_source,
    image_source,
)
from compiler.export.transformers_text import Encoder, PairEncoder, SentenceEncoder, read_pooling, text_source

# Task → transformers class. "auto" takes the class that the folder was written by.
TASKS = {
    "features": "AutoModel",
    "embedding": "AutoModel",
    "encoder": "AutoModel",
    "text-embedding": "AutoModel",
    "image-embedding": "AutoModel",
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "image-classification": "AutoModelForImageClassification",
    "object-detection": "AutoModelForObjectDetection",
    "semantic-segmentation": "AutoModelForSemanticSegmentation",
    "audio-classification": "AutoModelForAudioClassification",
    "ctc": "AutoModelForCTC",
}
CHOICES = ("auto", *TASKS)
TOWERS = {"text-embedding", "image-embedding"}


def from_transformers(folder: Path, limits: Limits, task: str) -> ExportSource:
    """Reads the folder; raises ExportRefused when it holds no model that fits the task."""
    try:
        import transformers
    except ImportError as error:
        raise ExportRefused(f"transformers can't be imported: {error}") from error
    if not (folder / "config.json").is_file():
        raise ExportRefused("expected a transformers model folder, it has no config.json")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise ExportRefused(f"config.json: {_first_line(error)}") from error
    task = _choose_task(folder, config, task)
    class_name = _class_name(transformers, config, task)
    try:
        model = getattr(transformers, class_name).from_pretrained(
            folder, local_files_only=True, dtype=torch.float32
        )
    except Exception as error:
        raise ExportRefused(f"{class_name} can't load it: {_first_line(error)}") from error
    model.config.use_cache = False
    if task == "encoder":
        model = model.get_encoder()
    elif "decoder_input_ids" in inspect.signature(model.forward).parameters:
        raise ExportRefused(
            f"{config.model_type} is an encoder-decoder, which decodes in a loop: --task encoder exports its encoder"
        )
    return _source(folder, config, model, task, limits)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _choose_task(folder: Path, config: Any, task: str) -> str:
    sentence = (folder / "modules.json").is_file() or (folder / "1_Pooling" / "config.json").is_file()
    if task == "embedding" and not sentence:
        raise ExportRefused("task embedding needs modules.json or 1_Pooling/config.json")
    if task == "encoder" and not config.is_encoder_decoder:
        raise ExportRefused(f"task encoder: {config.model_type} is no encoder-decoder")
    has_towers = hasattr(config, "text_config") and hasattr(config, "vision_config")
    if task in TOWERS and not has_towers:
        raise ExportRefused(f"task {task}: {config.model_type} is no model of both texts and images")
    if has_towers and task not in TOWERS:
        raise ExportRefused(
            f"{config.model_type} takes texts and images: --task text-embedding or --task image-embedding"
        )
    return "embedding" if task == "auto" and sentence else task


def _class_name(transformers: Any, config: Any, task: str) -> str:
    if task != "auto":
        return TASKS[task]
    written_by = next(iter(config.architectures or []), "")
    return written_by if hasattr(transformers, written_by) else "AutoModel"


def _source(folder: Path, config: Any, model: Any, task: str, limits: Limits) -> ExportSource:
    takes = model.main_input_name
    if task == "image-embedding":
        return image_source(folder, config.vision_config, ImageEmbedding(model), limits)
    if task == "text-embedding":
        return text_source(folder, config.text_config, TextEmbedding(model), limits)
    if takes == "pixel_values":
        return image_source(folder, config, ImageInput(model), limits)
    if takes in ("input_values", "input_features"):
        return audio_source(folder, config, model, takes, limits)
    if takes != "input_ids":
        raise ExportRefused(f"{config.model_type} takes {takes}: make a function that returns (module, args)")
    return text_source(folder, config, _text_module(folder, config, model, task), limits)


def _text_module(folder: Path, config: Any, model: nn.Module, task: str) -> nn.Module:
    if task == "embedding":
        return SentenceEncoder(model, *read_pooling(folder))
    has_head = not type(model).__name__.endswith(("Model", "ForCausalLM", "LMHeadModel", "Stack", "Encoder"))
    return PairEncoder(model) if has_head and getattr(config, "type_vocab_size", 0) > 1 else Encoder(model)
