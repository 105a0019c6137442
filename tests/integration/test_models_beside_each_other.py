"""Proves that busy models share the machine by their weight, and take turns on the resources that they name."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from tests.integration.clients import infer, rows
from tests.integration.daemon import Daemon, only_failure, write_yaml

WIDTH = 1024


class Slow(torch.nn.Module):
    """Some 10 ms, most of them a matrix of 4 MB on its way: so long that clients are never late."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide = torch.nn.Linear(16, WIDTH)
        self.deep = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.wide(x)
        for _ in range(60):
            x = torch.tanh(self.deep(x))
        return {"y": x}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("slow") / "model.pt2"
    torch.export.save(torch.export.export(Slow().eval(), (torch.ones(1, 16),)), path)
    return path


@pytest.fixture
def models(tmp_path: Path, program: Path) -> Callable[..., Path]:
    """models(a={...}, b={...}) is a repository with these, each with what its model.yaml says."""

    def make(**configured: dict[str, object]) -> Path:
        for name, fields in configured.items():
            folder = tmp_path / "models" / name
            (folder / "1").mkdir(parents=True)
            shutil.copy(program, folder / "1/model.pt2")
            write_yaml(folder, compile=False, **fields)
        return tmp_path / "models"

    return make


@contextmanager
def busy(daemon: Daemon, *names: str) -> Iterator[None]:
    """Each of the models always has requests waiting."""
    over = threading.Event()

    def ask(name: str) -> None:
        with daemon.client() as client:
            while not over.is_set():
                infer(client, rows(1), name)

    with ThreadPoolExecutor(8 * len(names)) as pool:
        asked = [pool.submit(ask, name) for name in names for _ in range(8)]
        try:
            time.sleep(0.3)  # until all of them wait
            yield
        finally:
            over.set()
        for future in asked:
            future.result(60)


def used(daemon: Daemon, resource: str, *names: str, seconds: float = 3) -> tuple[float, list[float]]:
    """How long it looked while the models were busy, and what each had of the resource."""

    def read() -> list[float]:
        metric = "stoker_resource_seconds_total"
        return [daemon.metric(metric, model=name, resource=resource) for name in names]

    with busy(daemon, *names):
        began, before = time.monotonic(), read()
        time.sleep(seconds)
        after, ended = read(), time.monotonic()
    return ended - began, [late - early for late, early in zip(after, before, strict=True)]


def check_shares(daemon: Daemon, resource: str, **weights: float) -> None:
    """Of the resource each model gets its weight's share, within a fifth. Where others have the cores for long,
    clients don't keep both models busy, which says nothing of shares: such a look is not the last."""
    expected = [weight / sum(weights.values()) for weight in weights.values()]
    for looks_left in (2, 1, 0):
        _, had = used(daemon, resource, *weights)
        shares = [each / sum(had) for each in had]
        if looks_left == 0 or shares == pytest.approx(expected, rel=0.2):
            assert shares == pytest.approx(expected, rel=0.2)
            return


@pytest.mark.parametrize(("light", "heavy"), [(1, 1), (1, 3), (0.2, 1)])
def test_each_gets_the_share_of_its_weight(models, start, light: float, heavy: float) -> None:
    root = models(light={"weight": light}, heavy={"weight": heavy})
    with start(root) as daemon:
        daemon.wait_ready(120, ["light", "heavy"])
        check_shares(daemon, "cpu", light=light, heavy=heavy)


def test_a_resource_is_had_by_one_at_a_time(models, start) -> None:
    fields = {"threads": 1, "resources": {"turn": 1}}
    root = models(a=fields, b=fields)
    with start(root, "--rate-limit-resource=turn:1") as daemon:
        daemon.wait_ready(120, ["a", "b"])
        assert daemon.metric("stoker_resource_units", resource="turn@cpu") == 1
        wall, each = used(daemon, "turn@cpu", "a", "b")
        # A run is counted when it ends: the first began earlier.
        assert 0.5 * wall < sum(each) < wall + 0.1
        check_shares(daemon, "turn@cpu", a=1, b=1)
        for model in ("a", "b"):
            assert daemon.metric("stoker_resource_wait_seconds_total", model=model, resource="turn@cpu") > 0.2 * wall
    with start(root, "--rate-limit=off") as daemon:
        daemon.wait_ready(120, ["a", "b"])
        with busy(daemon, "a", "b"):
            pass
        resources = {labels["resource"] for labels, _ in daemon.samples("stoker_resource_seconds_total")}
        assert resources == {"cpu"}


def test_more_than_there_is_fails_the_load(models, start) -> None:
    root = models(greedy={"resources": {"slots": {"count": 3, "global": True}}})
    with start(root, "--rate-limit-resource=slots:2") as daemon:
        assert only_failure(daemon) == (
            "greedy:1: resources.slots: expected at most 2, which is what --rate-limit-resource gives as slots, got 3"
        )
    with start(root) as daemon:  # as much as it asks for
        daemon.wait_ready(120, ["greedy"])
        assert daemon.metric("stoker_resource_units", resource="slots") == 3
        with daemon.client() as client:
            assert infer(client, rows(1), "greedy").shape == (1, WIDTH)


def test_a_rate_limiter_of_triton_is_read(models, start) -> None:
    root = models(a={}, b={})
    for name, priority in (("a", 1), ("b", 4)):
        (root / name / "model.yaml").unlink()
        (root / name / "config.pbtxt").write_text(
            "instance_group [ { kind: KIND_CPU rate_limiter { priority: "
            f'{priority} resources [ {{ name: "R1" global: true count: 2 }} ] }} }} ]'
        )
    with start(root, "--no-compile", "--rate-limit=execution_count", "--rate-limit-resource", "R1:2:0") as daemon:
        daemon.wait_ready(120, ["a", "b"])
        check_shares(daemon, "R1", a=1, b=1 / 4)
