#!/usr/bin/env python3
"""Asks the demo model which sentences mean what a query means.

    python deploy/demo_client.py [--grpc 127.0.0.1:8001] [--metrics http://127.0.0.1:8002/metrics]

Nothing here is particular to this server: the stock tritonclient and the model's own tokenizer.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton
from tokenizers import Tokenizer
from tritonclient.utils import InferenceServerException

QUERY = "How can I keep bread fresh for longer?"
SENTENCES = [
    "A loaf stays soft for days in a closed bread box.",
    "Freeze what you won't eat by tomorrow, in slices.",
    "Stale toast can be turned into croutons or crumbs.",
    "Sourdough needs a starter of flour and water.",
    "The bakery opens at six, except on Sundays.",
    "My bicycle has had a flat tyre since Tuesday.",
    "Interest rates rose for the third time this year.",
    "Purple ladders whisper eleven to the soup.",
]
REQUESTS = 100
MAX_TOKENS = 128
BAR = 16


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grpc", default="127.0.0.1:8001", help="address of the server (127.0.0.1:8001)")
    parser.add_argument("--metrics", help="address of its metrics page, to see which tier answered")
    parser.add_argument("--model", default="minilm", help="name of the model (minilm)")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json (models/MODEL/tokenizer.json)")
    return parser.parse_args()


class Embedder:
    """Sentences → embeddings, by way of the server."""

    def __init__(self, address: str, model: str, tokenizer: Path) -> None:
        self.client = triton.InferenceServerClient(address)
        self.model = model
        self.tokenizer = Tokenizer.from_str(tokenizer.read_text())
        # Padded to the longest of a request only: the server pads to its buckets.
        self.tokenizer.no_padding()
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)

    def embed(self, sentences: list[str]) -> np.ndarray:
        """One request; an array of one row per sentence."""
        encoded = self.tokenizer.encode_batch(sentences)
        inputs = []
        for name, rows in (
            ("input_ids", [e.ids for e in encoded]),
            ("attention_mask", [e.attention_mask for e in encoded]),
        ):
            array = np.array(rows, dtype=np.int64)
            tensor = triton.InferInput(name, array.shape, "INT64")
            tensor.set_data_from_numpy(array)
            inputs.append(tensor)
        wanted = [triton.InferRequestedOutput("sentence_embedding")]
        return self.client.infer(self.model, inputs, outputs=wanted).as_numpy("sentence_embedding")


def cosine(query: np.ndarray, others: np.ndarray) -> np.ndarray:
    return others @ query / (np.linalg.norm(others, axis=1) * np.linalg.norm(query))


def tier_counts(url: str, model: str) -> Counter[tuple[str, str]]:
    """(tier, bucket) → requests of the model that it answered so far."""
    with urllib.request.urlopen(url, timeout=5) as response:
        page = response.read().decode()
    counts: Counter[tuple[str, str]] = Counter()
    for labels, value in re.findall(r"^stoker_tier_requests_total\{(.*)\} (\S+)", page, re.MULTILINE):
        label = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
        if label.get("model") == model:
            counts[label["tier"], label["bucket"]] += int(float(value))
    return counts


def print_ranking(scores: np.ndarray) -> None:
    print(f"query     {QUERY}\n")
    print(f"  {'similarity':<{BAR + 7}} sentence")
    for i in np.argsort(-scores):
        bar = "█" * round(max(0.0, float(scores[i])) * BAR)
        print(f"  {scores[i]:6.3f} {bar:<{BAR}} {SENTENCES[i]}")


def print_latency(first: float, times: list[float]) -> None:
    ordered = sorted(times)
    p50, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99) - 1]
    print(f"\nlatency   one sentence: first {first * 1e3:.1f} ms, then of {len(times)} requests")
    print(f"          p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")


def print_tiers(before: Counter[tuple[str, str]], after: Counter[tuple[str, str]]) -> None:
    lines = [
        f"{tier:<7} {count:4d} request{'' if count == 1 else 's'} in bucket {bucket}"
        for (tier, bucket), count in (after - before).most_common()
    ]
    for i, line in enumerate(lines or ["the metrics page counts none"]):
        print(f"{'tier' if i == 0 else '':<9} {line}")


def run(args: argparse.Namespace) -> None:
    tokenizer = (
        args.tokenizer or Path(__file__).resolve().parent.parent / "models" / args.model / "tokenizer.json"
    )
    embedder = Embedder(args.grpc, args.model, tokenizer)
    before = tier_counts(args.metrics, args.model) if args.metrics else Counter()
    start = time.perf_counter()
    query = embedder.embed([QUERY])[0]
    first = time.perf_counter() - start
    scores = cosine(query, embedder.embed(SENTENCES))
    times = []
    for _ in range(REQUESTS):
        start = time.perf_counter()
        embedder.embed([QUERY])
        times.append(time.perf_counter() - start)
    print_ranking(scores)
    print_latency(first, times)
    if args.metrics:
        print_tiers(before, tier_counts(args.metrics, args.model))


def main() -> int:
    args = parse_arguments()
    try:
        run(args)
    except InferenceServerException as error:
        print(f"demo_client: {args.grpc}: {error.message()}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"demo_client: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
