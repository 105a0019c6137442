"""Certificates for tests, made by the openssl command line."""

from __future__ import annotations

import subprocess
from pathlib import Path


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


class Authority:
    """Signs certificates; its own is in `certificate`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.certificate,
        )  # fmt: skip

    def sign(self, name: str, alternatives: str, *, expired: bool = False, rsa: bool = False) -> tuple[Path, Path]:
        """The files of a certificate with these alternative names, such as "DNS:a,URI:spiffe://b", and of its key."""
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        kind = ["rsa:2048"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        _openssl(
            "req", "-new", "-newkey", *kind, "-nodes",
            "-subj", f"/CN={name}", "-keyout", key, "-out", request,
        )  # fmt: skip
        extensions.write_text(f"subjectAltName={alternatives}\n")
        # A negative number of days ends before today.
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial",
            "-days", "-1" if expired else "2", "-extfile", extensions, "-out", certificate,
        )  # fmt: skip
        key.chmod(0o600)
        return certificate, key
