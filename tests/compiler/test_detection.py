"""What tests/faults/detection.py counts: that what is right passes, and that faults in one place are seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import save_file

from tests.compiler.conftest import Compiler
from tests.faults import detection

pytestmark = pytest.mark.slow


def test_faults_are_found_down_to_a_size(compiler: Compiler, tmp_path: Path) -> None:
    file = tmp_path / "1.safetensors"
    save_file(detection.answers(1, compiler), file)
    (result,) = detection.judged([file])
    assert result["refused"] == ""
    kinds = {fault["kind"] for fault in result["faults"]}
    assert {"one element", "tail of a vector loop", "one row", "one channel", "all"} <= kinds
    for kind in kinds:
        found = {fault["size"]: fault["found"] for fault in result["faults"] if fault["kind"] == kind}
        assert all(seen for size, seen in found.items() if size > 3e-3), (kind, found)
        assert not all(found.values()), f"{kind}: the smallest are below what float32 can say"


def test_the_table(compiler: Compiler) -> None:
    faults = [{"kind": "one row", "size": 10.0**-power, "found": power < 3} for power in range(5)]
    halves = [{"kind": "one row", "size": 10 ** (-power - 0.5), "found": True} for power in range(5)]
    found = detection.curves([{"file": "1.safetensors", "faults": faults + halves}])
    header, _, row = detection.table(found["float32"]).splitlines()
    assert header.count("|") == 7 and "1e-04" in header
    assert row == "| one row | 100 | 100 | 100 | 0 | 0 |"
