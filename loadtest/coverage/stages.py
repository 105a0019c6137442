"""The stages of one program, each in processes of its own with limits for time and memory.

`run` takes a program through all of them and returns what became of it; whatever happens to a stage's processes, it
returns. Only one stage's processes live at a time. What a program leaves is in its folder: the program itself, the
reference answers, the logs of every process.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from loadtest.coverage.memory_limit import MemoryLimit
from loadtest.coverage.outcome import Result, Speed
from loadtest.coverage.program import Program, Sizes, size_name
from loadtest.servers.process import ServerError, ServerProcess
from loadtest.servers.stokerd import REPOSITORY, Daemon, warm_up
from loadtest.suite.measure import UNCOMPILED, Bucket, Side, alternate, put

EXPORT_SECONDS = 300
SERVE_SECONDS = 120
COMPILE_SECONDS = 300  # of one form
SETTLE_SECONDS = 1500  # of all forms
IMPROVE_SECONDS = 600
ANSWER_SECONDS = 60
MEMORY_MB = 6144
LIMITS = (f"--compile-timeout-seconds={COMPILE_SECONDS}", f"--compile-memory-mb={MEMORY_MB}")
ALTERNATIONS = 40
SPEED_SECONDS = 3
EAGER_TOLERANCE = 1e-4
REFUSED = re.compile(r"error\s+\S+:1: \w+ -> failed: (.*)")
STAYS = re.compile(r"warning\S* \S+:1 ?(\S*?): stays on eager \((\w+)\): (.*)")
COMPILED = re.compile(r"compiled \S+:1 \[.*\] ([0-9a-f]+) in")
KEY = re.compile(r"key ([0-9a-f]{12})")
COMPILE_FORMS: tuple[tuple[str, object], ...] = (("any size", {"dynamic": "only"}), ("each size", True))


class StageError(Exception):
    """Where a program's way ends: an outcome and the reason."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


def difference(given: np.ndarray, expected: np.ndarray) -> float:
    """The largest, each in units of the expected value plus the root mean square of all. Infinite where shapes, dtypes,
    integers or what isn't finite differ."""
    if given.shape != expected.shape or given.dtype != expected.dtype:
        return float("inf")
    if not np.issubdtype(expected.dtype, np.floating):
        return 0.0 if np.array_equal(given, expected) else float("inf")
    finite = np.isfinite(expected)
    if not np.array_equal(given[~finite], expected[~finite], equal_nan=True):
        return float("inf")
    a, b = given[finite].astype(np.float64), expected[finite].astype(np.float64)
    if not b.size:
        return 0.0
    if not np.isfinite(a).all():
        return float("inf")
    scale = np.abs(b) + np.sqrt(np.mean(b**2))
    return float(np.max(np.abs(a - b) / np.maximum(scale, 1e-30)))


class Way:
    """One program's way through the stages, in `folder`."""

    def __init__(self, program: Program, folder: Path, cache: Path, python: Path, result: Result) -> None:
        self._program, self._folder, self._cache = program, folder, cache
        self._python, self._result = python, result

    def export(self) -> None:
        """Leaves what an earlier run has exported from the same definition."""
        note, stamp = self._folder / "export.json", self._folder / "exported-from"
        if not (note.exists() and stamp.exists() and stamp.read_text() == self._result.definition):
            note.unlink(missing_ok=True)
            (self._folder / "keys").unlink(missing_ok=True)
            self._export()
            stamp.write_text(self._result.definition)
        found = json.loads(note.read_text())
        self._result.fixed = found["fixed"]
        self._result.parameters, self._result.operators = found["parameters"], found["operators"]
        self._result.export_seconds = found["export_seconds"]
        if found["fixed"] and self._program.dynamic:
            self._program = self._program.without_dynamic(found["fixed"])

    def _export(self) -> None:
        command = [str(self._python), "-m", "loadtest.coverage.exporting", self._program.name, str(self._folder)]
        offline = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore"}
        log = self._folder / "export.log"
        with (
            ServerProcess(command, log, environment=os.environ | offline, grace_seconds=0) as process,
            MemoryLimit(process, MEMORY_MB) as memory,
        ):
            try:
                process.until(process.ended, EXPORT_SECONDS, "it is exported", 0.1)
            except ServerError:
                raise StageError("not exported", f"not within {EXPORT_SECONDS} s") from None
            if process.process.returncode:
                said = process.log().strip().splitlines()
                why = said[-1] if said else f"ended with {process.process.returncode}"
                raise StageError("not exported", memory.exceeded or why)

    def serve(self) -> None:
        """By eager alone; raises StageError unless every size is answered as PyTorch answered it."""
        repository = self._repository("eager", False)
        with (
            Daemon(repository, self._folder / "no-cache", self._folder / "eager.log", "--no-compile") as daemon,
            MemoryLimit(daemon, MEMORY_MB) as memory,
        ):
            self._wait_served(daemon, SERVE_SECONDS, memory)
            for sizes in self._program.sizes:
                self._check(daemon, sizes, EAGER_TOLERANCE, "eager")

    def forms(self) -> tuple[tuple[str, object], ...]:
        """What is compiled, one after the other until all sizes are served by it, as model.yaml says it."""
        return COMPILE_FORMS if self._program.dynamic else COMPILE_FORMS[1:]

    def compile(self) -> str:
        """The name of the forms that serve, as far as any does: code for any size, or for each where that isn't
        possible."""
        stays: dict[str, str] = {}
        for name, compiled in self.forms():
            result = self._result
            result.stays, result.forms, result.difference = {}, name, None
            tiers = self._compile(name, compiled)
            stays |= result.stays
            if "eager" not in tiers:
                break
        self._result.stays = stays
        return self._result.forms

    def _compile(self, name: str, compiled: object) -> set[str]:
        """Fills the cache; the tiers that answered."""
        arguments = ("--compile-jobs=1", *LIMITS, "--recheck-promotions")
        log = self._folder / f"compile-{name.split()[0]}.log"
        repository = self._repository(name.split()[0], compiled)
        with Daemon(repository, self._cache, log, *arguments) as daemon, MemoryLimit(daemon, MEMORY_MB) as memory:
            self._wait_served(daemon, SETTLE_SECONDS, memory)
            daemon.wait_improved(IMPROVE_SECONDS)
            text = daemon.log()
            self._result.stays = {form or "fixed": f"{kind}: {why}" for form, kind, why in STAYS.findall(text)}
            self._read_manifests(set(COMPILED.findall(text)) | set(KEY.findall(text)))
            return {self._check(daemon, sizes, self._program.tolerance, "compiled") for sizes in self._program.sizes}

    def _read_manifests(self, keys: set[str]) -> None:
        """What the compiles took, whenever they were: of a form that was compiled before and isn't promoted no log
        names the key, so that keys are noted."""
        noted, entries = self._folder / "keys", self._cache / "v1/entries"
        keys |= set(noted.read_text().split()) if noted.exists() else set()
        noted.write_text("\n".join(sorted(keys)) + "\n")
        paths = (path for key in keys for path in entries.glob(f"{key[:2]}/{key}*/manifest.json"))
        manifests = [json.loads(path.read_text()) for path in paths]
        if manifests:
            self._result.compile_seconds = round(sum(each["seconds"] for each in manifests), 1)
            self._result.compile_peak_mb = round(max(each["peak_rss_bytes"] for each in manifests) / 2**20)

    def time(self) -> None:
        """Eager and what serves by turns, as two models of one daemon: two daemons would take each other for
        neighbours, and leave each other cores."""
        root = self._folder / "repositories/both"
        self.put(root, dict(COMPILE_FORMS)[self._result.forms])
        self.put(root, False, UNCOMPILED)
        with Daemon(root, self._cache, self._folder / "both.log", "--no-compile") as daemon:
            daemon.wait_ready(SERVE_SECONDS)
            for sizes in self._program.sizes:
                self._result.speeds.append(self._time(sizes, daemon))

    def _time(self, sizes: Sizes, daemon: Daemon) -> Speed:
        inputs = infer_inputs(self._reference(sizes))
        bucket = Bucket(self._program.name, size_name(sizes))
        sides = [Side(daemon, model, inputs) for model in (UNCOMPILED, self._program.name)]
        try:
            before = tiers(daemon)
            sides[1].answer()
            bucket.tier = grown(before, tiers(daemon))
            alternate(bucket, sides[0], sides[1], ALTERNATIONS, SPEED_SECONDS)
        finally:
            for side in sides:
                side.close()
        return Speed(
            bucket.name,
            bucket.tier,
            bucket.ratio,
            bucket.interval,
            float(np.median(bucket.eager_s) * 1e3),
            float(np.median(bucket.served_s) * 1e3),
            bucket.loses,
        )

    def _repository(self, name: str, compiled: object) -> Path:
        """A model repository with the program alone, by what `compile` says."""
        root = self._folder / "repositories" / name
        self.put(root, compiled)
        return root

    def put(self, root: Path, compiled: object, name: str = "") -> None:
        """Into a model repository, with what `compile` says, under its own name or another."""
        program = self._folder / f"models/{self._program.name}/1/model.pt2"
        put(program, root / (name or self._program.name), self._program.model_yaml(compiled))

    def _wait_served(self, daemon: Daemon, seconds: float, memory: MemoryLimit) -> None:
        def refused() -> re.Match[str] | None:
            return REFUSED.search(daemon.log())

        with daemon.client() as client:

            def settled() -> bool:
                return client.is_server_ready(client_timeout=5) or refused() is not None

            try:
                daemon.until(settled, seconds, "it is ready", 0.1)
            except (ServerError, InferenceServerException) as error:
                raise StageError("crashed", memory.exceeded or " / ".join(str(error).splitlines())[:1000]) from None
        why = refused()
        if why:
            raise StageError("refused", why[1])

    def _reference(self, sizes: Sizes) -> dict[str, np.ndarray]:
        with np.load(self._folder / f"answers/{size_name(sizes)}.npz") as kept:
            return dict(kept)

    def _check(self, daemon: Daemon, sizes: Sizes, tolerance: float, what: str) -> str:
        """The tier that answered. Raises StageError when it did not answer as PyTorch did."""
        reference = self._reference(sizes)
        expected = [value for name, value in reference.items() if name.startswith("out.")]
        before = tiers(daemon)
        try:
            with daemon.client() as client:
                answer = client.infer(self._program.name, infer_inputs(reference), client_timeout=ANSWER_SECONDS)
        except InferenceServerException as error:
            if daemon.ended():
                raise ServerError(f"ended with {daemon.process.returncode} at {what} {size_name(sizes)}") from None
            raise StageError("wrong answer", f"{what} {size_name(sizes)}: {error.message()}"[:400]) from None
        given = [answer.as_numpy(output.name) for output in answer.get_response().outputs]
        if len(given) != len(expected):
            raise StageError("wrong answer", f"{what}: {len(given)} outputs, expected {len(expected)}")
        largest = max((difference(*pair) for pair in zip(given, expected, strict=True)), default=0.0)
        if largest > tolerance:
            raise StageError(
                "wrong answer", f"{what} {size_name(sizes)}: off by {largest:.2g}, allowed is {tolerance:g}"
            )
        if what == "compiled":
            self._result.difference = max(self._result.difference or 0.0, largest)
        return grown(before, tiers(daemon))


def infer_inputs(reference: Mapping[str, np.ndarray]) -> list[triton.InferInput]:
    inputs = []
    for name, value in reference.items():
        if name.startswith("in."):
            inputs.append(triton.InferInput(name[3:], list(value.shape), np_to_triton_dtype(value.dtype)))
            inputs[-1].set_data_from_numpy(value)
    return inputs


def tiers(daemon: Daemon) -> dict[str, float]:
    """Requests that each tier has answered."""
    counts: dict[str, float] = {}
    for labels, count in daemon.samples("stoker_tier_requests_total"):
        counts[labels["tier"]] = counts.get(labels["tier"], 0) + count
    return counts


def grown(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """The tiers that have answered since."""
    return "+".join(tier for tier, count in after.items() if count > before.get(tier, 0)) or "none"


def run(program: Program, folder: Path, cache: Path, python: Path, build: str, compiled: bool = True) -> Result:
    """All stages, or those before `compile`. `folder` is the program's own, `cache` every program's, `python` the one
    that exports."""
    start = time.monotonic()
    result = Result(program.name, program.family, program.definition, build)
    folder.mkdir(parents=True, exist_ok=True)
    way = Way(program, folder, cache, python, result)
    try:
        way.export()
        way.serve()
        if compiled:
            way.compile()
            way.time()
            result.conclude()
        else:
            result.outcome = "eager only"
    except StageError as error:
        result.outcome, result.reason = error.outcome, str(error)
    except (ServerError, OSError, AssertionError, InferenceServerException) as error:
        result.outcome, result.reason = "crashed", " / ".join(str(error).splitlines())[:1000]
    result.seconds = round(time.monotonic() - start, 1)
    return result


def compile_ahead(programs: Sequence[tuple[Program, Path]], folder: Path, cache: Path, python: Path, jobs: int) -> None:
    """Leaves in `cache` what `run` would compile first of these programs, each with its own folder, `jobs` compiles at
    a time. Takes no figures, judges nothing, and leaves out what `run` will find not to work."""
    models = folder / "models"
    shutil.rmtree(models, ignore_errors=True)
    for program, own in programs:
        own.mkdir(parents=True, exist_ok=True)
        way = Way(program, own, cache, python, Result(program.name, program.family, program.definition, ""))
        try:
            way.export()
        except (StageError, ServerError, OSError):
            continue
        way.put(models, way.forms()[0][1])
    arguments = ("--no-promotion-checks", f"--compile-jobs={jobs}", *LIMITS)
    warm_up(models, cache, *arguments, seconds=COMPILE_SECONDS * len(programs))
