"""What users would run instead of Stoker, on the same model, machine and client.

README.md beside this file says how to run it and how to read its table.
"""

from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
