"""Proves that the status page tells what a daemon does: while it warms up, afterwards, and when things go wrong."""

from __future__ import annotations

import json
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients import check_mlp
from tests.integration.daemon import Daemon, ctl, eventually, write_yaml

PATHS = ("/", "/status.json", "/metrics")


class Text(HTMLParser):
    """The words of a page, without its style and script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "link"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("meta", "link"):
            assert self._open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self._open[-1:] not in (["style"], ["script"]):
            self.words += data.split()

    def __str__(self) -> str:
        assert not self._open, f"{self._open} are never closed"
        return " ".join(self.words)


def ask(daemon: Daemon, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
    """Code, headers and body of an answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{daemon.metrics_port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read().decode()


def page(daemon: Daemon) -> str:
    return str(Text(ask(daemon, "/")[2]))


def status(daemon: Daemon) -> Any:
    return json.loads(ask(daemon, "/status.json")[2])


def ctl_status(daemon: Daemon, *arguments: str) -> str:
    return ctl("status", *arguments, f"--metrics=http://127.0.0.1:{daemon.metrics_port}/metrics")


def lasting(look: Any) -> Any:
    """Without what changes from one look to the next."""
    for field in ("time", "uptime_seconds", "window_seconds"):
        del look["server"][field]
    for model in look["models"]:
        del model["recent"]
    return look


@pytest.fixture(scope="module")
def daemon(exported, kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Serves one model with compiled buckets of 1 and 8 rows, beside one that can't be read."""
    folder = tmp_path_factory.mktemp("status")
    shutil.copytree(exported("mlp"), folder / "models/mlp")
    write_yaml(folder / "models/mlp", max_batch_size=8, buckets={"batch": [1, 8]})
    (folder / "models/broken/1").mkdir(parents=True)
    (folder / "models/broken/1/model.pt2").write_bytes(b"<b>no archive</b>")
    with Daemon(folder / "models", kept / "kernels", folder / "log") as running:
        running.wait_ready()
        with running.client() as client:
            for _ in range(5):
                check_mlp(client)
        yield running
        assert running.stop() == 0


def test_paths_and_methods(daemon: Daemon) -> None:
    kinds = {path: ask(daemon, path)[1]["Content-Type"] for path in PATHS}
    assert kinds == {
        "/": "text/html; charset=utf-8",
        "/status.json": "application/json",
        "/metrics": "text/plain; charset=utf-8",
    }
    for path in PATHS:
        code, headers, body = ask(daemon, path, "HEAD")
        assert code == 200 and int(headers["Content-Length"]) > 0 and body == ""
        for method in ("POST", "PUT", "DELETE"):
            code, headers, body = ask(daemon, path, method)
            assert (code, headers["Allow"]) == (405, "GET, HEAD")
            assert body == f"expected GET or HEAD, got {method}\n"
    code, headers, body = ask(daemon, "/favicon.ico")
    assert (code, headers["Content-Type"]) == (404, "text/plain; charset=utf-8")
    health = "/health/liveness or /health/readiness or /health/startup"
    assert body == f"expected / or {health} or /metrics or /status.json, got /favicon.ico\n"


def test_what_is_served(daemon: Daemon) -> None:
    look = status(daemon)
    assert look["server"]["ready"] and look["server"]["torch"].startswith("2.11.0")
    assert look["versions"] == {"broken:1": "failed", "mlp:1": "serving"}
    broken, mlp = look["models"]
    assert "model.pt2" in broken["reason"] and not broken["newest"]
    assert mlp["newest"] and mlp["reason"] == ""
    assert mlp["warmup"] == {"settled": 2, "total": 2, "seconds_left": None}
    assert (mlp["answered"], mlp["failed"], mlp["waiting"]) == (5, 0, 0)
    assert [bucket["bucket"] for bucket in look["buckets"]] == ["batch=1", "batch=8"]
    for bucket in look["buckets"]:
        assert len(bucket["key"]) == 64
        assert (bucket["state"], bucket["tier"]) in (("compiled", "aot"), ("eager", "eager"))
        if bucket["state"] == "compiled":
            assert bucket["speedup"] > 0 and bucket["compile_seconds"] > 0
            assert bucket["max_abs_error"] < 1e-4 and bucket["parity_cases"] >= 2
        else:
            assert bucket["reason"].startswith("profit: ")
    assert look["cache"]["writable"] and look["cache"]["hits"]["upper"] + look["cache"]["misses"] >= 2
    refused = [bucket["bucket"] for bucket in look["buckets"] if bucket["state"] == "eager"]
    assert sorted(refusal["of"] for refusal in look["refusals"]) == [f"mlp:1 {bucket}" for bucket in refused]


def test_the_page_says_the_same(daemon: Daemon) -> None:
    code, headers, html = ask(daemon, "/")
    assert code == 200
    assert "'unsafe" not in headers["Content-Security-Policy"]
    assert "<b>no archive</b>" not in html
    text = str(Text(html))
    for words in ("Stoker ready", "mlp:1 serving", "broken:1 failed", "batch=8", "answered 5", "Kernel cache"):
        assert words in text, text
    for bucket in status(daemon)["buckets"]:
        assert bucket["key"][:12] in text


def test_rates_follow_the_requests(daemon: Daemon) -> None:
    status(daemon)
    with daemon.client() as client:
        for _ in range(20):
            check_mlp(client)
    look = status(daemon)
    recent = look["models"][1]["recent"]
    assert 0 < recent["requests_per_second"] <= 1000 and 0 < look["server"]["window_seconds"] < 120
    assert 0 < recent["p50_seconds"] <= recent["p99_seconds"] < 10


def test_stokerctl_shows_what_the_page_has(daemon: Daemon) -> None:
    assert lasting(json.loads(ctl_status(daemon, "--json"))) == lasting(status(daemon))
    table = ctl_status(daemon)
    assert "mlp:1     serving" in table
    broken = next(line for line in table.splitlines() if line.startswith("broken:1"))
    assert broken.split()[1] == "failed" and "model.pt2" in broken
    only = json.loads(ctl_status(daemon, "mlp", "--json"))
    assert list(only["versions"]) == ["mlp:1"] and len(only["models"]) == 1 and len(only["buckets"]) == 2
    assert "knows no model 'nobody'" in ctl(
        "status", "nobody", f"--metrics=http://127.0.0.1:{daemon.metrics_port}/metrics", code=4
    )


def test_a_warm_up_is_followed(
    repository: Callable[..., Path], start: Callable[..., Daemon], fresh_cache: Path
) -> None:
    """A real one, from an empty cache: four buckets, one compile at a time."""
    root = repository("mlp")
    write_yaml(root / "mlp", max_batch_size=8, buckets={"batch": [1, 2, 4, 8]})
    with start(root, "--compile-jobs=1", cache=fresh_cache) as running:
        eventually(lambda: status(running)["versions"] == {"mlp:1": "warming"}, "it warms up")
        assert not status(running)["server"]["ready"]
        assert "Stoker not ready" in page(running)
        seen: list[tuple[int, float | None]] = []
        phases: set[str] = set()
        estimates: list[str] = []  # on the page

        def warm() -> bool:
            assert not running.ended(), running.log()
            look = status(running)
            warmup = look["models"][0]["warmup"]
            seen.append((warmup["settled"], warmup["seconds_left"]))
            phases.update(bucket["phase"] for bucket in look["buckets"] if bucket["phase"])
            estimates.extend(re.findall(r"\d of 4 buckets settled, about \d+", page(running)))
            return look["server"]["ready"]

        eventually(warm, f"it is warm:\n{running.log()}", 900)
        settled = [count for count, _ in seen]
        assert settled == sorted(settled) and {0, 1, 2, 3} <= set(settled)
        # Nothing is known before the first bucket, and nothing is left after the last.
        assert all((left is None) == (count in (0, 4)) for count, left in seen)
        assert all(1 <= left < 600 for _, left in seen if left is not None)
        assert estimates and {"lower", "build"} <= phases
        look = status(running)
        assert look["versions"] == {"mlp:1": "serving"}
        assert look["cache"]["misses"] >= 4 and look["cache"]["entries"] == 4 and look["cache"]["bytes"] > 10_000
        assert "mlp:1 serving" in page(running) and "buckets settled" not in page(running)
        assert running.stop() == 0


def test_a_damaged_entry_is_named(
    repository: Callable[..., Path], start: Callable[..., Daemon], unjudged: Callable[[Path], Path]
) -> None:
    root = repository("mlp")
    cache = unjudged(root)
    plan = json.loads(ctl("--json", "--cache", cache, "plan", f"--model-repository={root}"))
    key = plan["buckets"][0]["key"]
    (damaged,) = cache.glob(f"v1/entries/*/{key}")
    # The files are hard links of those that other tests use.
    content = (damaged / "manifest.json").read_bytes()
    (damaged / "manifest.json").unlink()
    (damaged / "manifest.json").write_bytes(content[:-1])
    with start(root, "--frozen", "--no-promotion-checks", cache=cache) as running:
        running.wait_ready()
        look = status(running)
        text = page(running)
        assert running.stop() == 0
    by_kind = {refusal["what"]: refusal for refusal in look["refusals"]}
    assert (by_kind["cache"]["of"], by_kind["cache"]["label"]) == (key[:12], "manifest")
    assert by_kind["promotion"]["label"] == "no_compiler"
    assert look["cache"]["rejections"] == {"manifest": 1}
    assert f"cache entry {key[:12]} manifest" in text
