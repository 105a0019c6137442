"""What the daemon and the compiler both have to know is the same in C++ and in Python."""

from __future__ import annotations

import re
from pathlib import Path

from compiler.job.job import RECIPE

SERVER = Path(__file__).resolve().parents[2] / "server"


def test_the_recipe_of_the_keys_is_the_one_that_jobs_follow() -> None:
    (recipe,) = re.findall(r'kRecipe\[\] = "(\d+)";', (SERVER / "planning/warmup_plan.cc").read_text())
    assert recipe == RECIPE
