"""An identity provider for tests: keys of each kind, signed tokens (JWT), and the key set that it publishes (JWKS), all
made by the openssl command line."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

ISSUER = "https://id.example.com/"
AUDIENCE = "stoker"
KINDS = {
    "RS256": ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
    "PS256": ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
    "ES256": ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "EdDSA": ["ED25519"],
}


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _openssl(*arguments: str | Path, text: bytes = b"") -> bytes:
    command = ["openssl", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, timeout=60, input=text).stdout


def _numbers(der: bytes) -> bytes:
    """The two numbers of an ECDSA signature, of 32 bytes each, out of ASN.1's SEQUENCE of two INTEGERs."""
    numbers, at = b"", 2
    for _ in range(2):
        size = der[at + 1]
        numbers += der[at + 2 : at + 2 + size].lstrip(b"\0").rjust(32, b"\0")
        at += 2 + size
    return numbers


class Provider:
    """Its keys are named after their algorithms, unless `kid` says otherwise."""

    def __init__(self, folder: Path, *algorithms: str, kid: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._kid = kid
        self.algorithms = algorithms or tuple(KINDS)
        for algorithm in self.algorithms:
            _openssl("genpkey", "-algorithm", *KINDS[algorithm], "-out", self._key(algorithm))

    def _key(self, algorithm: str) -> Path:
        return self._folder / f"{algorithm}.pem"

    def kid(self, algorithm: str) -> str:
        return self._kid or algorithm

    def jwk(self, algorithm: str) -> dict[str, str]:
        der = _openssl("pkey", "-in", self._key(algorithm), "-pubout", "-outform", "DER")
        named = {"kid": self.kid(algorithm), "use": "sig", "alg": algorithm}
        if algorithm == "EdDSA":
            return {"kty": "OKP", "crv": "Ed25519", "x": base64url(der[-32:]), **named}
        if algorithm == "ES256":
            return {"kty": "EC", "crv": "P-256", "x": base64url(der[-64:-32]), "y": base64url(der[-32:]), **named}
        shown = _openssl("rsa", "-in", self._key(algorithm), "-noout", "-modulus").decode()
        modulus = bytes.fromhex(shown.strip().split("=")[1])
        return {"kty": "RSA", "n": base64url(modulus), "e": "AQAB", **named}

    def jwks(self) -> dict[str, list[dict[str, str]]]:
        return {"keys": [self.jwk(algorithm) for algorithm in self.algorithms]}

    def _sign(self, algorithm: str, text: bytes) -> bytes:
        key = self._key(algorithm)
        if algorithm == "EdDSA":
            message = self._folder / "message"  # of Ed25519 openssl wants a file
            message.write_bytes(text)
            return _openssl("pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", message)
        pss = ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:digest"]
        signed = _openssl("dgst", "-sha256", *(pss if algorithm == "PS256" else []), "-sign", key, text=text)
        return _numbers(signed) if algorithm == "ES256" else signed

    def token(self, algorithm: str = "ES256", seconds: float = 300, **claims: object) -> str:
        """Good for so long, with these claims besides what all have."""
        header: Mapping[str, object] = {"alg": algorithm, "typ": "JWT", "kid": self.kid(algorithm)}
        body = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time() + seconds), **claims}
        text = ".".join(base64url(json.dumps(part).encode()) for part in (header, body))
        return f"{text}.{base64url(self._sign(algorithm, text.encode()))}"
