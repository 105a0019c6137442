"""The suite: its arithmetic, its table, what its models declare, and one model measured for real."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from loadtest.suite import __main__ as suite
from loadtest.suite import measure as measuring
from loadtest.suite.measure import Bucket, bucket_name, median_interval
from loadtest.suite.models import MODELS, SuiteModel, mlp


def bucket(*ratios: float, tier: str = "aot", model: str = "m", name: str = "batch=1") -> Bucket:
    return Bucket(model, name, tier, eager_s=list(ratios), served_s=[1.0] * len(ratios))


def test_the_interval_comes_from_order_statistics() -> None:
    # Of 41 values: P(Binomial(41, 1/2) <= 13) = 0.014, <= 14 would be 0.030.
    values = [float(value) for value in range(1, 42)]
    assert median_interval(values) == (14, 28)
    assert median_interval(values[:5]) == (1, 5)
    assert median_interval([2.0]) == (2, 2)


def test_a_loss_must_be_shown() -> None:
    assert bucket(*[0.9] * 20).loses
    assert not bucket(*[0.99] * 20).loses
    assert not bucket(*[0.9] * 11, *[1.5] * 9).loses  # it may be the machine
    assert not bucket(*[0.9] * 20, tier="eager").loses  # it is the machine
    assert not bucket().loses


def test_what_eager_serves_counts_as_one() -> None:
    buckets = [bucket(4.0), bucket(1.3, tier="eager"), bucket()]
    assert suite.geometric_mean(buckets) == pytest.approx(2)
    assert suite.geometric_mean([bucket()]) is None


def test_the_table() -> None:
    refused = bucket(1.0, tier="eager", name="batch=8")
    refused.why = "profit: " + "x" * 200
    failure = suite.failed(
        SuiteModel("broken", "", None, buckets=({},)), "not exported", ValueError("no\nmore")
    )
    lines = suite.render([bucket(2.0), refused, *failure]).splitlines()
    first = [line.split()[:1] for line in lines]
    assert first == [["model"], [], ["m"], ["m"], [], ["broken"], [], ["geometric"]]
    assert lines[3].endswith("…") and "profit: xx" in lines[3]
    assert lines[5].endswith("not exported: no")
    assert "geometric mean 1.41 × eager (goal 1.2), 0 of 3 buckets slower" in lines[-1]
    assert "1 served by eager, 1 not measured" in lines[-1]
    assert json.loads(json.dumps(suite.as_json([bucket(2.0)])))["geometric_mean"] == 2


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_buckets_are_within_what_was_exported(model: SuiteModel) -> None:
    for sizes in model.buckets:
        assert sizes.keys() == model.buckets[0].keys()
        assert all(size <= model.most.get(dimension, math.inf) for dimension, size in sizes.items())
    fields = json.loads(model.model_yaml())
    assert fields["buckets"] == list(model.buckets)
    assert set(fields.get("dimensions", {})) == set(model.axes)


def test_a_model_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Path(os.environ.get("STOKER_TEST_SCRATCH", tmp_path))  # nothing is compiled twice
    monkeypatch.setattr(measuring, "LAUNCHES", 2)
    monkeypatch.setattr(measuring, "ALTERNATIONS", 3)
    monkeypatch.setattr(measuring, "BLOCK_SECONDS", 0.001)
    small = SuiteModel("mlp", "", mlp, most={"batch": 64}, buckets=({"batch": 2}, {"batch": 3}))
    found = suite.run(small, tmp_path, kept / "kernels", tmp_path)
    assert [each.name for each in found] == [bucket_name(sizes) for sizes in small.buckets]
    for each in found:
        assert each.tier in ("aot", "eager"), each.why
        assert len(each.ratios) == 6 and each.ratio
        assert each.difference < 1e-4
        assert bool(each.why) == (each.tier == "eager")


def test_a_model_that_cannot_be_exported_is_a_row(tmp_path: Path) -> None:
    missing = SuiteModel("minilm", "", None, buckets=({"batch": 1},))
    (row,) = suite.run(missing, tmp_path, tmp_path / "kernels", tmp_path / "nothing")
    assert row.why.startswith("not exported:") and row.ratio is None
