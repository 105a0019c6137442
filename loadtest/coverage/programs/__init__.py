"""The 163 programs, by the library they come from."""

from __future__ import annotations

import importlib
from itertools import chain

from loadtest.coverage.program import by_name

SOURCES = (
    "timm_models",
    "torchvision_models",
    "transformers_models",
    "diffusers_models",
    "torchaudio_models",
    "classic_sequences",
    "classic_images",
    "classic_tables_and_graphs",
)
PROGRAMS = by_name(
    chain.from_iterable(importlib.import_module(f"{__name__}.{source}").programs() for source in SOURCES)
)
