"""The one exception of the compiler that is an answer rather than a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.fx import Node


class Refused(Exception):
    """The program can't be compiled into code that is safe on every value. The message says which
    operator or line of the generated code stands in the way; compiling again would not help.

    `node` is the operator in the graph that was looked at, where there is one; the message then begins
    with it.
    """

    def __init__(self, reason: str, node: Node | None = None) -> None:
        super().__init__(reason if node is None else f"{node.target} ({node.name}): {reason}")
        self.node = node
