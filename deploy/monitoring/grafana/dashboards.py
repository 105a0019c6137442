"""Writes deploy/monitoring/grafana/dashboards/*.json. Change the panels here, not there.

    python deploy/monitoring/grafana/dashboards.py           writes the files
    python deploy/monitoring/grafana/dashboards.py --check   exit code 1 when a file isn't what this writes

A panel is a title, a kind, what a bad value means to the person on call, and queries. `$f` in a query
stands for the filter by instance, `$m` for the filter by model and instance. Positions are counted out
from left to right: 24 columns a row.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "dashboards"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
FILTERS = {"$f": 'instance=~"$instance"', "$m": 'model=~"$model", instance=~"$instance"'}
GREEN, ORANGE, RED = "green", "orange", "red"


def query(expression: str, legend: str = "", **more: Any) -> dict[str, Any]:
    for name, text in FILTERS.items():
        expression = expression.replace(name, text)
    return {"expr": expression, "legendFormat": legend or "__auto"} | more


def now(expression: str, legend: str = "", **more: Any) -> dict[str, Any]:
    """A query for the value of this moment: of a figure or a table."""
    return query(expression, legend, instant=True, range=False, **more)


def panel(
    kind: str,
    title: str,
    description: str,
    *queries: dict[str, Any],
    unit: str = "short",
    width: int = 12,
    height: int = 8,
    steps: list[tuple[float | None, str]] | None = None,
    custom: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    **field: Any,
) -> dict[str, Any]:
    """steps: (value from which on, colour), the first from None."""
    thresholds = [{"color": colour, "value": value} for value, colour in steps or [(None, GREEN)]]
    defaults = {
        "unit": unit,
        "color": {"mode": "thresholds" if kind in ("stat", "bargauge") else "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": thresholds},
        "custom": custom or {},
    } | field
    targets = [
        {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "editorMode": "code"} | one
        for index, one in enumerate(queries)
    ]
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": {"w": width, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": OPTIONS.get(kind, {}) | (options or {}),
        "targets": targets,
    }


OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "auto",
    },
    "bargauge": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "displayMode": "basic",
        "orientation": "horizontal",
        "showUnfilled": True,
        "valueMode": "color",
    },
    "heatmap": {
        "calculate": False,
        "cellGap": 1,
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "dark-orange",
                  "reverse": False, "scale": "exponential"},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "tooltip": {"show": True, "yHistogram": False},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": "s"},
    },
}  # fmt: skip


def line(title: str, description: str, *queries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return panel("timeseries", title, description, *queries, **more)


def stacked(title: str, description: str, *queries: dict[str, Any], **more: Any) -> dict[str, Any]:
    custom = {"fillOpacity": 40, "lineWidth": 1, "stacking": {"mode": "normal", "group": "A"}}
    return line(title, description, *queries, custom=custom, **more)


def figure(title: str, description: str, *queries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return panel("stat", title, description, *queries, **({"width": 4, "height": 4} | more))


def bars(title: str, description: str, *queries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return panel("bargauge", title, description, *queries, **more)


def variable(name: str, label: str, source: str) -> dict[str, Any]:
    """All of them is `.*`, so that it also takes what has no model: requests that were refused early."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": source, "refId": "StandardVariableQuery"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "options": [],
        "hide": 0,
        "skipUrlSync": False,
        "regex": "",
    }


def dashboard(uid: str, title: str, description: str, *panels: dict[str, Any]) -> dict[str, Any]:
    x = y = tallest = 0
    placed = []
    for index, one in enumerate(panels):
        size = one["gridPos"]
        if x + size["w"] > 24:
            x, y, tallest = 0, y + tallest, 0
        placed.append(one | {"id": index + 1, "gridPos": size | {"x": x, "y": y}})
        x, tallest = x + size["w"], max(tallest, size["h"])
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "regex": "",
        "refresh": 1,
        "multi": False,
        "includeAll": False,
        "current": {},
        "options": [],
        "hide": 0,
        "skipUrlSync": False,
    }
    links = [
        {
            "title": "Stoker",
            "type": "dashboards",
            "tags": ["stoker"],
            "asDropdown": True,
            "icon": "external link",
            "includeVars": True,
            "keepTime": True,
            "targetBlank": False,
            "tooltip": "",
            "url": "",
        }
    ]
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["stoker"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "refresh": "10s",
        "annotations": {"list": []},
        "links": links,
        "templating": {
            "list": [
                source,
                variable("instance", "Instance", "label_values(stoker_build_info, instance)"),
                variable("model", "Model", 'label_values(stoker_model_state{instance=~"$instance"}, model)'),
            ]
        },
        "panels": placed,
    }


RATE = "[$__rate_interval]"


def quantiles(metric: str) -> list[dict[str, Any]]:
    return [
        query(f"histogram_quantile({q}, sum by (model, le) (rate({metric}_bucket{{$m}}{RATE})))", f"{{{{model}}}} {name}")
        for q, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
    ]


OVERVIEW = dashboard(
    "stoker-overview",
    "Stoker / Overview",
    "Traffic, latency, tiers, queue and refusals of Stoker servers.",
    figure(
        "Ready servers",
        "Servers that are ready. Fewer than you run: one is starting, draining or stuck; see Cold start.",
        now('count(stoker_ready_timestamp_seconds{$f} > 0)', "ready"),
        steps=[(None, RED), (1, GREEN)],
    ),
    figure(
        "Requests per second",
        "Finished requests, whatever came of them. A sudden drop with clients still there: look at Ready "
        "servers and at the outcomes below.",
        now(f"sum(rate(stoker_requests_total{{$m}}{RATE}))", "requests"),
        unit="reqps",
    ),
    figure(
        "Not ok",
        "Share of requests that did not end with ok. Over 1 %: the panel of outcomes says whether clients "
        "(invalid_argument) or the server (unavailable, internal) are the cause.",
        now(
            f'1 - sum(rate(stoker_requests_total{{$m, outcome="ok"}}{RATE})) / sum(rate(stoker_requests_total{{$m}}{RATE}))',
            "not ok",
        ),
        unit="percentunit",
        steps=[(None, GREEN), (0.01, ORANGE), (0.05, RED)],
    ),
    figure(
        "p99 latency",
        "From the arrival of a request to its answer, over all models chosen. Compare with the queue wait: "
        "what isn't waiting is run time.",
        now(f"histogram_quantile(0.99, sum by (le) (rate(stoker_request_seconds_bucket{{$m}}{RATE})))", "p99"),
        unit="s",
    ),
    figure(
        "Served by eager",
        "Share of requests that no compiled artifact served. 0 is usual after the warm-up; more: buckets on "
        "eager, or requests that fit no bucket.",
        now(
            f'sum(rate(stoker_tier_requests_total{{$m, tier="eager"}}{RATE})) / sum(rate(stoker_tier_requests_total{{$m}}{RATE}))',
            "eager",
        ),
        unit="percentunit",
        steps=[(None, GREEN), (0.05, ORANGE), (0.5, RED)],
    ),
    figure(
        "Versions that serve",
        "Versions of models in state serving. Fewer than you deployed: one failed to load or is warming up; "
        "`stokerctl status` says why.",
        now('count(stoker_model_state{$m, state="serving"} == 1)', "serving"),
        steps=[(None, RED), (1, GREEN)],
    ),
    stacked(
        "Requests by outcome",
        "Outcomes are gRPC codes. unavailable and resource_exhausted: the server protects itself, see Refused. "
        "internal: the server or the model is at fault, see the log. invalid_argument: clients send what the "
        "model doesn't take. deadline_exceeded: clients gave up.",
        query(f"sum by (outcome) (rate(stoker_requests_total{{$m}}{RATE}))", "{{outcome}}"),
        unit="reqps",
    ),
    panel(
        "heatmap",
        "Latency",
        "How many requests took how long. A second band above the first: some wait, or some are served by "
        "eager. The whole band moving up: the machine is slower or shared.",
        query(f"sum by (le) (increase(stoker_request_seconds_bucket{{$m}}{RATE}))", "{{le}}", format="heatmap"),
        unit="s",
    ),
    line(
        "Latency by model",
        "From arrival to answer, as read off the histogram (off by a factor of 1.6 at most). p99 far above p50: "
        "queueing or eager.",
        *quantiles("stoker_request_seconds"),
        unit="s",
    ),
    line(
        "Queue wait by model",
        "How long requests waited for their batch. Over your objective (the alert takes 0.1 s): more traffic than "
        "the cores do; add replicas. This is what the chart's autoscaler looks at.",
        *quantiles("stoker_queue_seconds"),
        unit="s",
    ),
    line(
        "Queue length",
        "Requests that wait now. A line that stays up is an overload; one at the model's max_queue_size means "
        "that requests are refused.",
        query("sum by (model, instance) (stoker_queue_length{$m})", "{{model}} {{instance}}"),
    ),
    line(
        "Refused",
        "Requests refused for now, by reason. queue: queue full. queue_timeout: waited too long. memory and "
        "model_memory: answers and requests fill --max-request-memory-mb. stalled: a client didn't read or send.",
        query(f"sum by (reason) (rate(stoker_refused_requests_total{{$m}}{RATE}))", "{{reason}}"),
        unit="reqps",
    ),
    stacked(
        "Requests by tier",
        "graph is a CUDA graph of what is compiled, aot is compiled, eager is the floor below. Eager after the warm-up: a bucket isn't compiled, or shapes "
        "fit no bucket.",
        query(f"sum by (tier) (rate(stoker_tier_requests_total{{$m}}{RATE}))", "{{tier}}"),
        unit="reqps",
    ),
    stacked(
        "Requests by bucket",
        "Which buckets the traffic uses. Much in none: `stokerctl buckets` proposes better ones. A bucket that is "
        "never used costs a compile for nothing.",
        query(f"sum by (model, bucket) (rate(stoker_tier_requests_total{{$m}}{RATE}))", "{{model}} {{bucket}}"),
        unit="reqps",
    ),
    line(
        "Run time of a batch",
        "Mean time of a batch by tier. aot that approaches eager: the cores are shared with somebody, or the "
        "artifact was compiled for another machine.",
        query(
            f"sum by (model, tier) (rate(stoker_execute_seconds_sum{{$m}}{RATE})) "
            f"/ sum by (model, tier) (rate(stoker_execute_seconds_count{{$m}}{RATE}))",
            "{{model}} {{tier}}",
        ),
        unit="s",
    ),
    line(
        "Requests and rows per batch",
        "Means. 1 request under load: batching doesn't happen; look at max_batch_size and the buckets.",
        query(
            f"sum by (model) (rate(stoker_batch_requests_sum{{$m}}{RATE})) / sum by (model) (rate(stoker_batch_requests_count{{$m}}{RATE}))",
            "{{model}} requests",
        ),
        query(
            f"sum by (model) (rate(stoker_batch_rows_sum{{$m}}{RATE})) / sum by (model) (rate(stoker_batch_rows_count{{$m}}{RATE}))",
            "{{model}} rows",
        ),
    ),
    line(
        "Padding",
        "Share of the elements that are only there to fill a bucket: time that is thrown away. Over a half: let "
        "`stokerctl buckets` propose others.",
        query(
            f"sum by (model) (rate(stoker_batch_padded_elements_total{{$m}}{RATE})) / "
            f"(sum by (model) (rate(stoker_batch_padded_elements_total{{$m}}{RATE})) "
            f"+ sum by (model) (rate(stoker_batch_useful_elements_total{{$m}}{RATE})))",
            "{{model}}",
        ),
        unit="percentunit",
        min=0,
        max=1,
    ),
    line(
        "Rows refused for their values",
        "Rows that got INVALID_ARGUMENT because of a value that the program can't take, such as a token id out of "
        "range. A rise: a client with another tokenizer or a broken encoder.",
        query(f"sum by (model) (rate(stoker_row_faults_total{{$m}}{RATE}))", "{{model}}"),
        unit="rowsps",
    ),
    line(
        "Memory of requests",
        "Bytes held by requests that aren't answered yet. Near --max-request-memory-mb: requests are refused with "
        "reason memory.",
        query("sum by (instance) (stoker_request_memory_bytes{$f})", "{{instance}}"),
        unit="bytes",
    ),
    line(
        "Weights",
        "Mapped weights by version; all buckets share them. Two versions at once, during a change, need room for both.",
        query("sum by (instance, model, version) (stoker_weights_bytes{$m})", "{{instance}} {{model}}:{{version}}"),
        unit="bytes",
    ),
)

COLD_START = dashboard(
    "stoker-cold-start",
    "Stoker / Cold start",
    "What a start waits for: phases, buckets, compiles and the kernel cache.",
    figure(
        "Launch to ready",
        "The slowest of the servers chosen. Seconds with a full cache; minutes mean that it compiled. Nothing here: "
        "none is ready yet.",
        now('max(stoker_startup_phase_seconds{$f, phase="ready"})', "ready"),
        unit="s",
        steps=[(None, GREEN), (60, ORANGE), (200, RED)],
    ),
    figure(
        "Servers not ready",
        "They listen and aren't ready. More than zero for longer than a warm-up takes: see the buckets below and "
        "`stokerctl status`.",
        now(
            'count(stoker_startup_phase_seconds{$f, phase="listening"}) '
            "- (count(stoker_ready_timestamp_seconds{$f} > 0) or vector(0))",
            "not ready",
        ),
        steps=[(None, GREEN), (1, ORANGE)],
    ),
    figure(
        "Ready for",
        "Time since the youngest server became ready. Small again and again: a restart loop.",
        now("time() - max(stoker_ready_timestamp_seconds{$f})", "ready for"),
        unit="s",
    ),
    figure(
        "Cache hit rate",
        "Share of lookups since the start that found an artifact. Below 1 on servers that were warmed: the cache is for "
        "another CPU, torch or program; `stokerctl plan` says which.",
        now(
            '(sum(stoker_cache_requests_total{$f, result="hit"}) or vector(0)) / sum(stoker_cache_requests_total{$f})',
            "hits",
        ),
        unit="percentunit",
        steps=[(None, RED), (0.5, ORANGE), (1, GREEN)],
    ),
    figure(
        "Compiles after ready",
        "Compiles that started while a server was ready: they take cores from requests. Should be 0 on servers with "
        "a warmed cache; expected with `ready_when: eager`.",
        now("sum(stoker_compiles_after_ready_total{$f}) or vector(0)", "compiles"),
        steps=[(None, GREEN), (1, ORANGE)],
    ),
    figure(
        "Caches not writable",
        "Servers that can't write their cache: what they compile is lost with the process. Check the mount, its owner "
        "and the space.",
        now("count(stoker_cache_writable{$f}) - sum(stoker_cache_writable{$f})", "not writable"),
        steps=[(None, GREEN), (1, RED)],
    ),
    bars(
        "Start-up phases",
        "Seconds from launch to the end of each phase. runtime: loading the libraries; seconds mean a slow disk. "
        "listening: the port is open. ready: all buckets are settled.",
        now("max by (instance, phase) (stoker_startup_phase_seconds{$f})", "{{instance}} {{phase}}"),
        unit="s",
    ),
    stacked(
        "Buckets by state",
        "pending, compiling, opening, checking, then compiled or eager. eager at the end: compiling failed or wasn't "
        "worth it; see Fallbacks. compiling that doesn't end: see the compile queue.",
        query("sum by (state) (stoker_bucket_state{$m})", "{{state}}"),
    ),
    line(
        "Warm-up",
        "Share of a version's buckets that are settled. A line that stays below 1: a compile hangs or waits.",
        query(
            'sum by (model, version, instance) (stoker_warmup_buckets{$m, progress="settled"}) '
            '/ sum by (model, version, instance) (stoker_warmup_buckets{$m, progress="total"})',
            "{{model}}:{{version}} {{instance}}",
        ),
        unit="percentunit",
        min=0,
        max=1,
    ),
    stacked(
        "Versions by state",
        "failed: not served; the log has the reason. loading or warming for long: a cold cache or a slow disk.",
        query("sum by (state) (stoker_model_state{$m})", "{{state}}"),
    ),
    bars(
        "Compile seconds by phase",
        "What compiling has cost since the start, by phase. build (the C++ compiler) leads as a rule; load leading "
        "means a slow disk under Python.",
        now("sum by (phase) (stoker_compile_phase_seconds_sum{$f})", "{{phase}}"),
        unit="s",
    ),
    bars(
        "Compile jobs by outcome",
        "Since the start. timeout and memory: raise --compile-timeout-seconds or --compile-memory-mb. crashed, failed, "
        "refused: the log has the compiler's words. Each costs a bucket on eager, not an outage.",
        now("sum by (outcome) (stoker_compile_seconds_count{$f})", "{{outcome}}"),
    ),
    line(
        "Compile queue",
        "waiting for long: raise --compile-jobs, or warm elsewhere. parked: failed repeatedly, not tried for a while.",
        query("sum by (state) (stoker_compile_queue_length{$f})", "{{state}}"),
    ),
    line(
        "Starts of the compile worker",
        "Since the start. One is usual. A rising line: compiles crash it; see the outcomes.",
        query("sum by (instance) (stoker_compile_worker_starts_total{$f})", "{{instance}}"),
    ),
    bars(
        "Cache lookups by layer and result",
        "Since the start. miss on a frozen server: the wrong cache was deployed. damaged: a disk or a copy changed "
        "files; `stokerctl cache verify`. lower: a read-only layer, such as a pulled pack.",
        now("sum by (layer, result) (stoker_cache_requests_total{$f})", "{{layer}} {{result}}"),
    ),
    line(
        "Cache commits",
        "Artifacts stored since the start. failed: most often a full disk; the compile is lost with the process.",
        query("sum by (result) (stoker_cache_commits_total{$f})", "{{result}}"),
    ),
    line(
        "Cache size",
        "Bytes of the upper folder's entries, and of all else in it. Near --cache-max-mb together, things go; near the "
        "volume's size, set that option.",
        query("sum by (instance) (stoker_cache_bytes{$f})", "{{instance}} entries"),
        query("sum by (instance) (stoker_cache_other_bytes{$f})", "{{instance}} other"),
        unit="bytes",
    ),
    line(
        "Cache entries",
        "Entries of the upper folder. Growing with each start: keys change each time (another CPU, thread count or "
        "compiler); `stokerctl cache diff` compares two.",
        query("sum by (instance) (stoker_cache_entries{$f})", "{{instance}}"),
    ),
    line(
        "Time to open an artifact",
        "Mean since the start, weights bound. Milliseconds are usual; seconds mean a network disk.",
        query(
            "sum by (instance) (stoker_artifact_open_seconds_sum{$f}) / sum by (instance) (stoker_artifact_open_seconds_count{$f})",
            "{{instance}}",
        ),
        unit="s",
    ),
    bars(
        "Promotions",
        "Decisions about compiled candidates since the start. parity: compiled answers differ from eager, tell the "
        "model's author. profit: not faster, eager stays. open, compile: see the log.",
        now("sum by (outcome) (stoker_promotions_total{$m})", "{{outcome}}"),
    ),
    bars(
        "Fallbacks",
        "Buckets left on eager since the start, by reason. no_compiler on a frozen server: an artifact is missing. "
        "compile, timeout, memory, open, run: faults to look into. profit: the system at work.",
        now("sum by (model, reason) (stoker_fallbacks_total{$m})", "{{model}} {{reason}}"),
    ),
)

ECONOMICS = dashboard(
    "stoker-economics",
    "Stoker / Economics",
    "What compiling costs and what it saves.",
    figure(
        "Compile seconds spent",
        "What the artifacts in use took to compile, each counted once. Large against the saving: fewer buckets; "
        "`stokerctl buckets`.",
        now("sum(max by (model, version, bucket) (stoker_bucket_compile_seconds{$m}))", "spent"),
        unit="s",
        width=6,
    ),
    figure(
        "Run time saved",
        "What eager would have taken longer for the batches run so far, over all servers since their start. Flat under "
        "traffic: compiled code isn't used.",
        now("sum(stoker_saved_seconds_total{$m})", "saved"),
        unit="s",
        width=6,
    ),
    figure(
        "Compiles avoided",
        "What compiling the artifacts that were found in caches had taken: start-up time that the cache saved. 0 with "
        "several servers: they share no cache and each compiles.",
        now("sum(stoker_compile_seconds_saved_total{$f})", "avoided"),
        unit="s",
        width=6,
    ),
    figure(
        "Saved over spent",
        "Below 1: compiling hasn't paid for itself yet. Below 1 after days: too little traffic for so many buckets.",
        now(
            "sum(stoker_saved_seconds_total{$m}) / sum(max by (model, version, bucket) (stoker_bucket_compile_seconds{$m}))",
            "ratio",
        ),
        width=6,
        steps=[(None, ORANGE), (1, GREEN)],
        decimals=2,
    ),
    line(
        "Saving rate",
        "Seconds of run time saved per second, by model: cores that eager would need on top. Falling under the same "
        "traffic: buckets lost their artifacts.",
        query(f"sum by (model) (rate(stoker_saved_seconds_total{{$m}}{RATE}))", "{{model}}"),
    ),
    bars(
        "Speed-up by bucket",
        "Eager over compiled run time, as the profit check measured it. Near 1: the bucket is hardly worth its "
        "compile. What isn't faster doesn't serve.",
        now("min by (model, version, bucket) (stoker_speedup_ratio{$m})", "{{model}}:{{version}} {{bucket}}"),
        decimals=2,
        min=0,
        steps=[(None, RED), (1, ORANGE), (1.1, GREEN)],
    ),
    bars(
        "Compile seconds by bucket",
        "What each artifact took to compile, here or elsewhere. One that takes far longer than the others delays every "
        "cold start.",
        now(
            "max by (model, version, bucket) (stoker_bucket_compile_seconds{$m})", "{{model}}:{{version}} {{bucket}}"
        ),
        unit="s",
    ),
    bars(
        "Run time saved by bucket",
        "Since the start, over all servers. 0: no traffic in that bucket; leave it out of model.yaml.",
        now("sum by (model, version, bucket) (stoker_saved_seconds_total{$m})", "{{model}}:{{version}} {{bucket}}"),
        unit="s",
    ),
    bars(
        "Runs to break even by bucket",
        "Compiled runs after which the compile has paid for itself. Compare with the runs that the bucket gets in the "
        "life of a version: more than that, and the bucket costs more than it saves.",
        now("max by (model, version, bucket) (stoker_break_even_runs{$m})", "{{model}}:{{version}} {{bucket}}"),
    ),
    bars(
        "Paid back by bucket",
        "Saved over spent. Buckets that stay near 0 are candidates to go.",
        now(
            "sum by (model, version, bucket) (stoker_saved_seconds_total{$m}) "
            "/ max by (model, version, bucket) (stoker_bucket_compile_seconds{$m})",
            "{{model}}:{{version}} {{bucket}}",
        ),
        unit="percentunit",
        steps=[(None, ORANGE), (1, GREEN)],
    ),
    bars(
        "Largest difference from eager by bucket",
        "From the parity check. Close to the tolerance of model.yaml: the next compiler may be refused.",
        now(
            "max by (model, version, bucket) (stoker_parity_max_abs_error{$m})", "{{model}}:{{version}} {{bucket}}"
        ),
        unit="sci",
    ),
)

DEVICE = dashboard(
    "stoker-device",
    "Stoker / Device",
    "GPUs that serve: memory, work, copies and CUDA graphs.",
    figure(
        "Least free memory",
        "Of the GPUs chosen. Under 1 GiB: the next version may be refused for want of room, and large batches may fail "
        "with RESOURCE_EXHAUSTED.",
        now("min(stoker_gpu_free_bytes{$f})", "free"),
        unit="bytes",
        steps=[(None, RED), (1 << 30, ORANGE), (4 << 30, GREEN)],
    ),
    figure(
        "Busy",
        "Share of the last second in which a kernel ran, mean of the GPUs chosen. Near 1 with a queue that grows: more "
        "GPUs. Near 0 under load: copies, the network or the processor are in the way.",
        now("avg(stoker_gpu_busy_ratio{$f})", "busy"),
        unit="percentunit",
    ),
    figure(
        "Power",
        "What the GPUs chosen draw. At the card's limit for long: it lowers its clocks, and run times grow.",
        now("sum(stoker_gpu_power_watts{$f})", "power"),
        unit="watt",
    ),
    figure(
        "Served by graphs",
        "Share of requests that a CUDA graph answered. Less than the compiled share on a GPU: graphs were refused or "
        "lost; see Graph captures.",
        now(
            f'sum(rate(stoker_tier_requests_total{{$m, tier="graph"}}{RATE})) '
            f"/ sum(rate(stoker_tier_requests_total{{$m}}{RATE}))",
            "graph",
        ),
        unit="percentunit",
    ),
    figure(
        "Graphs kept",
        "Captures since the start that were kept. 0 on a GPU: none gained enough, or something is in their way; see "
        "Graph captures.",
        now('sum(stoker_graph_captures_total{$m, outcome="kept"})', "kept"),
    ),
    figure(
        "Memory of graphs",
        "Device memory of all graphs. Near the sum of what model.yaml allows (`graphs: {memory_mb: ...}`): further "
        "buckets get none.",
        now("sum(stoker_graph_bytes{$m})", "graphs"),
        unit="bytes",
    ),
    stacked(
        "Memory by use",
        "What models hold on each device. eager: its own copy of the weights where it writes in place, which goes "
        "when all buckets are compiled; one that stays is a bucket on eager. Two versions at once, during a change, "
        "need room for both.",
        query("sum by (instance, device, use) (stoker_gpu_memory_bytes{$f})", "{{instance}} {{device}} {{use}}"),
        unit="bytes",
    ),
    line(
        "Free memory",
        "As the driver says, so less than the card's size minus what models hold: contexts, workspaces and other "
        "processes take the rest. Falling under the same models: somebody else uses the GPU.",
        query("min by (instance, device) (stoker_gpu_free_bytes{$f})", "{{instance}} {{device}}"),
        unit="bytes",
        min=0,
    ),
    line(
        "Busy by device",
        "Share of each second in which a kernel ran. One device far below the others: its server gets less traffic, or "
        "waits for something else.",
        query("avg by (instance, device) (stoker_gpu_busy_ratio{$f})", "{{instance}} {{device}}"),
        unit="percentunit",
        min=0,
        max=1,
    ),
    line(
        "Power by device",
        "A device that draws little while it is busy runs kernels that wait for memory; one at its limit is throttled.",
        query("avg by (instance, device) (stoker_gpu_power_watts{$f})", "{{instance}} {{device}}"),
        unit="watt",
        min=0,
    ),
    line(
        "Copies",
        "Bytes a second between host and device. to_device jumps when a version's weights are loaded. Near what the "
        "bus does (PCIe 4.0 x16: 25 GB/s): inputs or answers are too large for it.",
        query(
            f"sum by (instance, device, direction) (rate(stoker_gpu_copied_bytes_total{{$f}}{RATE}))",
            "{{instance}} {{device}} {{direction}}",
        ),
        unit="Bps",
    ),
    bars(
        "Graph captures",
        "Since the start, by what became of them. gain: not faster, the system at work. memory, budget, count: "
        "model.yaml's `graphs`, or the device is full. unfit: the program can't be captured. failed: see the log.",
        now("sum by (model, outcome) (stoker_graph_captures_total{$m})", "{{model}} {{outcome}}"),
    ),
    line(
        "Time to capture a graph",
        "Mean since the start, on one device thread, its check included. Seconds: the check's runs wait for traffic.",
        query(
            "sum by (instance, model) (stoker_graph_capture_seconds_sum{$m}) "
            "/ sum by (instance, model) (stoker_graph_capture_seconds_count{$m})",
            "{{instance}} {{model}}",
        ),
        unit="s",
    ),
    bars(
        "Memory of graphs by bucket",
        "Device memory of a bucket's graphs, on all device threads. A bucket with little traffic and much of it: leave "
        "it out of model.yaml.",
        now("max by (model, version, bucket) (stoker_graph_bytes{$m})", "{{model}}:{{version}} {{bucket}}"),
        unit="bytes",
    ),
)

DASHBOARDS = {"overview": OVERVIEW, "cold-start": COLD_START, "economics": ECONOMICS, "device": DEVICE}


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the dashboards.")
    parser.add_argument("--check", action="store_true", help="only say which file differs")
    check = parser.parse_args().check
    stale = 0
    for name, content in DASHBOARDS.items():
        path = FOLDER / f"{name}.json"
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path} differs from what {Path(__file__).name} writes", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
