"""The comparison with peers: its arithmetic, its table, and the files that configure each server."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from loadtest.benchmarks import null_models
from loadtest.peers import environments, perf_analyzer, servers, table
from loadtest.peers.offline import demo_artifacts
from loadtest.peers.scenarios import FILES, SCENARIOS
from loadtest.peers.table import Row, Sample
from loadtest.peers.workspace import ADAPTERS
from loadtest.text_table import number

MODELS = ("minilm", *null_models.WIDTHS)


def row(server: str, *rates: float, **fields: Any) -> Row:
    """Rounds 0, 1, …; a rate of 0 is a round that it didn't take part in."""
    samples = {i: Sample(rate, **fields) for i, rate in enumerate(rates) if rate}
    return Row("null model", 8, server, "", samples)


def test_medians_and_spread_are_over_rounds() -> None:
    peer = row("peer", 300, 100, 200)
    assert peer.answers_per_s == 200
    assert peer.spread == (100, 300)
    assert peer.median(lambda sample: sample.p50_ms) is None


def test_the_ratio_pairs_rounds() -> None:
    # Ratio of medians: 2. Round by round: 4, 2 and 1/2; a slow round of the machine hits both.
    assert table.ratio(row("Stoker", 400, 200, 100), row("peer", 100, 100, 200)) == 2
    assert table.ratio(row("Stoker", 50, 400, 400), row("peer", 25, 200, 100)) == 2
    assert table.ratio(row("Stoker", 0, 300, 0), row("peer", 100, 100, 100)) == 3
    assert table.ratio(row("Stoker", 0, 300), row("peer", 100)) is None


def test_ratios_compare_the_same_step_only() -> None:
    ours, other = row("Stoker", 100), row("peer", 50)
    elsewhere = Row("null model", 32, "peer", "", {0: Sample(50)})
    times = table.ratios([ours, other, elsewhere], "Stoker")
    assert [times[id(each)] for each in (ours, other, elsewhere)] == [1, 2, None]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (12345.6, 0, "12,346"),
        (34.61, 0, "34.6"),
        (0.0, 0, "0"),
        (0.004, 2, "0.004"),
        (1.256, 2, "1.26"),
        (None, 0, "–"),
    ],
)
def test_numbers_keep_what_matters(value: float | None, digits: int, text: str) -> None:
    assert number(value, digits) == text


def test_the_table_is_aligned_and_says_what_went_wrong() -> None:
    ours = row("Stoker", 12000, p50_ms=0.08, p99_ms=3.5, ready_s=0.5, resident_mb=120)
    bad = row("a slower peer", 1000, errors=3, client_limited=True, mistake="y: off by 1")
    lines = table.render([ours, bad], "Stoker").splitlines()
    end = lines[0].index("answers/s") + len("answers/s")
    assert [line[end - 6 : end].strip() for line in lines[2:]] == ["12,000", "1,000"]
    assert "12.00" in lines[3] and "12.00" not in lines[2]
    for said in ("WRONG ANSWERS", "3 FAILED", "client was the limit in 1 of 1 rounds"):
        assert said in lines[3]


def test_json_holds_every_round() -> None:
    written = json.loads(json.dumps(table.row_json(row("peer", 10, 30, p50_ms=2.0), 1.5)))
    assert written["answers_per_s"] == 20 and written["stoker_ratio"] == 1.5
    assert [written["rounds"][i]["answers_per_s"] for i in ("0", "1")] == [10, 30]


def test_every_launch_names_known_scenarios_and_models() -> None:
    seen = set()
    for launch in servers.launches():
        for name in launch.scenarios:
            assert SCENARIOS[name].model in launch.models
            assert (launch.server, name) not in seen, "a row would be measured twice"
            seen.add((launch.server, name))
        assert launch.peer is None or launch.peer in environments.PEERS
    assert {name for server, name in seen if server == servers.STOKER} == set(SCENARIOS)


def test_scenarios_drive_the_model_that_their_file_names() -> None:
    for scenario in SCENARIOS.values():
        assert yaml.safe_load((FILES / scenario.file).read_text())["model"] == scenario.model


@pytest.mark.parametrize("folder", ["triton", "triton_core"])
def test_triton_configs_parse_and_fit_the_models(folder: str) -> None:
    files = sorted((ADAPTERS / folder).glob("*.pbtxt"))
    assert len(files) == (3 if folder == "triton" else 2)
    for path in files:
        config = text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())
        assert config.max_batch_size == 8
        if path.stem in null_models.WIDTHS:
            assert [list(tensor.dims) for tensor in config.input] == [[null_models.WIDTHS[path.stem]]]
        else:
            assert all(tensor.allow_ragged_batch for tensor in config.input)
            assert {tensor.name for tensor in config.input} == {"input_ids", "attention_mask"}


def test_mlserver_settings_parse_and_fit_the_models() -> None:
    for model in MODELS:
        settings = json.loads((ADAPTERS / f"mlserver/{model}.json").read_text())
        assert settings["name"] == model
        if model in null_models.WIDTHS:
            assert settings["inputs"][0]["shape"] == [-1, null_models.WIDTHS[model]]
        runtime = settings["implementation"].rsplit(".", 1)[1]
        assert f"class {runtime}(MLModel)" in (ADAPTERS / "mlserver/runtimes.py").read_text()


def test_pins_are_exact_and_name_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for peer in environments.PEERS:
        assert all(re.fullmatch(r"\d+(\.\w+)+", version) for version in environments.pins(peer).values())
    shown = tmp_path / "requirements"
    shown.mkdir()
    monkeypatch.setattr(environments, "REQUIREMENTS", shown)
    (shown / "kserve.txt").write_text("kserve==1.0\n")
    before = environments.environment("kserve")
    (shown / "kserve.txt").write_text("kserve==1.1\n")
    assert environments.environment("kserve") != before


def test_the_loop_takes_the_newest_artifact_of_the_demo_model(tmp_path: Path) -> None:
    def entry(key: str, model: str, bucket: str, written: int) -> Path:
        folder = tmp_path / "v1/entries" / key[:2] / key
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps({"model": model, "bucket": bucket}))
        os.utime(folder / "manifest.json", (written, written))
        return folder

    right = entry("aa1", "minilm:1", "batch=8,tokens=32", 2)
    entry("bb2", "other:1", "batch=8,tokens=64", 2)
    entry("cc3", "minilm:1", "batch=8,tokens=32", 1)
    found = demo_artifacts(tmp_path, Path("models/minilm/1/model.pt2"))
    assert found == {(8, 32): right}


def test_perf_analyzer_reports_are_read() -> None:
    report = (
        "Concurrency,Inferences/Second,Client Send,p50 latency,p90 latency,p95 latency,p99 latency\n"
        "8,10320.5,12,460,900,1200,6874\n"
    )
    assert perf_analyzer.read_report(report) == (10320.5, 0.46, 6.874)
    with pytest.raises(ValueError, match="one line, got 0"):
        perf_analyzer.read_report(report.splitlines()[0])


def test_a_run_of_perf_analyzer_that_failed_shows_why() -> None:
    runs = [
        perf_analyzer.Run("closed loop", servers.STOKER, "8 under way", 200, 0.5, 1.5),
        perf_analyzer.Run("closed loop", "Triton's core", "8 under way", 100, 0.9, 2.5),
        perf_analyzer.Run("streaming", servers.STOKER, "8 under way", error="ended with 99: no"),
    ]
    lines = perf_analyzer.render(runs).splitlines()
    assert "2.00" in lines[2] and "ended with 99: no" in lines[3]
