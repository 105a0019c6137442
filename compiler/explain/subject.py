"""The program that a report is about, and which of its operators a node or a kernel stems from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compiler.explain.kernel_calls import Call
from compiler.program import origins
from compiler.program.origins import Origin

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

Report = dict[str, Any]  # as JSON


@dataclass
class Subject:
    """The program in question, and where its operators come from."""

    program: ExportedProgram
    notes: list[Origin]  # by the operators' numbers

    def origin(self, number: int | None) -> Origin:
        return origins.UNKNOWN if number is None else self.notes[number]


def is_operator(node: Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem"


def numbers(call: Call) -> list[int | None]:
    """The program's operators that the kernel computes, each once; [None] where nothing is known."""
    known: list[int | None] = [n for n in dict.fromkeys(map(origins.number, call.nodes)) if n is not None]
    return known or [None]
