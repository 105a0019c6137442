"""Text models of transformers as export sources: encoders, their heads, decoders' first step, sentence encoders.

Sentence-transformers' folders (modules.json, 1_Pooling/config.json) become one program that gives the token embeddings
and the pooled, optionally normalised sentence embedding.
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
from compiler.export.source import ExportSource, Limits, batch_dimension, tensors

# Models that number positions from padding_idx + 1, so that many positions are never reached.
OFFSET_POSITIONS = {"camembert", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl"}

POOLING_MODES = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken")


def text_source(folder: Path, config: Any, module: nn.Module, limits: Limits) -> ExportSource:
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


def read_pooling(folder: Path) -> tuple[list[str], bool]:
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


class SentenceEncoder(nn.Module):
    def __init__(self, model: nn.Module, modes: list[str], normalise: bool) -> None:
        super().__init__()
        self.model, self.modes, self.normalise = model, modes, normalise

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        pooled = torch.cat([_pool(mode, hidden, attention_mask) for mode in self.modes], 1)
        if self.normalise:
            pooled = nn.functional.normalize(pooled)
        return {"token_embeddings": hidden, "sentence_embedding": pooled}


class Encoder(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        return tensors(self.model(input_ids=input_ids, attention_mask=attention_mask))


class PairEncoder(nn.Module):
    """For heads that judge pairs of texts, told apart by token_type_ids."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> dict[str, Tensor]:
        return tensors(
            self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        )
