"""Ten models of different kinds, each served eager and as Stoker decides, and compared."""

from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
