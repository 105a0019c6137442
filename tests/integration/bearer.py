"""Bearer tokens: their hashes, for a policy, and the header that shows one."""

from __future__ import annotations

import hashlib


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}
