"""What became of a program: what each stage found, and one word for all of it with the reason where it falls short."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

# From the worst to the best.
OUTCOMES = {
    "not exported": "torch.export refuses the model, or it could not be built",
    "refused": "the daemon doesn't serve the program",
    "crashed": "the daemon ended, or gave no answer in time",
    "wrong answer": "what is served differs from eager PyTorch's answer",
    "eager only": "no size is served compiled",
    "slower": "a size is served slower than eager by more than 2 %",
    "partly promoted": "a size is served compiled, another eager",
    "promoted": "every size is served compiled",
}
SERVED = ("eager only", "slower", "partly promoted", "promoted")
PROMOTED = ("slower", "partly promoted", "promoted")
GOALS = {"serve": 1.0, "promote": 0.98, "ratio": 1.5}


@dataclass
class Speed:
    """One size: who serves it, and eager's run time over its."""

    size: str
    tier: str
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    eager_ms: float | None = None
    served_ms: float | None = None
    loses: bool = False

    @property
    def counted(self) -> float | None:
        """The ratio for a mean: 1 where eager serves, which is the same thing twice."""
        return 1.0 if self.tier == "eager" else self.ratio


@dataclass
class Result:
    """Fields that a stage fills are empty when it wasn't reached."""

    name: str
    family: str
    definition: str
    build: str  # of the daemon and its compiler
    outcome: str = "not exported"
    reason: str = ""
    seconds: float = 0.0  # of all stages
    fixed: str = ""  # why it has fixed shapes
    parameters: int = 0
    operators: int = 0
    export_seconds: float | None = None
    forms: str = ""  # "any size" or "each size"
    compile_seconds: float | None = None
    compile_peak_mb: float | None = None
    stays: dict[str, str] = field(default_factory=dict)  # why a form isn't served, by its name
    difference: float | None = None  # the largest of a compiled answer, as stages.difference counts
    speeds: list[Speed] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """Over the sizes, their geometric mean."""
        counted = [speed.counted for speed in self.speeds if speed.counted]
        return statistics.geometric_mean(counted) if counted else None

    def conclude(self) -> None:
        """Names the outcome of a program that was compiled and timed."""
        compiled = [speed for speed in self.speeds if speed.tier != "eager"]
        if any(speed.loses for speed in self.speeds):
            self.outcome = "slower"
            self.reason = "; ".join(f"{s.size}: {s.ratio:.2f} × eager" for s in self.speeds if s.loses and s.ratio)
            return
        if len(compiled) == len(self.speeds):
            self.outcome = "promoted"
            return
        self.outcome = "partly promoted" if compiled else "eager only"
        self.reason = "; ".join(f"{form}: {why}" for form, why in self.stays.items())

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"ratio": self.ratio}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        speeds = [Speed(**{**speed, "interval": speed["interval"] and tuple(speed["interval"])})
                  for speed in fields["speeds"]]  # fmt: skip
        return cls(**{key: value for key, value in fields.items() if key != "ratio"} | {"speeds": speeds})


@dataclass(frozen=True)
class Summary:
    """The results, counted."""

    programs: int
    exported: int
    serve: int
    promote: int
    slower: int
    mean: float | None  # of the ratios of the programs that were timed

    @classmethod
    def of(cls, results: Sequence[Result]) -> Summary:
        def count(outcomes: Iterable[str]) -> int:
            return sum(result.outcome in outcomes for result in results)

        ratios = [result.ratio for result in results if result.ratio]
        return cls(
            programs=len(results),
            exported=len(results) - count(["not exported"]),
            serve=count(SERVED),
            promote=count(PROMOTED),
            slower=count(["slower"]),
            mean=statistics.geometric_mean(ratios) if ratios else None,
        )

    def __str__(self) -> str:
        mean = f"{self.mean:.2f}" if self.mean else "–"
        share = f"{100 * self.promote / self.programs:.1f} %" if self.programs else "–"
        return (
            f"of {self.programs} programs {self.exported} export, {self.serve} serve (goal: all), {self.promote} are "
            f"promoted, {share} (goal {100 * GOALS['promote']:.0f} %), {self.slower} slower than eager (goal 0), "
            f"geometric mean {mean} × eager (goal {GOALS['ratio']})"
        )
