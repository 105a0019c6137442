"""A real Prometheus that scrapes real daemons, on free ports of loopback, ended by process id."""

from __future__ import annotations

import json
import math
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

from loadtest.servers.process import ServerProcess, free_ports
from tests.deploy import tools


class Prometheus(ServerProcess):
    """Scrapes `targets` every second. Use as a context manager."""

    def __init__(self, folder: Path, targets: list[str], rules: Path) -> None:
        program = tools.of_package("prometheus", "prometheus")
        config = {  # JSON is YAML
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "stoker", "static_configs": [{"targets": targets}]}],
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(json.dumps(config))
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        command = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.address}",
        ]
        super().__init__(command, folder / "log", grace_seconds=0)

    def __enter__(self) -> Self:
        try:
            self.until(self.ready, 60, "Prometheus is ready")
        except BaseException:
            self.close()
            raise
        return self

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def get(self, path: str, **parameters: str) -> Any:
        """The `data` of an answer of the HTTP API."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def values(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """What an expression is now, NaN left out."""
        result = self.get("query", query=expression, time=str(time.time()))["result"]
        samples = [(sample["metric"], float(sample["value"][1])) for sample in result]
        return [(labels, value) for labels, value in samples if not math.isnan(value)]

    def label_values(self, definition: str) -> list[str]:
        """Grafana's label_values(selector, label)."""
        match = re.fullmatch(r"label_values\((.+),\s*(\w+)\)", definition)
        assert match, definition
        return self.get(f"label/{match[2]}/values", **{"match[]": match[1]})
