"""Checks custom resources against the definitions of their kinds, and prints what doesn't fit.

    kinds_schema.py FOLDER OBJECTS.yaml...

FOLDER holds the definitions (CustomResourceDefinitions). A field that isn't defined is an error, as for
`kubectl apply --validate=strict`. Runs with the Python of tests/deploy/install.sh: exit code 0 when
everything fits.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator


def closed(schema: Any) -> Any:
    """The schema with every object's fields being all that it may have."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: closed(value) for key, value in schema.items()}
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and not open_ended:
        strict["additionalProperties"] = False
    return strict


def schemas(folder: Path) -> dict[tuple[str, str], Any]:
    """By apiVersion and kind."""
    found = {}
    for path in folder.glob("*.yaml"):
        spec = yaml.safe_load(path.read_text())["spec"]
        for version in spec["versions"]:
            schema = closed(version["schema"]["openAPIV3Schema"])
            schema["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {"type": "object"}}
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def main() -> int:
    known = schemas(Path(sys.argv[1]))
    wrong = 0
    for path in sys.argv[2:]:
        for document in yaml.safe_load_all(Path(path).read_text()):
            who = (document["apiVersion"], document["kind"])
            if who not in known:
                print(f"{path}: no definition of {who}")
                wrong = 1
                continue
            for error in Draft202012Validator(known[who]).iter_errors(document):
                print(f"{path}: {document['kind']}: {error.json_path}: {error.message[:500]}")
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
