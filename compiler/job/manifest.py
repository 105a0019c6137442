"""The manifest of an artifact: what was built, from what, and what it must be given."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

SCHEMA = 1
NAME = "manifest.json"


def file_record(path: Path) -> dict[str, Any]:
    """Size and checksum of one file of the artifact."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return {"bytes": file.tell(), "sha256": digest.hexdigest()}


def write_manifest(folder: Path, fields: dict[str, Any]) -> None:
    """Writes manifest.json, which lists every other file that lies in `folder`."""
    files = {path.name: file_record(path) for path in sorted(folder.iterdir()) if path.name != NAME}
    content = {"schema": SCHEMA, "files": files, **fields}
    (folder / NAME).write_text(json.dumps(content, indent=1) + "\n")
