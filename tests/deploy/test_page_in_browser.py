"""The status page in a real browser: on a telephone and a desk, dark and light, with scripts and without.

Screenshots are kept in $STOKER_TEST_SCRATCH/status-page, to be looked at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import models
from tests.deploy.browser import Browser
from tests.fakes.stand_in import stand_in
from tests.integration.clients import infer, rows
from tests.integration.daemon import Daemon, eventually, warm_up, write_yaml

pytestmark = pytest.mark.slow

TELEPHONE = (390, 844)
DESK = (1200, 800)
ANSWERED = 7


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = os.environ.get("STOKER_TEST_SCRATCH")
    return Path(folder) if folder else tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def daemon(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One version serves compiled, one waits for its compiler, one can't be read. The last test ends it."""
    folder = tmp_path_factory.mktemp("status")
    root = folder / "models"
    models.write("mlp", root)
    write_yaml(root / "mlp", max_batch_size=8, buckets={"batch": [1, 8]})
    kernels = kept / "kernels"
    done = warm_up(root, kernels, "--no-promotion-checks")
    assert done.returncode == 0, done.stdout + done.stderr
    # The same program with buckets that nobody has compiled, and a compiler that never ends.
    (root / "mlp").rename(root / "compiled")
    models.write("mlp", root)
    (root / "mlp").rename(root / "waiting")
    write_yaml(root / "compiled", max_batch_size=8, buckets={"batch": [1, 8]})
    write_yaml(root / "waiting", max_batch_size=11, buckets={"batch": [5, 9, 11]})
    (root / "broken/1").mkdir(parents=True)
    (root / "broken/1/model.pt2").write_bytes(b"<script>no archive")
    worker = stand_in(folder / "worker", "fake_worker.py", "--job", "hang")
    flags = [f"--cache-layer={kernels}", f"--compiler-python={worker}", "--no-promotion-checks"]
    with Daemon(root, folder / "cache", folder / "log", *flags) as running:
        eventually(lambda: "compiled:1: warm-up done" in running.log(), f"one serves:\n{running.log()}")
        with running.client() as client:
            for _ in range(ANSWERED):
                infer(client, rows(3), "compiled")
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


def address(daemon: Daemon) -> str:
    return f"http://127.0.0.1:{daemon.metrics_port}/"


def text(browser: Browser) -> str:
    return " ".join(browser.evaluate("document.querySelector('main').innerText").split())


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [TELEPHONE, DESK], ids=["telephone", "desk"])
def test_it_fits(daemon: Daemon, browser: Browser, kept: Path, size: tuple[int, int], dark: bool) -> None:
    telephone = size == TELEPHONE
    browser.look_like(*size, dark=dark, telephone=telephone)
    browser.open(address(daemon))
    folder = kept / "status-page"
    folder.mkdir(parents=True, exist_ok=True)
    browser.screenshot(folder / f"{'telephone' if telephone else 'desk'}-{'dark' if dark else 'light'}.png")
    assert browser.complaints() == []
    beyond = "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)"
    assert browser.evaluate(f"{beyond}.map(e => e.outerHTML.slice(0, 80))") == []
    assert browser.evaluate("document.documentElement.scrollWidth") == size[0]
    red, green, blue = json.loads(
        browser.evaluate("getComputedStyle(document.body).backgroundColor").replace("rgb(", "[").replace(")", "]")
    )
    assert (max(red, green, blue) < 60) if dark else (min(red, green, blue) > 200)


def test_it_says_what_is_there(daemon: Daemon, browser: Browser) -> None:
    browser.look_like(*DESK)
    browser.open(address(daemon))
    shown = text(browser)
    for words in ("not ready", "compiled:1 serving", "waiting:1 warming", "broken:1 failed", "0 of 3 buckets settled"):
        assert words in shown, shown
    rows = browser.evaluate("[...document.querySelectorAll('td.lead')].map(cell => cell.innerText)")
    assert rows == ["batch=1", "batch=8", "batch=5", "batch=9", "batch=11"]


def test_it_is_whole_without_scripts(daemon: Daemon, browser: Browser) -> None:
    browser.look_like(*TELEPHONE, telephone=True)
    browser.open(address(daemon), scripts=False)
    shown = text(browser)
    assert "compiled:1 serving" in shown and "batch=8" in shown and f"answered {ANSWERED}" in shown
    assert browser.evaluate("document.querySelector('noscript meta').httpEquiv") == "refresh"


def test_it_stays_up_to_date_and_says_when_it_is_not(daemon: Daemon, browser: Browser) -> None:
    browser.look_like(*DESK)
    browser.open(address(daemon))
    browser.evaluate("window.opened = 'once'")
    assert not browser.evaluate("getComputedStyle(stale).display !== 'none'")
    with daemon.client() as client:
        infer(client, rows(3), "compiled")
    eventually(lambda: f"answered {ANSWERED + 1}" in text(browser), "the page follows", 30)
    assert browser.evaluate("window.opened") == "once"
    assert browser.complaints() == []
    daemon.kill()
    eventually(lambda: browser.evaluate("getComputedStyle(stale).display !== 'none'"), "it says that it is old", 30)
    assert "doesn't answer" in browser.evaluate("document.body.innerText")
