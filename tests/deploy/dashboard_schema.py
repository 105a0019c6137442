"""Reads dashboards into Grafana's own types, writes them again, and prints what was lost or changed.

A field that is misspelt, or that a panel of its type doesn't have, is lost on the way. Runs with the
Python of tests/deploy/install.sh: exit code 0 when every file comes back as it was.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard


def differences(before: Any, after: Any, where: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in after:
                yield from differences(value, after[key], f"{where}.{key}")
            elif value not in (None, [], {}, ""):  # the encoder leaves out what is empty
                yield f"{where}.{key} is not in the schema"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif before != after:
        yield f"{where}: {before!r} became {after!r}"


def main() -> int:
    plugins.register_default_plugins()
    wrong = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            before = json.load(file)
        after = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(before)))
        for line in differences(before, after, path):
            print(line)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
