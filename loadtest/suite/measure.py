"""Measures one model: as Stoker decides to serve it beside the same program that is never compiled.

Both are models of one daemon, so that they don't take each other for neighbours, and only one at a time has
work: every alternation asks each for the same few answers, and who is first changes. A few daemons are launched,
one after the other. What is compared is the time that a run of a batch took (stoker_execute_seconds): no queue, no
wire, no client. It is the daemon's own promotion that is judged here, so its figures are not used; for a bucket
that stays on eager both do the same, and its ratio shows how far the machine is to be trusted.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import triton_to_np_dtype

from loadtest.servers.process import ServerError
from loadtest.servers.stokerd import Daemon
from loadtest.suite.models import Sizes, SuiteModel

# Daemons, one after the other: one launch may be slower than the next by a factor, for all
# of its life, in the same code.
LAUNCHES = 3
# Of each: as many as there are, or as fit into the time, but some.
ALTERNATIONS = 15
FEWEST = 4
LAUNCH_SECONDS = 8
BLOCK_SECONDS = 0.03  # of the slower one's runs, counted together
MOST_RUNS = 100
FILL_SECONDS = 3600
UNCOMPILED = "uncompiled"  # the same program's name beside its own
STAYS = re.compile(r"warning\S* (\S+):1 (\S+): stays on eager \((\w+)\): (.*)")
# What may be lost to eager, as a ratio.
ALLOWED = 0.98


@dataclass
class Bucket:
    """What was found out about one bucket."""

    model: str
    name: str
    tier: str = "–"
    why: str = ""  # it stays on eager, or has no figures
    eager_s: list[float] = field(default_factory=list)  # means of the blocks, in order
    served_s: list[float] = field(default_factory=list)
    difference: float = 0.0  # the largest between the answers of the two

    @property
    def ratios(self) -> list[float]:
        """Eager over served, block by block."""
        return [eager / served for eager, served in zip(self.eager_s, self.served_s, strict=True)]

    @property
    def ratio(self) -> float | None:
        """Their median."""
        return statistics.median(self.ratios) if self.eager_s else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the median, at 95 %: no assumption but that the blocks are independent."""
        if not self.eager_s:
            return None
        return median_interval(self.ratios)

    @property
    def counted(self) -> float | None:
        """The ratio for the mean over buckets: 1 where eager serves, which is the same thing twice."""
        return 1.0 if self.tier == "eager" and self.ratio else self.ratio

    @property
    def loses(self) -> bool:
        """Whether what serves is shown to be slower than is allowed."""
        return self.tier != "eager" and self.interval is not None and self.interval[1] < ALLOWED


def median_interval(values: list[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the median, from order statistics."""
    ordered, count = sorted(values), len(values)
    below, rank = 0.0, 0
    while True:
        below += math.comb(count, rank) / 2**count
        if below > 0.025 or rank >= (count - 1) // 2:
            break
        rank += 1
    rank = max(rank - 1, 0)
    return ordered[rank], ordered[count - 1 - rank]


def bucket_name(sizes: Sizes) -> str:
    """As the daemon writes it."""
    return ",".join(f"{dimension}={size}" for dimension, size in sizes.items())


def measure(model: SuiteModel, folder: Path, cache: Path) -> list[Bucket]:
    """`folder` holds the model repository "models" and gets the logs; `cache` is filled first where
    it lacks something. Raises ServerError, with the end of the daemon's log, for a model that isn't served."""
    with Daemon(folder / "models", cache, folder / "fill.log") as daemon:
        daemon.wait_ready(FILL_SECONDS)
        _expect_served(daemon, model)
        daemon.wait_improved(FILL_SECONDS)
        reasons = {found[1]: f"{found[2]}: {found[3]}" for found in STAYS.findall(daemon.log())}
    buckets = []
    for sizes in model.buckets:
        bucket = Bucket(model.name, bucket_name(sizes))
        bucket.why = reasons.get(bucket.name, "")
        alone = _alone(model, folder, sizes)
        for _ in range(LAUNCHES):
            with Daemon(alone, cache, folder / "both.log") as daemon:
                daemon.wait_ready(FILL_SECONDS)
                _measure_launch(model, bucket, sizes, daemon)
        buckets.append(bucket)
    return buckets


def _expect_served(daemon: Daemon, model: SuiteModel) -> None:
    with daemon.client() as client:
        if not client.is_model_ready(model.name):
            raise ServerError(f"{model.name} is not served:\n{daemon.log()[-2000:]}")


def _alone(model: SuiteModel, folder: Path, sizes: Sizes) -> Path:
    """A repository in which the model has this bucket only: with others, a request may be padded up
    to one that is cheaper. And the same, never compiled."""
    root = folder / "alone" / bucket_name(sizes)
    for name, compiled in ((model.name, True), (UNCOMPILED, False)):
        program = folder / "models" / model.name / "1/model.pt2"
        put(program, root / name, replace(model, buckets=(sizes,)).model_yaml(compiled))
    return root


def put(program: Path, folder: Path, yaml: str) -> None:
    """Makes the folder of a model, with its only version a link to the program."""
    link = folder / "1/model.pt2"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    os.link(program, link)
    (folder / "model.yaml").write_text(yaml)


class Side:
    """One of two models of a daemon that are compared, asked for one bucket."""

    def __init__(self, daemon: Daemon, model: str, inputs: list[triton.InferInput]) -> None:
        self._daemon, self._model, self._inputs = daemon, model, inputs
        self._client = daemon.client()

    def answer(self) -> dict[str, np.ndarray]:
        result = self._client.infer(self._model, self._inputs)
        return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}

    def seconds_of(self, runs: int) -> float:
        """The mean of so many runs, after one that doesn't count: the other's threads may still turn, and the caches
        are its."""
        self._client.infer(self._model, self._inputs)
        before = self._total()
        for _ in range(runs):
            self._client.infer(self._model, self._inputs)
        seconds, batches = (b - a for a, b in zip(before, self._total(), strict=True))
        assert batches == runs, f"{batches} runs for {runs} requests"
        return seconds / runs

    def tiers(self, bucket: str) -> set[str]:
        """Those that answered in the bucket."""
        samples = self._daemon.samples("stoker_tier_requests_total")
        own = ((have, count) for have, count in samples if have["model"] == self._model)
        return {have["tier"] for have, count in own if have["bucket"] == bucket and count}

    def close(self) -> None:
        self._client.close()

    def _total(self) -> tuple[float, float]:
        def of_model(metric: str) -> float:
            return self._daemon.metric(metric, model=self._model)

        return of_model("stoker_execute_seconds_sum"), of_model("stoker_execute_seconds_count")


def alternate(bucket: Bucket, eager: Side, served: Side, most: int, seconds: float) -> None:
    """Asks both by turns, `most` times or as often as fits into `seconds`, but some; who is first changes."""
    slower = max(eager.seconds_of(1), served.seconds_of(1))
    runs = min(MOST_RUNS, math.ceil(BLOCK_SECONDS / max(slower, 1e-6)))
    end = time.monotonic() + seconds
    for number in range(most):
        if number >= FEWEST and time.monotonic() > end:
            break
        for side in (eager, served) if number % 2 == 0 else (served, eager):
            (bucket.eager_s if side is eager else bucket.served_s).append(side.seconds_of(runs))


def _measure_launch(model: SuiteModel, bucket: Bucket, sizes: Sizes, daemon: Daemon) -> None:
    with daemon.client() as client:
        inputs = _inputs(model, client, sizes)
    sides = [Side(daemon, name, inputs) for name in (UNCOMPILED, model.name)]
    try:
        expected, given = (side.answer() for side in sides)
        differences = (np.abs(expected[name].astype(np.float64) - given[name]) for name in expected)
        bucket.difference = max(bucket.difference, *(float(each.max()) for each in differences))
        tiers = sides[1].tiers(bucket.name)
        assert len(tiers) == 1, f"{bucket.name} was answered by {sorted(tiers) or 'another bucket'}"
        (bucket.tier,) = tiers
        alternate(bucket, sides[0], sides[1], ALTERNATIONS, LAUNCH_SECONDS)
    finally:
        for side in sides:
            side.close()


def _inputs(model: SuiteModel, client: triton.InferenceServerClient, sizes: Sizes) -> list[triton.InferInput]:
    """Seeded, of the bucket's own size."""
    described = client.get_model_metadata(model.name).inputs
    shapes = {given.name: [int(size) for size in given.shape] for given in described}
    for dimension, size in sizes.items():
        for name, axis in model.places(dimension, shapes):
            shapes[name][axis] = size
    generator = np.random.default_rng(0)
    inputs = []
    for given in described:
        dtype = triton_to_np_dtype(given.datatype)
        low, high = model.ranges.get(given.name, (0, 1))
        if np.issubdtype(dtype, np.integer):
            values = generator.integers(int(low), int(high) + 1, shapes[given.name], dtype=dtype)
        else:
            values = generator.standard_normal(shapes[given.name]).astype(dtype)
        inputs.append(triton.InferInput(given.name, shapes[given.name], given.datatype))
        inputs[-1].set_data_from_numpy(values)
    return inputs
