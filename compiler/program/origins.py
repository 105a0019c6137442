"""Where a program's operators come from: the lines and modules that torch.export noted.

The notes are text of whoever exported the program. They are read here, for people, and never reach
torch or generated code: there an operator is known by its number (graph_check.check_graph).
"""

from __future__ import annotations

import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

NUMBER = re.compile(r"node (\d+)")
FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in ([^\n]+)(?:\n[ \t]+(?!File ")([^\n]+))?')
PACKAGES = re.compile(r".*[\\/](?:site|dist)-packages[\\/]")
# The frames of torch itself say which function was called, which the operator says too; those of code
# that it generated, for the branches of a torch.cond, are in no file.
OF_TORCH = re.compile(r"<eval_with_key>|(?:.*[\\/](?:site|dist)-packages[\\/])?torch[\\/]")
MOST_CHARACTERS = 200


@dataclass(frozen=True)
class Origin:
    """A line of the model's source, and the module whose forward() was running; either may be unknown."""

    file: str = ""  # as exported; what lies in site-packages from there on
    line: int = 0
    function: str = ""
    code: str = ""  # the line's text
    module: str = ""  # "encoder.layer.0.attention"; empty: the model itself, or unknown
    module_type: str = ""

    @property
    def place(self) -> str:
        """ "modeling_bert.py:312", or the module with its layers' numbers left open: the same code runs
        in all of them."""
        if self.file:
            return f"{PurePath(self.file.replace(chr(92), '/')).name}:{self.line}"
        if self.module:
            return re.sub(r"(?<![^.])\d+(?![^.])", "*", self.module)
        return self.module_type or "unknown"

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"place": self.place}


UNKNOWN = Origin()
GUARDS = Origin(module_type="Stoker's guards")  # of operators that are in no source


def read(note: Any) -> Origin:
    """What torch.export noted of an operator; what can't be understood stays unknown."""
    if not isinstance(note, dict):
        return UNKNOWN
    module, kind = _module(note.get("nn_module_stack"))
    frame = _frame(note.get("stack_trace"))
    if frame is None:
        return Origin(module=module, module_type=kind)
    file, line, function, code = frame
    return Origin(_plain(PACKAGES.sub("", file)), int(line[:9]), _plain(function), _plain(code), module, kind)


def portable(trace: str) -> str | None:
    """Of a stack trace the one line that `read` takes from it, the file named from the folder on that it
    is imported from, as torch writes traces; None where there is none. Says nothing of this machine."""
    frame = _frame(trace)
    if frame is None:
        return None
    file, line, function, code = frame
    return f'  File "{_imported_as(file)}", line {line}, in {function}\n' + (f"    {code}\n" if code else "")


def _frame(trace: Any) -> tuple[str, str, str, str] | None:
    """File, line, function and text of the innermost line that is not torch's own."""
    frames = FRAME.findall(trace) if isinstance(trace, str) else []
    own = [frame for frame in frames if not OF_TORCH.match(frame[0])]
    return (own or frames)[-1] if frames else None


def _imported_as(file: str) -> str:
    path = Path(file)
    folders = [folder for folder in map(Path.absolute, map(Path, sys.path)) if path.is_relative_to(folder)]
    longest = max(folders, key=lambda folder: len(folder.parts), default=path.parent)
    return path.relative_to(longest).as_posix()


def _module(stack: Any) -> tuple[str, str]:
    """Path and type of the innermost module of "key,path,type;key,path,type"."""
    if not isinstance(stack, str):
        return "", ""
    parts = stack.split(";")[-1].split(",", 2)
    if len(parts) != 3 or parts[0].startswith("_empty_nn_module_stack"):
        return "", ""
    return _plain(parts[1]), _plain(parts[2].rpartition(".")[2])


def _plain(text: str) -> str:
    """Fit for a terminal: one line, without controls."""
    return "".join(c for c in text.strip() if c.isprintable())[:MOST_CHARACTERS]


def number(node: Node) -> int | None:
    """The number of the program's operator that a node, of whatever graph was made from it, stems from."""
    match = NUMBER.fullmatch(node.meta.get("stack_trace") or "")
    return int(match.group(1)) if match else None


def graphs(module: GraphModule) -> list[Any]:
    """The module's graph and those of its branches."""
    import torch

    return [part.graph for part in module.modules() if isinstance(part, torch.fx.GraphModule)]
