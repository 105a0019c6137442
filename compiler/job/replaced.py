"""How Inductor is changed from outside: an attribute is another one for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any


@contextlib.contextmanager
def replaced(owner: type | ModuleType, name: str, replacement: Any) -> Iterator[None]:
    """Within, the attribute is another one."""
    original = owner.__dict__[name]
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)
