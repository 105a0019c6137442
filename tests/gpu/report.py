"""What came out: figures beside their goals, of one run or of several."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

# Results as gpu.json has them.
Results = list[dict[str, Any]]


class Known:
    """The results of one run."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def said(self, step: str) -> list[dict[str, Any]]:
        return [line for result in self._results if result["name"] == step for line in result["said"]]


def machine(results: Results) -> str:
    """What the run was on: figures of others don't belong beside it."""
    said = Known(results).said("machine")
    if not said:
        return "unknown"
    if not said[0].get("gpu"):
        return f"no GPU, {said[0].get('march', 'unknown')}"
    facts = said[0].get("facts", {})
    return ", ".join(str(facts.get(key, "?")) for key in ("name", "arch", "sms", "memory_gib", "driver"))


def ratio(step: str, slow: str, fast: str) -> Callable[[Known], float | None]:
    """Of two tiers as the server's own loader ran them, or else torch's: never of one against the other."""

    def of(run: Known) -> float | None:
        for said in (run.said(f"daemon_{step}"), run.said(step)):
            found = {line["tier"]: line["p50_us"] for line in said if "tier" in line and "p50_us" in line}
            if slow in found and fast in found:
                return found[slow] / found[fast]
        return None

    return of


def over_modes(entry: str) -> Callable[[Known], float | None]:
    """torch.compile's best mode, which must have answered right, over the graph, both with everything on the device."""

    def of(run: Known) -> float | None:
        said = run.said(f"modes_{entry}")
        best = [line["p50_us"] for line in said if "mode" in line]
        graph = [line["p50_us"] for line in run.said(entry) if line.get("tier") == "graph"]
        wrong = any(line.get("passed") is False for line in said)
        return min(best) / graph[0] if best and graph and not wrong else None

    return of


def largest(*steps: str, key: str, daemon_us: str = "") -> Callable[[Known], float | None]:
    """The largest of a figure that torch's runner gave, and of one of the server's in us, in thousandths."""

    def of(run: Known) -> float | None:
        found = [line[key] for step in steps for line in run.said(step) if key in line]
        if daemon_us:
            found += [
                line[daemon_us] / 1e3
                for step in steps
                for line in run.said(f"daemon_{step}")
                if line.get("tier") in ("aot", "graph") and daemon_us in line
            ]
        return max(found) if found else None

    return of


def served(step: str, loop: str, rows: int, with_copies: bool) -> Callable[[Known], float | None]:
    """Answers per second over what one process computes in a loop: with the copies of inputs and answers, one after
    another, as the server's loader does it alone, or with everything on the device from the start."""

    def of(run: Known) -> float | None:
        alone = [line["per_second"] for line in run.said(f"daemon_{loop}") if "per_second" in line]
        if not (with_copies and alone):
            alone = [1e6 / line["p50_us"] for line in run.said(loop) if line.get("tier") in ("aot", "graph")]
        for line in run.said(step):
            if line.get("concurrency") == 64 and alone:
                return line["step"]["throughput_per_s"] / (rows * max(alone))
        return None

    return of


def check(step: str, what: str) -> Callable[[Known], float | None]:
    def of(run: Known) -> float | None:
        return next((float(line["passed"]) for line in run.said(step) if line.get("check") == what), None)

    return of


@dataclass
class Goal:
    what: str
    value: Callable[[Known], float | None]
    bound: float
    at_least: bool = True
    unit: str = "x"

    def judge(self, runs: Iterable[Known]) -> dict[str, Any]:
        """The median over those runs that know."""
        found = [value for value in map(self.value, runs) if value is not None]
        value = statistics.median(found) if found else None
        met = None if value is None else (value >= self.bound if self.at_least else value <= self.bound)
        goal = f"{'>=' if self.at_least else '<='} {self.bound:g} {self.unit}".strip()
        judged: dict[str, Any] = {"what": self.what, "goal": goal, "value": None, "met": met}
        if value is not None:
            judged["value"] = round(value, 3)
        if len(found) > 1:
            judged["values"] = [round(one, 3) for one in sorted(found)]
        return judged


OPENED = ("two_ops", "kernels10_1", "kernels100_1", "kernels500_1", "minilm_1", "minilm_64", "gpt2_xl_1", "gpt2_xl_8")
GOALS = (
    Goal("GPT-2 XL, batch 1: graph over eager", ratio("gpt2_xl_1", "eager", "graph"), 1.5),
    Goal("GPT-2 XL, batch 8: graph over eager", ratio("gpt2_xl_8", "eager", "graph"), 1.0),
    Goal("GPT-2 XL, batch 1: uncaptured over eager", ratio("gpt2_xl_1", "eager", "aot"), 1.0),
    Goal("GPT-2 XL, batch 8: uncaptured over eager", ratio("gpt2_xl_8", "eager", "aot"), 1.0),
    *(
        Goal(f"GPT-2 XL {key}, batch {batch}: graph over eager", ratio(f"gpt2_xl_{key}_{batch}", "eager", "graph"), 1.0)
        for key in ("f32", "bf16")
        for batch in (1, 8)
    ),
    *(
        Goal(f"GPT-2 XL, batch {batch}: graph over torch.compile's best", over_modes(f"gpt2_xl_{batch}"), 1.0)
        for batch in (1, 8)
    ),
    *(
        Goal(f"{name}, batch {batch}: graph over torch.compile's best", over_modes(f"{key}_{batch}"), 1.0)
        for key, name in (("resnet50", "ResNet-50"), ("bert_base", "BERT-base"))
        for batch in (1, 8, 32)
    ),
    Goal("10 small kernels: graph over uncaptured", ratio("kernels10_1", "aot", "graph"), 1.5),
    Goal("100 small kernels: graph over uncaptured", ratio("kernels100_1", "aot", "graph"), 1.5),
    Goal("500 small kernels: graph over uncaptured", ratio("kernels500_1", "aot", "graph"), 1.5),
    Goal("MiniLM, batch 1: graph over uncaptured", ratio("minilm_1", "aot", "graph"), 1.5),
    Goal("a small MLP: graph over uncaptured", ratio("requests", "aot", "graph"), 1.5),
    Goal("replay, host time", largest("kernels100_1", "minilm_1", key="replay_host_us"), 15, False, "us"),
    Goal("Adam's step: compiled over eager", ratio("adam_0", "eager", "aot"), 1.9),
    Goal("warm start, 8 buckets", largest("serve_minilm", key="warm_ready_s"), 3, False, "s"),
    Goal("a capture", largest(*OPENED, key="captured_ms", daemon_us="capture_us"), 300, False, "ms"),
    Goal("an artifact opened", largest(*OPENED, key="opened_ms", daemon_us="open_us"), 20, False, "ms"),
    Goal("concurrency 64 over a loop in one process", served("serve_minilm", "minilm_64", 64, True), 0.95),
    Goal("the same with images: copies hidden", served("serve_images", "images_32", 32, False), 0.9),
    Goal("10,000 requests bit-equal", check("requests", "replays are bit-equal"), 1, True, ""),
    Goal("100 times opened: no growth beyond the code", check("requests", "memory after opening again"), 1, True, ""),
)


def judged(runs: list[Results]) -> list[dict[str, Any]]:
    known = [Known(results) for results in runs]
    return [goal.judge(known) for goal in GOALS]


def merged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Several runs' gpu.json as one: of each step the last result that passed, or else that says most; goals by the
    median of all. Raises ValueError where they aren't of one kind of machine."""
    kinds = sorted({machine(run["results"]) for run in runs})
    if len(kinds) != 1:
        raise ValueError("they are of different machines: " + "; ".join(kinds))
    worth = {"passed": 3, "failed": 2, "timeout": 1, "skipped": 0}
    best: dict[str, dict[str, Any]] = {}
    outcomes: dict[str, list[str]] = {}
    for run in runs:
        for result in run["results"]:
            name = result["name"]
            outcomes.setdefault(name, []).append(result["outcome"])
            if name not in best or worth[result["outcome"]] >= worth[best[name]["outcome"]]:
                best[name] = result
    last = runs[-1]["no_time_for"]
    return {
        "gpu": runs[0]["gpu"],
        "runs": len(runs),
        "results": list(best.values()),
        "goals": judged([run["results"] for run in runs]),
        # A step that failed once is told, whatever became of it later.
        "not_always": {n: seen for n, seen in outcomes.items() if len(set(seen) - {"skipped"}) > 1},
        "no_time_for": [what for what in last if what.partition(":")[0] not in best],
    }


def table(told: dict[str, Any]) -> str:
    """gpu.txt of what gpu.json has."""
    results = told["results"]
    lines = [machine(results), "", f"{'step':<24}{'outcome':<10}{'seconds':>8}"]
    for result in results:
        note = result["log"].strip().split("\n")[-1] if result["outcome"] in ("skipped", "passed") else ""
        lines.append(f"{result['name']:<24}{result['outcome']:<10}{result['seconds']:>8}  {note}".rstrip())
    lines += ["", f"{'p50 in us':<24}{'eager':>12}{'aot':>12}{'graph':>12}{'host aot':>12}{'host graph':>12}"]
    for result in results:
        by_tier = {line["tier"]: line for line in result["said"] if "tier" in line}
        if by_tier:
            cells = [by_tier.get(name, {}).get("p50_us") for name in ("eager", "aot", "graph")]
            cells += [by_tier.get(name, {}).get("host_us") for name in ("aot", "graph")]
            lines.append(f"{result['name']:<24}" + "".join(f"{'-' if c is None else c:>12}" for c in cells))
    lines += ["", f"{'torch.compile, p50':<24}{'default':>16}{'reduce-overhead':>16}{'max-autotune':>16}"]
    for result in results:
        by_mode = {line["mode"]: line["p50_us"] for line in result["said"] if "mode" in line}
        if by_mode:
            cells = [by_mode.get(mode, "-") for mode in ("default", "reduce-overhead", "max-autotune")]
            lines.append(f"{result['name']:<24}" + "".join(f"{cell:>16}" for cell in cells))
    lines += ["", f"{'peak in MiB':<24}{'eager':>12}{'aot':>12}{'graph':>12}"] if told["gpu"] else []
    for result in results:
        peaks = {line["tier"]: line["peak_bytes"] for line in result["said"] if line.get("peak_bytes")}
        if peaks:
            cells = [f"{peaks[name] / (1 << 20):.0f}" if name in peaks else "-" for name in ("eager", "aot", "graph")]
            lines.append(f"{result['name']:<24}" + "".join(f"{cell:>12}" for cell in cells))
    lines += ["", f"{'seconds to ready':<24}{'cold':>12}{'warm':>12}"]
    for result in results:
        ready = {key: line[key] for line in result["said"] for key in ("first_ready_s", "warm_ready_s") if key in line}
        if ready:
            cells = [ready.get(key, "-") for key in ("first_ready_s", "warm_ready_s")]
            lines.append(f"{result['name']:<24}" + "".join(f"{cell:>12}" for cell in cells))
    if told["gpu"]:
        lines += ["", f"{'goal':<48}{'wanted':>12}{'got':>12}"]
        for goal in told["goals"]:
            value = "-" if goal["value"] is None else f"{goal['value']:g}"
            mark = {True: "", False: "  MISSED", None: ""}[goal["met"]]
            spread = f"  of {goal['values']}" if "values" in goal else ""
            lines.append(f"{goal['what']:<48}{goal['goal']:>12}{value:>12}{mark}{spread}")
    for result in results:
        for line in result["said"]:
            if line.get("passed") is False or "error" in line or line.get("event") == "failed":
                lines += ["", f"{result['name']}: {json.dumps(line)[:1500]}"]
        if result["outcome"] in ("failed", "timeout") and result["log"]:
            lines += ["", f"{result['name']}, the end of its log:", result['log'][-2500:]]
    for name, seen in told.get("not_always", {}).items():
        lines += ["", f"{name}: not the same in every run: {', '.join(seen)}"]
    if told["no_time_for"]:
        lines += ["", "no time for", *(f"  {what}" for what in told["no_time_for"])]
    return "\n".join(lines) + "\n"


