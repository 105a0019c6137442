"""Proves that every model answers what PyTorch answers, on the tier and bucket that its shape calls for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import grpc
import pytest
import torch
from torch import Tensor

from tests.integration.daemon import Daemon
from tests.integration.wire import assert_same, eager, indices, raw_request, read, stub, typed_request

Inputs = dict[str, Tensor]
# The last five hold operators that call graphs of their own, or answer in a class of transformers'.
COMPILED = ["mlp", "identity", "allkinds", "tokens", "hostile", "static", "nobatch", "renamed"]
COMPILED += ["wrapped", "loops", "llama", "modernbert", "bert"]


@pytest.fixture(scope="module")
def compiled(serving: Callable[..., Daemon]) -> Daemon:
    # Whether a compiled form of a tiny model pays is the machine's to say, so nobody asks it here.
    return serving(COMPILED, "--no-promotion-checks")


@pytest.fixture(scope="module")
def uncompiled(serving: Callable[..., Daemon]) -> Daemon:
    return serving([*COMPILED, "ragged"], uncompiled=True)


@pytest.fixture(scope="module")
def compiled_channel(compiled: Daemon) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(compiled.address) as channel:
        yield channel


@pytest.fixture(scope="module")
def uncompiled_channel(uncompiled: Daemon) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(uncompiled.address) as channel:
        yield channel


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


def rows(batch: int) -> Inputs:
    return {"x": torch.randn(batch, 16)}


def all_kinds(batch: int) -> Inputs:
    return {
        "in_bool": torch.rand(batch, 3) < 0.5,
        "in_uint8": torch.randint(0, 255, (batch, 3), dtype=torch.uint8),
        "in_int8": torch.randint(-128, 127, (batch, 3), dtype=torch.int8),
        "in_int16": torch.randint(-(1 << 15), (1 << 15) - 1, (batch, 3), dtype=torch.int16),
        "in_int32": torch.randint(-(1 << 31), (1 << 31) - 1, (batch, 3), dtype=torch.int32),
        "in_int64": torch.randint(-(1 << 62), 1 << 62, (batch, 3)),
        "in_fp16": torch.randn(batch, 3, dtype=torch.float16),
        "in_bf16": torch.randn(batch, 3, dtype=torch.bfloat16),
        "in_fp32": torch.randn(batch, 3),
        "in_fp64": torch.randn(batch, 3, dtype=torch.float64),
    }


def sentences(batch: int, length: int) -> Inputs:
    """The last row is masked at its end, so that the mask counts."""
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[-1, length // 2 + 1 :] = 0
    return {"ids": torch.randint(0, 100, (batch, length)), "mask": mask}


def words(batch: int, length: int) -> Inputs:
    return {
        "ids": torch.randint(1, 64, (batch, length)),
        "mask": torch.ones(batch, length, dtype=torch.long),
    }


def words_of_bert(batch: int, length: int) -> Inputs:
    given = words(batch, length)
    return {"input_ids": given["ids"], "attention_mask": given["mask"]}


def columns(length: int) -> Inputs:
    return {"x": torch.randn(4, length)}


def pairs(batch: int) -> Inputs:
    limits = torch.iinfo(torch.int32)

    def integers() -> Tensor:
        return torch.randint(limits.min, limits.max, (batch, 16), dtype=torch.int32)

    return {"INPUT0": integers(), "INPUT1": integers()}


# model, its inputs' maker, the sizes, the smallest bucket that holds them
CASES = [
    ("mlp", rows, (1,), "batch=1"),
    ("mlp", rows, (8,), "batch=8"),
    ("mlp", rows, (5,), "batch=8"),
    ("identity", rows, (4,), "batch=4"),
    ("identity", rows, (3,), "batch=4"),
    ("identity", rows, (31,), "batch=32"),
    ("allkinds", all_kinds, (1,), "batch=1"),
    ("allkinds", all_kinds, (4,), "batch=4"),
    ("allkinds", all_kinds, (3,), "batch=4"),
    ("tokens", sentences, (1, 8), "batch=1,tokens=8"),
    ("tokens", sentences, (4, 32), "batch=4,tokens=32"),
    ("tokens", sentences, (3, 8), "batch=4,tokens=8"),
    ("tokens", sentences, (1, 20), "batch=1,tokens=32"),
    ("tokens", sentences, (2, 5), "batch=4,tokens=8"),
    ("tokens", sentences, (2, 1), "batch=4,tokens=8"),
    ("tokens", sentences, (2, 40), "none"),
    ("hostile", indices, (1,), "batch=1"),
    ("hostile", indices, (4,), "batch=4"),
    ("hostile", indices, (2,), "batch=4"),
    ("static", rows, (2,), "static"),
    ("nobatch", columns, (8,), "x.1=8"),
    ("nobatch", columns, (5,), "none"),
    ("nobatch", columns, (32,), "none"),
    ("renamed", pairs, (1,), "batch=1"),
    ("renamed", pairs, (8,), "batch=8"),
    ("renamed", pairs, (6,), "batch=8"),
    ("wrapped", rows, (1,), "batch=1"),
    ("wrapped", rows, (5,), "batch=8"),
    ("loops", rows, (1,), "batch=1"),
    ("loops", rows, (5,), "batch=8"),
    ("llama", words, (2, 16), "batch=2,tokens=16"),
    ("llama", words, (1, 9), "batch=2,tokens=16"),
    ("llama", words, (1, 20), "none"),
    ("modernbert", words, (2, 16), "batch=2,tokens=16"),
    ("modernbert", words, (1, 9), "batch=2,tokens=16"),
    ("modernbert", words, (1, 20), "none"),
    ("bert", words_of_bert, (2, 16), "batch=2,tokens=16"),
    ("bert", words_of_bert, (1, 9), "batch=2,tokens=16"),
    ("bert", words_of_bert, (1, 20), "none"),
]  # fmt: skip
CASE_IDS = [f"{model}-{'x'.join(map(str, sizes))}" for model, _, sizes, _ in CASES]


def infer(channel: grpc.Channel, model: str, inputs: Inputs) -> dict[str, Tensor]:
    return read(stub(channel).ModelInfer(raw_request(model, inputs)))


def in_buckets(daemon: Daemon, model: str, tier: str) -> tuple[float, float]:
    """Requests that the tier has answered in a bucket, and in none."""
    none = daemon.metric("stoker_tier_requests_total", model=model, tier=tier, bucket="none")
    return daemon.metric("stoker_tier_requests_total", model=model, tier=tier) - none, none


def by_bucket(daemon: Daemon, model: str) -> Counter[tuple[str, str]]:
    """Answers by tier and bucket."""
    samples = daemon.samples("stoker_tier_requests_total")
    return Counter({(have["tier"], have["bucket"]): int(n) for have, n in samples if have["model"] == model})


def sizes_of(bucket: str) -> list[int]:
    return [int(size) for size in re.findall(r"=(\d+)", bucket)]


@pytest.mark.parametrize(("model", "make", "sizes", "bucket"), CASES, ids=CASE_IDS)
def test_compiled(
    compiled: Daemon,
    compiled_channel: grpc.Channel,
    model: str,
    make: Callable[..., Inputs],
    sizes: tuple[int, ...],
    bucket: str,
) -> None:
    """In a larger bucket than the smallest where measured times, which noise may spoil, say so."""
    before = by_bucket(compiled, model)
    inputs = make(*sizes)
    assert_same(infer(compiled_channel, model, inputs), eager(model, inputs))
    ((tier, ran_in),) = (by_bucket(compiled, model) - before).elements()
    assert tier == ("eager" if bucket == "none" else "aot")
    assert (ran_in == "none") == (bucket == "none")
    assert all(size >= least for size, least in zip(sizes_of(ran_in), sizes_of(bucket), strict=True))


@pytest.mark.parametrize(("model", "make", "sizes", "bucket"), CASES, ids=CASE_IDS)
def test_uncompiled(
    uncompiled: Daemon,
    uncompiled_channel: grpc.Channel,
    model: str,
    make: Callable[..., Inputs],
    sizes: tuple[int, ...],
    bucket: str,
) -> None:
    """In which bucket is for measured times to say, and uncompiled ones of tiny models are alike."""
    bucketed, alone = in_buckets(uncompiled, model, "eager")
    inputs = make(*sizes)
    assert_same(infer(uncompiled_channel, model, inputs), eager(model, inputs))
    expected = (bucketed, alone + 1) if bucket == "none" else (bucketed + 1, alone)
    assert in_buckets(uncompiled, model, "eager") == expected


@pytest.mark.parametrize("positive", [0, 1, 5, 8])
def test_output_as_long_as_the_values_say(uncompiled_channel: grpc.Channel, positive: int) -> None:
    x = -torch.rand(8) - 0.1
    x[torch.randperm(8)[:positive]] *= -1
    answer = infer(uncompiled_channel, "ragged", {"x": x})
    assert answer["positions"].shape == (positive, 1)
    assert_same(answer, eager("ragged", {"x": x}))


@pytest.mark.parametrize("model", ["mlp", "tokens", "hostile", "renamed"])
def test_typed_contents(compiled_channel: grpc.Channel, model: str) -> None:
    makers = {"mlp": rows, "tokens": lambda n: sentences(n, 7), "hostile": indices, "renamed": pairs}
    inputs = makers[model](3)
    answer = stub(compiled_channel).ModelInfer(typed_request(model, inputs))
    assert_same(read(answer), eager(model, inputs))


@pytest.mark.parametrize(
    "outputs", [["pooled"], ["token_embeddings"], ["pooled", "token_embeddings"]], ids="-".join
)
def test_outputs_asked_for_come_in_that_order(compiled_channel: grpc.Channel, outputs: list[str]) -> None:
    inputs = sentences(3, 7)
    expected = eager("tokens", inputs)
    answer = read(stub(compiled_channel).ModelInfer(raw_request("tokens", inputs, outputs)))
    assert_same(answer, {name: expected[name] for name in outputs})


def test_inputs_come_in_any_order(compiled_channel: grpc.Channel) -> None:
    inputs = pairs(3)
    swapped = dict(reversed(inputs.items()))
    assert_same(infer(compiled_channel, "renamed", swapped), eager("renamed", inputs))


def test_answer_says_whose_it_is(compiled_channel: grpc.Channel) -> None:
    request = raw_request("mlp", rows(1))
    request.id = "request 7 of Zo\u00eb"
    answer = stub(compiled_channel).ModelInfer(request)
    assert (answer.id, answer.model_name, answer.model_version) == (request.id, "mlp", "1")
