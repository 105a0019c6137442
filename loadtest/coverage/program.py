"""What a program of the coverage table is: a module, its inputs by name, and the sizes that it is asked for.

Nothing here imports torch, so that the programs can be listed at once.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import nn

B = "batch"
MOST_ROWS = 16
Sizes = dict[str, int]  # by dimension
TWO_SIZES: tuple[Sizes, ...] = ({B: 1}, {B: 8})


@dataclass(frozen=True)
class Input:
    """A tensor that a program is given. A dimension with a name is dynamic, and "batch" comes first."""

    shape: tuple[int | str, ...]
    dtype: str = "float32"
    limits: tuple[float, float] | None = None  # closed; floats without any are N(0, 1)

    def draw(self, generator: np.random.Generator, sizes: Sizes) -> np.ndarray:
        shape = [sizes[size] if isinstance(size, str) else size for size in self.shape]
        if self.dtype == "float32":
            values = generator.uniform(*self.limits, shape) if self.limits else generator.standard_normal(shape)
            return values.astype(self.dtype)
        low, high = self.limits or (0, 1)
        return generator.integers(int(low), int(high) + 1, shape).astype(self.dtype)

    def at(self, sizes: Sizes) -> Input:
        """The same with these sizes, fixed."""
        shape = tuple(sizes.get(size, size) if isinstance(size, str) else size for size in self.shape)
        return replace(self, shape=shape)


def floats(*shape: int | str, limits: tuple[float, float] | None = None) -> Input:
    return Input(shape, limits=limits)


def integers(count: int, *shape: int | str) -> Input:
    """0 to `count` - 1."""
    return Input(shape, "int64", (0, count - 1))


def ones(*shape: int | str) -> Input:
    """A mask that hides nothing."""
    return Input(shape, "int64", (1, 1))


def image(size: int, channels: int = 3) -> Input:
    return floats(B, channels, size, size)


@dataclass(frozen=True)
class Program:
    """`make` builds the module, with random weights; inputs are passed by name."""

    name: str
    family: str
    make: Callable[[], nn.Module]
    inputs: dict[str, Input]
    sizes: tuple[Sizes, ...] = TWO_SIZES
    fixed: str = ""  # why it has no dynamic dimension, where that is known
    tolerance: float = 1e-3  # of a compiled answer, as `stages.difference` counts
    axes: dict[str, str] = field(default_factory=dict)  # of dimensions other than the batch: "input.axis"

    @cached_property
    def definition(self) -> str:
        """Changes with what is written of the program: fields, `make` with its arguments and the text of what that
        calls first. What is below that, such as a library's version, is not in it."""
        make, arguments = self.make, ""
        while isinstance(make, partial):
            arguments += f"{make.args} {sorted(make.keywords.items())}"
            make = make.func
        try:
            text = inspect.getsource(make)
        except (OSError, TypeError):
            text = repr(make)
        parts = (arguments, text, self.inputs, self.sizes, self.axes)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    @property
    def dynamic(self) -> bool:
        return any(isinstance(size, str) for given in self.inputs.values() for size in given.shape)

    def without_dynamic(self, why: str) -> Program:
        """The same at its first size, fixed."""
        first = self.sizes[0]
        inputs = {name: given.at(first) for name, given in self.inputs.items()}
        return replace(self, inputs=inputs, sizes=({},), fixed=why, axes={})

    def draw(self, sizes: Sizes, seed: int = 0) -> dict[str, np.ndarray]:
        """Inputs of these sizes, the same every time."""
        generator = np.random.default_rng(seed)
        return {name: given.draw(generator, sizes) for name, given in self.inputs.items()}

    def model_yaml(self, compiled: object) -> str:
        """What a user has to say of it, and `compile: compiled`. JSON, which is YAML."""
        fields: dict[str, Any] = {}
        if self.dynamic:
            fields["max_batch_size"] = max(sizes.get(B, 1) for sizes in self.sizes)
            fields["buckets"] = list(self.sizes)
        if self.axes:
            fields["dimensions"] = {name: {"axis": axis} for name, axis in self.axes.items()}
        ranges = {name: {"range": list(given.limits)} for name, given in self.inputs.items() if given.limits}
        if ranges:
            fields["inputs"] = ranges
        fields["compile"] = compiled
        return json.dumps(fields, indent=1) + "\n"


def size_name(sizes: Sizes) -> str:
    return ",".join(f"{dimension}={size}" for dimension, size in sizes.items()) or "fixed"


def by_name(programs: Iterable[Program]) -> dict[str, Program]:
    """Raises ValueError for a name that is there twice."""
    found: dict[str, Program] = {}
    for program in programs:
        if program.name in found:
            raise ValueError(f"two programs are called {program.name}")
        found[program.name] = program
    return found
