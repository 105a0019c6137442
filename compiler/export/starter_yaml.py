"""The starter model.yaml: what the program can't say about itself, every field explained."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Dimension:
    """A dynamic dimension: where it first appears and the sizes that the program takes."""

    name: str
    axis: str  # "input_ids.0"
    min: int
    max: int
    padding: bool = False


@dataclass
class Description:
    """What the file is made from."""

    source: str
    inputs: list[str]
    dimensions: list[Dimension] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    pad_values: dict[str, int] = field(default_factory=dict)
    batch_buckets: list[int] = field(default_factory=list)
    length_buckets: list[int] = field(default_factory=list)
    # Whether "batch" is axis 0 of every input and output, so that requests can be put together along it.
    has_batch: bool = False


def buckets_of(dimension: Dimension, description: Description) -> list[int]:
    """The sizes to compile for one dimension: the asked-for ones that the program takes."""
    wanted = description.batch_buckets if dimension.name == "batch" else description.length_buckets
    fitting = sorted({n for n in wanted if dimension.min <= n <= dimension.max})
    return fitting or [dimension.max]


def starter_yaml(description: Description) -> str:
    """The text of model.yaml."""
    lines = [
        f"# How to serve this model. Exported from {description.source}.",
        "# Names, dtypes, shapes and bounds come from model.pt2; this file adds what it can't say.",
        "",
        "# When a version counts as ready: eager (at once, compiling goes on behind traffic)",
        "# or warm (when every bucket below is compiled).",
        "ready_when: warm",
        "# Which version folders are served: latest, all, or a list such as [1, 3].",
        "versions: latest",
    ]
    batch = next((d for d in description.dimensions if d.name == "batch"), None)
    if batch and description.has_batch:
        lines += [
            "# The most rows that one run takes; requests are merged up to it.",
            f"max_batch_size: {buckets_of(batch, description)[-1]}",
        ]
    if description.dimensions:
        lines += _dimension_lines(description.dimensions)
    if description.ranges or description.pad_values:
        lines += _input_lines(description)
    if description.dimensions:
        lines += [
            "# The sizes that requests are padded to, and compiled for: every combination of these lists.",
            "buckets:",
            *(f"  {d.name}: {_list(buckets_of(d, description))}" for d in description.dimensions),
            "# What a request gets that fits no bucket: eager (slower) or reject.",
            "unmatched: eager",
        ]
    lines += [
        "# false: never compile, serve the exported program as it is.",
        *(
            [
                "# auto: code for any size first, then a bucket's own as long as that is faster.",
                "compile: {dynamic: auto}",
            ]
            if description.dimensions
            else ["compile: true"]
        ),
        "# Threads of one instance; 0 divides the cores by the instances.",
        "threads: 0",
        "# Copies that run side by side; weights are shared.",
        "instances: 1",
        "# How many requests may wait, and for how long when the client sets no limit (0: for ever).",
        "dynamic_batching:",
        "  default_queue_policy: {max_queue_size: 1024, default_timeout_microseconds: 0}",
    ]
    return "\n".join(lines) + "\n"


def _dimension_lines(dimensions: list[Dimension]) -> list[str]:
    lines = [
        "# Names for the dynamic dimensions, each by an input and its axis. padding: a request may be",
        "# filled up to the next bucket along it (right only where the model masks the filling out).",
        "dimensions:",
    ]
    width = max(len(d.name) for d in dimensions) + 1
    for d in dimensions:
        padding = ", padding: true" if d.padding else ""
        entry = f"  {d.name + ':':<{width}} {{axis: {d.axis}{padding}}}"
        lines.append(f"{entry:<44} # {d.min} to {d.max}")
    return lines


def _input_lines(description: Description) -> list[str]:
    lines = [
        "# Per input: what padding is filled with, and the values that test inputs are drawn from.",
        "inputs:",
    ]
    names = [n for n in description.inputs if n in description.ranges or n in description.pad_values]
    width = max(len(n) for n in names) + 1
    for name in names:
        fields = []
        if name in description.pad_values:
            fields.append(f"pad_value: {description.pad_values[name]}")
        if name in description.ranges:
            fields.append(f"range: {_list(description.ranges[name])}")
        lines.append(f"  {name + ':':<{width}} {{{', '.join(fields)}}}")
    return lines


def _list(values: list[int] | tuple[int, int]) -> str:
    return "[" + ", ".join(str(v) for v in values) + "]"
