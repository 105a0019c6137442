"""The one command for a GPU machine: everything that can be told in one call, most important first.

tests/gpu/run.sh starts it. Each step is a process with a limit of its own; what it printed as JSON, line by line, is
its result. gpu.json and gpu.txt in --out are written anew after every step, so that a run that is cut off has told
what it knew. A step that the rest of the time isn't enough for is left out and named at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from tests.gpu import report
from tests.gpu.running import Result, Run
from tests.gpu.steps import SMALL, steps, steps_without_gpu


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=Path, required=True, help="the unpacked bundle")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder, for some 10 GB")
    parser.add_argument("--out", type=Path, required=True, help="folder for gpu.json and gpu.txt")
    parser.add_argument("--budget-seconds", type=float, default=540)
    parser.add_argument("--library-path", default="")
    parser.add_argument("--outer-library-path", default=os.environ.get("LD_LIBRARY_PATH", ""))
    parser.add_argument("--only", nargs="*", help="names of steps")
    parser.add_argument("--continue", dest="earlier", type=Path, help="gpu.json of a call that this one goes on with")
    options = parser.parse_args()
    # Read before it is written anew.
    earlier = json.loads(options.earlier.read_text()) if options.earlier else None
    options.bundle, options.work, options.out = (p.resolve() for p in (options.bundle, options.work, options.out))
    for folder in (options.out, options.work / "logs", options.work / "models", options.work / "entries"):
        folder.mkdir(parents=True, exist_ok=True)
    run = Run(options)
    try:
        first, *others = steps()
        run.run(first)  # never taken from an earlier call
        facts = run.said("machine")[0] if run.said("machine") else {}
        run.gpu = bool(facts.get("gpu"))
        print(report.machine([vars(result) for result in run.results]), flush=True)
        if facts.get("unusable"):
            run.results.append(Result("gpu", "failed", log=facts["unusable"]))
            print(facts["unusable"], flush=True)
        if earlier is not None:
            run.go_on(earlier)
        if run.gpu:
            run.export(*SMALL)
            run.export("gpt2_xl")
        else:
            run.device = "cpu"
            run.export("two_ops", "mlp")
        for step in others:
            # What there is no GPU for is named as skipped, once.
            if options.only and step.name not in options.only:
                continue
            run.run(step)
        if not run.gpu:
            skipped = {result.name for result in run.results if result.outcome == "skipped"}
            run.results = [result for result in run.results if result.outcome != "skipped"]
            for step in steps_without_gpu():
                run.run(step)
            run.results += [Result(name, "skipped", log="no GPU") for name in sorted(skipped)]
    finally:
        run.close()
        run.write()
    print((options.out / "gpu.txt").read_text())
    bad = [result.name for result in run.results if result.outcome in ("failed", "timeout")]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
