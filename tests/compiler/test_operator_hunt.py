"""The hunt for operators that odd arguments lead astray finds those that are known, and no others."""

from __future__ import annotations

import torch

from tests.faults.operator_hunt import Call, hunt

aten = torch.ops.aten
INTEGERS = torch.arange(1, 9)


def test_what_traps_on_a_value() -> None:
    (finding, *_) = hunt([Call(aten.lcm.default, ((INTEGERS, INTEGERS - 2), {}))])
    assert finding.operator == "aten.lcm.default"
    assert finding.outcome == "SIGFPE"
    assert finding.by_value


def test_what_reads_beyond_its_argument() -> None:
    weight = torch.ones(4)
    arguments = (torch.randn(1, 4, 6), weight, None, 1, 4, 6, 2, 1e-5)
    findings = hunt([Call(aten.native_group_norm.default, (arguments, {}))])
    assert {finding.outcome for finding in findings} == {"SIGSEGV"}
    assert not any(finding.by_value for finding in findings)


def test_what_refuses_everything_odd() -> None:
    embedding = Call(aten.embedding.default, ((torch.randn(9, 4), INTEGERS), {}))
    assert hunt([embedding]) == []
    assert hunt([Call(aten.add.Tensor, ((INTEGERS, INTEGERS), {"alpha": 2}))]) == []
