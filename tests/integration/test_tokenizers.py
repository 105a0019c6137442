"""Proves that a pipeline takes strings: answers are those of tokens made in Python, and bad strings are refused."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from tests.integration.daemon import STOKERD, Daemon, eventually, only_failure
from tests.integration.tensor_asks import Given, by_grpc
from tests.integration.test_model_control import index, refusal

LIBRARY = STOKERD.parent / "libstoker_tokenizer.so"
pytestmark = pytest.mark.skipif(
    not LIBRARY.exists(), reason=f"no {LIBRARY}: deploy/tokenizer.sh builds it, with a Rust toolchain"
)

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "on", "a", "mat", "größer"]
LENGTH = 12
YAML = """\
pipeline:
  inputs: [text]
  outputs: [pooled]
  steps:
  - tokenizer: tokenizer.json
    max_length: 12
    inputs: [text]
    outputs: {input_ids: ids, attention_mask: mask}
  - {model: tokens, inputs: [ids, mask], outputs: [pooled]}
"""
TEXTS = ["the cat sat on a mat", "größer cat", "dog", "the " * 40]


def small_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def sentences(root: Path, yaml: str = YAML) -> Path:
    folder = root / "sentences"
    folder.mkdir()
    (folder / "model.yaml").write_text(yaml)
    small_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def tokenized(texts: list[str]) -> list[Given]:
    tokenizer = small_tokenizer()
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    tokenizer.enable_truncation(LENGTH)
    encoded = tokenizer.encode_batch(texts)
    return [
        Given("ids", np.array([e.ids for e in encoded], np.int64)),
        Given("mask", np.array([e.attention_mask for e in encoded], np.int64)),
    ]


def strings(texts: Sequence[str | bytes]) -> Given:
    return Given("text", np.array([t.encode() if isinstance(t, str) else t for t in texts], object))


def embed(client: triton.InferenceServerClient, texts: Sequence[str | bytes]) -> np.ndarray:
    return by_grpc(client, "sentences", strings(texts))["pooled"]


def test_strings_are_answered_as_their_tokens(repository, start) -> None:
    root = repository("tokens")
    sentences(root)
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        metadata = client.get_model_metadata("sentences")
        assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [("text", "BYTES", [-1])]
        assert metadata.platform == "stoker_pipeline"
        assert client.get_model_config("sentences").config.max_batch_size == 4
        right = by_grpc(client, "tokens", *tokenized(TEXTS))["pooled"]
        np.testing.assert_allclose(embed(client, TEXTS), right, atol=1e-6)
        # As Triton's clients send a string for each row.
        column = Given("text", strings(TEXTS).elements.reshape(-1, 1))
        np.testing.assert_allclose(by_grpc(client, "sentences", column)["pooled"], right, atol=1e-6)
        # On the thread of tokenizers.
        long = ["the cat " * 4000]
        np.testing.assert_allclose(
            embed(client, long), by_grpc(client, "tokens", *tokenized(long))["pooled"], atol=1e-6
        )
        given = {"inputs": [{"name": "text", "shape": [4], "datatype": "BYTES", "data": TEXTS}]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{daemon.http_port}/v2/models/sentences/infer", json.dumps(given).encode()
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            (output,) = json.load(answer)["outputs"]
        np.testing.assert_allclose(output["data"], right.reshape(-1), atol=1e-6)
        assert daemon.metric("stoker_pipeline_steps_total", model="sentences", step="tokenizer", outcome="ok") == 4


def test_a_bad_string_is_refused_and_ends_nothing(repository, start) -> None:
    root = repository("tokens")
    sentences(root)
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        for text, reason in (
            (b"", "string element 1: expected text with tokens, got an empty one"),
            (b"cat \xff\xfe", "string element 1: expected text with tokens, got bytes that are not UTF-8"),
            (b"x" * ((1 << 20) + 1), "string element 1 has 1048577 bytes, expected at most 1048576"),
        ):
            code, message = refusal(partial(embed, client, ["the cat", text]))
            assert code == "INVALID_ARGUMENT" and reason in message
        code, message = refusal(lambda: embed(client, ["the cat"] * 5))
        assert code == "INVALID_ARGUMENT" and "batch-size must be <= 4" in message
        for odd in ("\U0001f600" * 1000, "a" * (1 << 20), "\u0301" * 5000, "a\0b"):
            assert embed(client, [odd]).shape == (1, 16)
        assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "tokenizer.json: expected a tokenizer.json"),
        (b"", "expected a tokenizer.json as Hugging Face's tokenizers write it"),
        (b'{"model": {"type": "WordPiece"}}', "expected a tokenizer.json as Hugging Face's tokenizers write it"),
        (b"[" * 100_000, "expected a tokenizer.json as Hugging Face's tokenizers write it"),
        (bytes(range(256)) * 10, "expected a tokenizer.json as Hugging Face's tokenizers write it"),
    ],
)
def test_a_damaged_file_is_told_of(repository, start, content: bytes | None, reason: str) -> None:
    root = repository("tokens")
    file = sentences(root) / "tokenizer.json"
    file.unlink() if content is None else file.write_bytes(content)
    with start(root, "--no-compile") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        state, why = index(client)["sentences:1"]
        assert state == "UNAVAILABLE" and "step 'tokenizer': " in why and reason in why
        assert client.is_model_ready("tokens")


def test_without_the_library_it_says_where_it_comes_from(tmp_path: Path, start) -> None:
    root = tmp_path / "models"
    root.mkdir()
    sentences(root)
    with start(root, "--no-compile", "--tokenizer-library=/nowhere/lib.so") as daemon:
        assert_fails(daemon, "expected at /nowhere/lib.so (--tokenizer-library; deploy/tokenizer.sh builds it)")
    with start(root, "--no-compile", "--tokenizer-library=/lib/x86_64-linux-gnu/libz.so.1") as daemon:
        assert_fails(daemon, "was built for another version")


def assert_fails(daemon: Daemon, reason: str) -> None:
    assert reason in only_failure(daemon)


def test_a_changed_file_is_read_again(repository, start) -> None:
    root = repository("tokens")
    file = sentences(root) / "tokenizer.json"
    with start(root, "--no-compile", "--repository-poll-seconds=0.2") as daemon, daemon.client() as client:
        daemon.wait_ready(60)
        before = embed(client, ["the cat"])
        file.write_text(file.read_text().replace('"cat":5', '"cat":9').replace('"cat": 5', '"cat": 9'))
        eventually(lambda: not np.allclose(embed(client, ["the cat"]), before), "another tokenizer is used", 30)
