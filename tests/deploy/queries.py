"""What a PromQL expression names: metrics, and the label values that it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.metrics_reference_test import Metric, catalog

# Metrics of others that the rules may use, with the labels that they have.
FOREIGN = {
    "up": {"job", "instance"},
    "kubelet_volume_stats_available_bytes": {"persistentvolumeclaim", "namespace"},
    "kubelet_volume_stats_capacity_bytes": {"persistentvolumeclaim", "namespace"},
    # kube-state-metrics'
    "kube_pod_container_status_last_terminated_exitcode": {"container", "namespace", "pod"},
    "kube_pod_container_status_restarts_total": {"container", "namespace", "pod"},
}
# What a scrape adds to every series.
SCRAPE_LABELS = {"job", "instance", "namespace", "pod"}
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")
# The codes of gRPC in lower case; an outcome is one of them, or ok.
GRPC_CODES = (
    "ok cancelled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied "
    "resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable data_loss "
    "unauthenticated"
).split()
# Labels whose values are the operator's: names of models, sizes of buckets, devices, numbers.
OPEN_LABELS = {"model", "version", "bucket", "device", "le"} | SCRAPE_LABELS

SELECTOR = re.compile(r"\b(?P<name>(?:stoker|kubelet|kube_pod)_\w+|up\b)\s*(?:\{(?P<matchers>[^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Selector:
    """One `name{matchers}` of an expression."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]


def selectors(expression: str) -> Iterator[Selector]:
    for match in SELECTOR.finditer(expression):
        yield Selector(match["name"], tuple(MATCHER.findall(match["matchers"] or "")))


def known_values(metric: Metric, label: str) -> set[str] | None:
    """The values that the catalogue's help names for a label; None when the operator names them."""
    if label in OPEN_LABELS:
        return None
    if label == "outcome" and metric.name == "stoker_requests_total":
        return set(GRPC_CODES)
    if label == "layer":
        return {"upper", "lower"}
    if label == "tier":
        return {"eager", "aot", "graph"}
    # "... by reason: memory (all requests together), queue (full), ..."
    listed = re.sub(r"\([^)]*\)", "", metric.help).partition(": ")[2]
    return set(re.findall(r"\b[a-z]\w*\b", listed))


def wrong_in(expression: str) -> list[str]:
    """What an expression asks for that no server exports, one line each."""
    metrics = {metric.name: metric for metric in catalog()}
    wrong = []
    for selector in selectors(expression):
        if selector.name in FOREIGN:
            labels = FOREIGN[selector.name]
            wrong += [f"{selector.name} has no label {m[0]}" for m in selector.matchers if m[0] not in labels]
            continue
        name = selector.name
        if name not in metrics:
            base = next((name.removesuffix(part) for part in HISTOGRAM_PARTS if name.endswith(part)), "")
            if base not in metrics or metrics[base].kind != "histogram":
                wrong.append(f"{name} is not in the catalogue")
                continue
            name = base
        elif metrics[name].kind == "histogram":
            wrong.append(f"{name} is a histogram: {', '.join(name + part for part in HISTOGRAM_PARTS)} exist")
            continue
        metric = metrics[name]
        extra = {"le"} if selector.name.endswith("_bucket") else set()
        for label, operator, text in selector.matchers:
            if label not in metric.labels | extra | SCRAPE_LABELS:
                wrong.append(f"{selector.name} has no label {label}")
                continue
            values = known_values(metric, label)
            if values is None or "$" in text:
                continue
            asked = text.split("|") if operator in ("=~", "!~") else [text]
            wrong += [f'{selector.name}: {label}="{v}" never occurs' for v in asked if v not in values]
    return wrong
