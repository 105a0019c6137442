"""A local `transformers` model folder as an export source.

Sentence-transformers' folders (modules.json, 1_Pooling/config.json) become one program that gives
the token embeddings and the pooled, optionally normalised sentence embedding. Other folders give
what their head computes, or the last hidden state.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from compiler.export.refusal import ExportRefused
from compiler.export.source import ExportSource, Limits, batch_dimension

# Task → transformers class; the suffix of an architecture's name chooses the task by itself.
TASKS = {
    "features": ("AutoModel", ""),
    "sequence-classification": ("AutoModelForSequenceClassification", "ForSequenceClassification"),
    "token-classification": ("AutoModelForTokenClassification", "ForTokenClassification"),
    "question-answering": ("AutoModelForQuestionAnswering", "ForQuestionAnswering"),
    "masked-lm": ("AutoModelForMaskedLM", "ForMaskedLM"),
    "causal-lm": ("AutoModelForCausalLM", "ForCausalLM"),
}
CHOICES = ("auto", "embedding", *TASKS)
# Models that number positions from padding_idx + 1, so that many positions are never reached.
OFFSET_POSITIONS = {"camembert", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl"}

POOLING_MODES = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken")


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
    if config.is_encoder_decoder:
        raise ExportRefused(f"{config.model_type} is an encoder-decoder, which decodes in a loop")
    task = _choose_task(folder, config, task)
    class_name = TASKS["features" if task == "embedding" else task][0]
    try:
        model = getattr(transformers, class_name).from_pretrained(
            folder, local_files_only=True, dtype=torch.float32
        )
    except Exception as error:
        raise ExportRefused(f"{class_name} can't load it: {_first_line(error)}") from error
    model.config.use_cache = False
    wrapped: nn.Module = (
        _SentenceEncoder(model, *_read_pooling(folder)) if task == "embedding" else _Encoder(model)
    )
    if task not in ("embedding", "features", "causal-lm") and getattr(config, "type_vocab_size", 0) > 1:
        wrapped = _PairEncoder(model)
    return _source(folder, config, wrapped, limits)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _choose_task(folder: Path, config: Any, task: str) -> str:
    sentence = (folder / "modules.json").is_file() or (folder / "1_Pooling" / "config.json").is_file()
    if task == "embedding" and not sentence:
        raise ExportRefused("task embedding needs modules.json or 1_Pooling/config.json")
    if task != "auto":
        return task
    if sentence:
        return "embedding"
    architecture = next(iter(config.architectures or []), "")
    for name, (_, suffix) in TASKS.items():
        if suffix and architecture.endswith(suffix):
            return name
    return "features"


def _source(folder: Path, config: Any, module: nn.Module, limits: Limits) -> ExportSource:
    longest = _max_length(folder, config)
    length = min(limits.length or longest, longest)
    if limits.length and limits.length > longest:
        raise ExportRefused(f"--max-length {limits.length}: the model takes at most {longest} tokens")
    batch, tokens = batch_dimension(limits), Dim("tokens", min=1, max=length)
    shape = {0: batch, 1: tokens} if batch else {1: tokens}
    rows = 2 if batch else 1
    ids = torch.randint(0, config.vocab_size, (rows, min(16, length)))
    names = list(inspect.signature(module.forward).parameters)
    values = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": ids * 0}
    ranges = {"input_ids": (0, config.vocab_size - 1), "attention_mask": (0, 1)}
    ranges["token_type_ids"] = (0, max(0, getattr(config, "type_vocab_size", 1) - 1))
    pad = {"input_ids": getattr(config, "pad_token_id", None) or 0, "attention_mask": 0, "token_type_ids": 0}
    return ExportSource(
        name=folder.resolve().name,
        module=module,
        args=tuple(values[n] for n in names),
        dynamic_shapes=tuple(dict(shape) for _ in names),
        padded={"tokens"},
        ranges={n: ranges[n] for n in names},
        pad_values={n: pad[n] for n in names},
    )


def _max_length(folder: Path, config: Any) -> int:
    """The most tokens that the position embeddings and the tokenizer have a place for."""
    longest = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None) or 512
    if config.model_type in OFFSET_POSITIONS:
        longest -= (getattr(config, "pad_token_id", None) or 0) + 1
    try:
        tokenizer = json.loads((folder / "tokenizer_config.json").read_text()).get("model_max_length")
    except (OSError, ValueError):
        tokenizer = None
    return min(longest, int(tokenizer)) if tokenizer else longest


def _read_pooling(folder: Path) -> tuple[list[str], bool]:
    """The pooling modes and whether embeddings are normalised, from sentence-transformers' files."""
    normalise, pooling_folder = False, folder / "1_Pooling"
    if (folder / "modules.json").is_file():
        for module in json.loads((folder / "modules.json").read_text()):
            kind = module["type"].rpartition(".")[2]
            if kind == "Normalize":
                normalise = True
            elif kind == "Pooling":
                pooling_folder = folder / module["path"]
            elif kind != "Transformer":
                raise ExportRefused(f"modules.json: {kind}, expected only Transformer, Pooling and Normalize")
    path = pooling_folder / "config.json"
    if not path.is_file():
        raise ExportRefused(f"{path}: not found, though the folder is a sentence-transformers model")
    pooling = json.loads(path.read_text())
    modes = [
        key.removeprefix("pooling_mode_")
        for key, on in pooling.items()
        if key.startswith("pooling_mode_") and on
    ]
    if isinstance(pooling.get("pooling_mode"), str):
        short = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens"}
        modes = [short.get(pooling["pooling_mode"], pooling["pooling_mode"])]
    unknown = [mode for mode in modes if mode not in POOLING_MODES]
    if unknown or not modes:
        raise ExportRefused(
            f"{path}: pooling {', '.join(unknown) or 'none'}, expected of {', '.join(POOLING_MODES)}"
        )
    return modes, normalise


def _pool(mode: str, hidden: Tensor, mask: Tensor) -> Tensor:
    if mode == "cls_token":
        return hidden[:, 0]
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    if mode == "max_tokens":
        return hidden.masked_fill(weight == 0, -1e9).max(1).values
    if mode == "lasttoken":
        last = (mask * torch.arange(1, mask.shape[1] + 1)).argmax(1)
        return hidden.gather(1, last[:, None, None].expand(-1, 1, hidden.shape[2])).squeeze(1)
    count = weight.sum(1).clamp(min=1e-9)
    return (hidden * weight).sum(1) / (count.sqrt() if mode == "mean_sqrt_len_tokens" else count)


class _SentenceEncoder(nn.Module):
    def __init__(self, model: nn.Module, modes: list[str], normalise: bool) -> None:
        super().__init__()
        self.model, self.modes, self.normalise = model, modes, normalise

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        pooled = torch.cat([_pool(mode, hidden, attention_mask) for mode in self.modes], 1)
        if self.normalise:
            pooled = nn.functional.normalize(pooled)
        return {"token_embeddings": hidden, "sentence_embedding": pooled}


class _Encoder(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        return _tensors(self.model(input_ids=input_ids, attention_mask=attention_mask))


class _PairEncoder(nn.Module):
    """For heads that judge pairs of texts, told apart by token_type_ids."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> dict[str, Tensor]:
        return _tensors(
            self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        )


def _tensors(output: Any) -> dict[str, Tensor]:
    """What a model's output holds besides caches, attentions and the pooler's unused head."""
    found = {name: value for name, value in output.items() if isinstance(value, Tensor)}
    return {k: v for k, v in found.items() if k != "pooler_output"} or found
