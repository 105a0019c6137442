"""Why a model can't be exported, and the line of its source that is the cause."""

from __future__ import annotations

import logging
import re
import sys
import sysconfig
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sympy
import torch

_GUARD_LOG = "torch.fx.experimental.symbolic_shapes"
_GUARD = re.compile(r"eval (?P<condition>[^\[].*?) \[guard added\]")
_SAME_SIZE = re.compile(r"Eq\(\w+, \w+\)")  # two inputs share a dimension, as they were meant to
_SYMBOL = re.compile(
    r"create_symbol (?P<symbol>\w+) = \d+ for L\['(?P<input>\w+)'\]\S*\.size\(\)\[(?P<axis>\d+)\] "
    r"\[\d+, (?P<max>\w+)\]"
)
_OURS = Path(__file__).resolve().parents[1]
# Frames in these folders are the machinery, not the model: torch, the standard library, the exporter.
_MACHINERY = (Path(torch.__file__).resolve().parent, Path(sysconfig.get_path("stdlib")))


class ExportRefused(Exception):
    """The model can't be exported; the message is the reason in one line, `location` a file:line or ''."""

    def __init__(self, reason: str, location: str = "") -> None:
        super().__init__(reason)
        self.location = location


@dataclass
class ShapeConditions:
    """What tracing assumed of the sizes of dynamic dimensions, and the model's line that assumed it."""

    found: list[tuple[str, str]] = field(default_factory=list)
    # Symbol of the graph → the axis that it stands for and the largest size that was asked for.
    symbols: dict[str, tuple[str, int]] = field(default_factory=dict)

    def narrowing(self) -> tuple[str, str]:
        """The condition to blame, and its line: one that the largest sizes break, else one that a
        size of 1 breaks, else one that torch could not prove."""
        located = [(condition, where) for condition, where in self.found if where]
        for pick in (lambda largest: largest, lambda _: 1):
            sizes = {symbol: pick(largest) for symbol, (_, largest) in self.symbols.items()}
            for condition, where in located:
                if _is_broken(condition, sizes):
                    return self._in_words(condition), where
        for condition, where in located:
            if not _SAME_SIZE.fullmatch(condition):
                return self._in_words(condition), where
        return "", ""

    def _in_words(self, condition: str) -> str:
        for symbol, (axis, _) in self.symbols.items():
            condition = re.sub(rf"\b{symbol}\b", axis, condition)
        return condition


def _is_broken(condition: str, sizes: dict[str, int]) -> bool:
    try:
        expression = sympy.sympify(condition)
        return any(expression.subs(s, sizes[str(s)]) == sympy.false for s in expression.free_symbols)
    except (sympy.SympifyError, TypeError, AttributeError, SyntaxError, KeyError):
        return False


@contextmanager
def shape_conditions() -> Iterator[ShapeConditions]:
    """Collects what torch logs when it adds a condition: the record is made in the model's call stack."""
    conditions = ShapeConditions()

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            message = record.getMessage()
            if match := _GUARD.search(message):
                conditions.found.append((match["condition"], location_of_frame(sys._getframe())))
            elif match := _SYMBOL.search(message):
                largest = int(match["max"]) if match["max"].isdigit() else 1 << 31
                conditions.symbols[match["symbol"]] = (f"{match['input']}.{match['axis']}", largest)

    logger = logging.getLogger(_GUARD_LOG)
    level, propagate, handlers = logger.level, logger.propagate, logger.handlers
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [Collector()]
    try:
        yield conditions
    finally:
        logger.setLevel(level)
        logger.propagate, logger.handlers = propagate, handlers


def _is_model_source(filename: str) -> bool:
    if filename.startswith("<"):
        return False
    path = Path(filename).resolve()
    if "site-packages" in path.parts:
        return not path.is_relative_to(_MACHINERY[0])
    return not path.is_relative_to(_OURS) and not any(path.is_relative_to(folder) for folder in _MACHINERY)


def location_of_frame(frame: types.FrameType | None) -> str:
    """file:line of the innermost frame that belongs to a model, below the call of torch.export."""
    while frame is not None and Path(frame.f_code.co_filename).resolve() != _OURS / "export/exporter.py":
        if _is_model_source(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def location_of_error(error: BaseException) -> str:
    """file:line of the model's line from which the error came."""
    for entry in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_model_source(entry.filename):
            return f"{entry.filename}:{entry.lineno}"
    return ""


def location_of_node(node: torch.fx.Node) -> str:
    """file:line of the model's line that a node of the graph comes from."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    for filename, line in reversed(frames):
        if _is_model_source(filename):
            return f"{filename}:{line}"
    return ""


def explain(error: BaseException, conditions: ShapeConditions) -> ExportRefused:
    """The refusal for an exception that torch.export raised."""
    text = str(error)
    if "Constraints violated" in text:
        condition, location = conditions.narrowing()
        detail = f"it needs {condition}" if condition else _violations(text)
        return ExportRefused(f"the model can't take every size of a dynamic dimension: {detail}", location)
    if "data-dependent" in text:
        first = text.split(".  (")[0].split(" (unhinted")[0]
        return ExportRefused(
            f"the model's control flow or sizes depend on the values of a tensor ({first})",
            location_of_error(error),
        )
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return ExportRefused(f"{type(error).__name__}: {first}", location_of_error(error))


def _violations(text: str) -> str:
    lines = [line.strip(" -") for line in text.splitlines()[1:] if line.strip().startswith("-")]
    return "; ".join(lines) or text.splitlines()[0]
