"""A target that exports what the catalogue promises of GPUs, made up: no machine here has a GPU.

Each metric has every value of its labels that its help names, so that a query which asks for another name, label or
value finds nothing. Counters grow with time.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.deploy.queries import known_values
from tests.metrics_reference_test import Metric, catalog

# What the operator names.
NAMES = {"device": ["cuda:0", "cuda:1"], "model": ["gpt"], "version": ["1"], "bucket": ["batch=1", "batch=8"]}
# Beside what has to do with GPUs: what a dashboard's filters and shares go by.
BESIDE = ("stoker_build_info", "stoker_model_state", "stoker_tier_requests_total")


def promised() -> list[Metric]:
    prefixes = ("stoker_gpu_", "stoker_graph_")
    return [metric for metric in catalog() if metric.name.startswith(prefixes) or metric.name in BESIDE]


def series(metric: Metric) -> Iterator[str]:
    labels = metric.label_text.replace("`", "").split(", ")
    values = [NAMES.get(label) or sorted(known_values(metric, label) or {"any"}) for label in labels]
    for chosen in itertools.product(*values):
        yield ", ".join(f'{label}="{value}"' for label, value in zip(labels, chosen, strict=True))


def exposition(seconds: float) -> str:
    lines = []
    for metric in promised():
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for labels in series(metric):
            if metric.kind == "histogram":
                lines.append(f'{metric.name}_bucket{{{labels}, le="+Inf"}} {seconds}')
                lines += [f"{metric.name}_{part}{{{labels}}} {seconds}" for part in ("sum", "count")]
            else:
                lines.append(f"{metric.name}{{{labels}}} {seconds if metric.kind == 'counter' else 1}")
    return "\n".join(lines) + "\n"


@contextmanager
def target() -> Iterator[str]:
    """Serves it; its address."""
    began = time.monotonic()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = exposition(time.monotonic() - began).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
