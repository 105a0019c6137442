"""A small program that makes a compile touch what most compiles touch."""

from __future__ import annotations

from pathlib import Path


def save(path: Path) -> dict[str, int]:
    """Exports the program to `path`; returns the sizes of a bucket for it."""
    import torch
    from torch import nn
    from torch.export import Dim

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(32, 16)
            self.project = nn.Linear(16, 16)
            self.norm = nn.LayerNorm(16)

        def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            hidden = self.norm(self.embedding(tokens))
            heads = self.project(hidden).unflatten(-1, (2, 8)).transpose(1, 2)
            keep = mask.to(torch.bool)[:, None, None, :]
            mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=keep)
            hidden = hidden + nn.functional.gelu(mixed.transpose(1, 2).flatten(2))
            return torch.softmax(hidden.mean(1), -1)

    tokens = torch.zeros(2, 4, dtype=torch.long)
    shape = {0: Dim("batch", min=1, max=64), 1: Dim("tokens", min=1, max=64)}
    program = torch.export.export(Block().eval(), (tokens, tokens), dynamic_shapes=(shape, shape))
    torch.export.save(program, path)
    batch, length = next(n for n in program.graph.nodes if n.name == "tokens").meta["val"].shape
    return {str(batch): 2, str(length): 8}
