"""`compile: {dynamic: true}` and `auto`: what fits no bucket is answered by code that was compiled for any size, as
eager would answer it, and with `auto` every bucket too until code of its own is faster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.integration.daemon import Daemon, ctl, eventually, write_yaml
from tests.integration.wire import eager
from tests.models import TOKENS_YAML

YAML = TOKENS_YAML.split("buckets:")[0].replace("max_batch_size: 4", "max_batch_size: 16") + (
    "buckets: [{batch: 4, tokens: 8}]\ncompile: {dynamic: true}\n"
)
FORMS = ["batch=any,tokens=any", "batch=1,tokens=any"]


@pytest.fixture
def root(repository: Callable[..., Path]) -> Path:
    root = repository("tokens")
    (root / "tokens/model.yaml").write_text(YAML)
    return root


def ask(client: triton.InferenceServerClient, ids: np.ndarray) -> np.ndarray:
    """What "tokens" answers for texts that have no padding."""
    given = []
    for name, value in (("ids", ids), ("mask", np.ones_like(ids))):
        tensor = triton.InferInput(name, list(ids.shape), "INT64")
        tensor.set_data_from_numpy(value)
        given.append(tensor)
    return client.infer("tokens", given).as_numpy("token_embeddings")


def check(client: triton.InferenceServerClient, rows: int, length: int) -> None:
    """That a request of such sizes gets eager's answer."""
    ids = np.random.default_rng(rows * 100 + length).integers(0, 100, (rows, length))
    inputs = {"ids": torch.from_numpy(ids), "mask": torch.ones(rows, length, dtype=torch.int64)}
    np.testing.assert_allclose(
        ask(client, ids), eager("tokens", inputs)["token_embeddings"].numpy(), rtol=3e-5, atol=3e-5
    )


def test_what_fits_no_bucket(root: Path, start: Callable[..., Daemon]) -> None:
    # Whether such small code is worth it here is not the question.
    with start(root, "--no-promotion-checks") as daemon, daemon.client() as client:
        daemon.wait_ready()
        served = {
            (4, 8): ("aot", "batch=4,tokens=8"),
            (1, 50): ("dynamic", FORMS[1]),
            (3, 40): ("dynamic", FORMS[0]),
            (16, 64): ("dynamic", FORMS[0]),
            (9, 1): ("eager", "none"),  # code that is compiled for any size is for two tokens and more
        }
        for (rows, length), (tier, bucket) in served.items():
            before = daemon.metric("stoker_tier_requests_total", tier=tier, bucket=bucket)
            check(client, rows, length)
            after = daemon.metric("stoker_tier_requests_total", tier=tier, bucket=bucket)
            assert after == before + 1, (rows, length)
        wrong = np.zeros((3, 40), dtype=np.int64)
        wrong[1, 7] = 100
        with pytest.raises(InferenceServerException, match="index out of range, expected 0 <= index < 100"):
            ask(client, wrong)
        status = json.loads(ctl("status", f"--metrics=http://127.0.0.1:{daemon.metrics_port}/metrics", "--json"))
        tiers = {bucket["bucket"]: bucket["tier"] for bucket in status["buckets"]}
        assert tiers == {"batch=4,tokens=8": "aot", FORMS[0]: "dynamic", FORMS[1]: "dynamic"}
        assert daemon.stop() == 0


def test_forms_are_kept_and_their_evidence_too(
    root: Path, start: Callable[..., Daemon], fresh_cache: Path
) -> None:
    with start(root, cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        check(client, 3, 40)
        assert daemon.stop() == 0
    log = daemon.log()
    # Forms come first: each bucket has them to fall back on, and has to beat them.
    assert log.index(FORMS[0]) < log.index("batch=4,tokens=8")
    cache = ["--json", "--cache", fresh_cache]
    plan = json.loads(ctl(*cache, "plan", f"--model-repository={root}"))["buckets"]
    assert [bucket["bucket"] for bucket in plan] == ["batch=4,tokens=8", *FORMS]
    verdicts = json.loads(ctl(*cache, "parity", f"--model-repository={root}"))
    tried = {one["bucket"]: [case["sizes"] for case in one["verdict"]["cases"]] for one in verdicts}
    assert "batch=2,tokens=2" in tried[FORMS[0]] and "batch=16,tokens=2" in tried[FORMS[0]]
    assert all(sizes.startswith("batch=1,") for sizes in tried[FORMS[1]])
    with start(root, "--frozen", cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        check(client, 3, 40)
        assert daemon.stop() == 0


def test_forms_come_first_and_a_bucket_of_its_own_later(
    root: Path, start: Callable[..., Daemon], fresh_cache: Path
) -> None:
    (root / "tokens/model.yaml").write_text(YAML.replace("dynamic: true", "dynamic: auto"))
    bucket = "batch=4,tokens=8"
    with start(root, cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        for rows, length in ((4, 8), (1, 8), (3, 40)):
            check(client, rows, length)
        # What comes of it is this hour's timing; that it is tried is not.
        compiled = f"compiled tokens:1 [{bucket}]"
        eventually(lambda: compiled in daemon.log(), "the bucket is tried")
        ended = [f"tokens:1 {bucket}: {how}" for how in ("compiled", "left to", "stays on")]
        eventually(lambda: any(line in daemon.log() for line in ended), "it is settled")
        ready = daemon.log().index(" s after launch")
        forms_served = all(f"{form}: compiled" in daemon.log()[:ready] for form in FORMS)
        assert not forms_served or ready < daemon.log().index(compiled)
        assert daemon.stop() == 0
    with start(root, cache=fresh_cache) as daemon, daemon.client() as client:
        daemon.wait_ready()
        check(client, 4, 8)
        assert daemon.stop() == 0
        assert "compiling" not in daemon.log()


def test_a_program_of_one_size_has_none(repository: Callable[..., Path], start: Callable[..., Daemon]) -> None:
    root = repository("static")
    write_yaml(root / "static", compile={"dynamic": True})
    with start(root) as daemon:
        said = "expected dynamic: false for a program without dynamic dimensions, got another"
        eventually(lambda: said in daemon.log(), "the refusal")
        assert daemon.stop() == 0
