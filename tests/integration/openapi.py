"""What proto/openapi.json says can be asked for, with a model "mlp" to ask about."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.integration.daemon import REPO

SPEC = json.loads((REPO / "proto/openapi.json").read_text())
PATHS: dict[str, dict[str, Any]] = SPEC["paths"]
NAMES = {"model": "mlp", "version": "1", "region": "none"}
DATA = {"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [0.5] * 16}
BODIES = {"infer": {"inputs": [DATA]}, "register": {"key": "/stoker_no_such_file", "byte_size": 64}}


def concrete(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: NAMES[found[1]], path)


def body_for(path: str, verb: str) -> bytes | None:
    last = path.rsplit("/", 1)[-1]
    if "requestBody" in PATHS[path][verb]:
        return json.dumps(BODIES.get(last, {})).encode()
    return b"" if verb == "post" else None


# Unloaded last: the others need the model.
ASKED = sorted(((path, verb) for path in PATHS for verb in PATHS[path]), key=lambda one: "unload" in one[0])
