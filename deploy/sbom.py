"""Writes down what a Debian package or an image of Stoker consists of, as SPDX 2.3 in JSON.

    sbom.py --name NAME --version VERSION --commit COMMIT --file ARTIFACT --status DPKG_STATUS
            [--depends "libc6, libssl3, ..."] --output FILE.spdx.json

The Debian packages are those of the status file (/var/lib/dpkg/status of the image, or of the host that the
package was built on): all of it, or with --depends these and what they depend on. Added by hand is what
dpkg doesn't know: torch's libraries, which come from the wheels of deploy/requirements.lock, and the
libraries of which only headers were compiled in. Dates and names follow from SOURCE_DATE_EPOCH and the
contents: the same artifact gets the same document. Runs with the Python of deploy/release.sh.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from spdx_tools.spdx.model import (
    Actor,
    ActorType,
    Checksum,
    ChecksumAlgorithm,
    CreationInfo,
    Document,
    ExternalPackageRef,
    ExternalPackageRefCategory,
    Package,
    Relationship,
    RelationshipType,
    SpdxNoAssertion,
)
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
from spdx_tools.spdx.writer.write_anything import write_file

LOCK = Path(__file__).resolve().parent / "requirements.lock"
LLHTTP_LOCK = Path(__file__).resolve().parent / "llhttp.lock"
# The wheels that deploy/packages/torch_libraries.sh takes libraries from.
WHEELS = ("torch", "nvidia-cuda-runtime", "nvidia-cuda-cupti")
# Debian's packages of which the daemon holds a copy, compiled in.
HEADERS = ("libcli11-dev", "nlohmann-json3-dev")
ROOT = "SPDXRef-Artifact"


class Installed(NamedTuple):
    """One package of dpkg's status."""

    name: str
    version: str
    architecture: str
    maintainer: str
    depends: str
    provides: str  # names that it also answers to


def read_status(path: Path) -> dict[str, Installed]:
    found = {}
    for paragraph in path.read_text(errors="replace").split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): *(.*(?:\n[ \t].*)*)", paragraph, re.M))
        if fields.get("Status", "").endswith(" installed"):
            depends = ", ".join(fields[name] for name in ("Depends", "Pre-Depends") if name in fields)
            found[fields["Package"]] = Installed(
                fields["Package"], fields["Version"], fields["Architecture"], fields["Maintainer"], depends,
                fields.get("Provides", ""),
            )  # fmt: skip
    return found


def names(depends: str) -> list[str]:
    """Of "libc6 (>= 2.34), a | b": libc6, a, b."""
    return [re.split(r"[ (:]", each.strip())[0] for each in re.split(r"[,|]", depends) if each.strip()]


def closure(depends: str, installed: dict[str, Installed]) -> dict[str, Installed]:
    providers: dict[str, list[Installed]] = {}
    for each in installed.values():
        for name in {each.name, *names(each.provides)}:
            providers.setdefault(name, []).append(each)
    chosen: dict[str, Installed] = {}
    pending = names(depends)
    while pending:
        for each in providers.get(pending.pop(), []):
            if each.name not in chosen:
                chosen[each.name] = each
                pending += names(each.depends)
    return chosen


def identifier(*parts: str) -> str:
    return "SPDXRef-" + "-".join(re.sub(r"[^A-Za-z0-9.-]", "-", part) for part in parts)


def package(spdx_id: str, name: str, version: str, url: str | None = None, supplier: Actor | None = None) -> Package:
    references = []
    if url:
        references = [ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", url)]
    return Package(
        spdx_id=spdx_id, name=name, version=version, download_location=SpdxNoAssertion(), files_analyzed=False,
        supplier=supplier or SpdxNoAssertion(), external_references=references,
    )  # fmt: skip


def debian(each: Installed) -> Package:
    name, _, address = each.maintainer.partition(" <")
    supplier = Actor(ActorType.ORGANIZATION, name, address.rstrip(">") or None)
    url = f"pkg:deb/debian/{each.name}@{each.version.replace(':', '%3A')}?arch={each.architecture}"
    return package(identifier("deb", each.name), each.name, each.version, url, supplier)


def wheel(name: str) -> Package:
    locked = re.search(rf"^{re.escape(name)}==(\S+)", LOCK.read_text(), re.M)
    if locked is None:
        sys.exit(f"sbom.py: expected {name}==VERSION in {LOCK}, found none")
    return package(identifier("pypi", name), name, locked[1], f"pkg:pypi/{name}@{locked[1]}")


def llhttp() -> Package:
    """Compiled in, from the source archive of another package that carries it."""
    stated = re.search(r"takes llhttp (\S+) from", LLHTTP_LOCK.read_text())
    if stated is None:
        sys.exit(f"sbom.py: expected the version of llhttp in {LLHTTP_LOCK}, found none")
    return package(identifier("source", "llhttp"), "llhttp", stated[1], f"pkg:npm/llhttp@{stated[1]}")


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(arguments: argparse.Namespace) -> Document:
    installed = read_status(arguments.status)
    linked = installed if arguments.depends is None else closure(arguments.depends, installed)
    digest = sha256(arguments.file)
    root = package(ROOT, arguments.name, arguments.version)
    root.file_name = arguments.file.name
    root.checksums = [Checksum(ChecksumAlgorithm.SHA256, digest)]
    root.source_info = f"commit {arguments.commit}"
    # The build host's status has the headers; an image's hasn't.
    host = read_status(Path("/var/lib/dpkg/status"))
    missing = [name for name in HEADERS if name not in host]
    if missing:
        sys.exit(f"sbom.py: expected the packages {', '.join(missing)} on the build host, found them missing")
    parts = [(debian(linked[name]), RelationshipType.CONTAINS) for name in sorted(linked)]
    if arguments.depends is not None:
        parts = [(each, RelationshipType.DEPENDS_ON) for each, _ in parts]
    parts += [(wheel(name), RelationshipType.CONTAINS) for name in WHEELS]
    parts += [(debian(host[name]), RelationshipType.STATIC_LINK) for name in HEADERS if name not in linked]
    parts.append((llhttp(), RelationshipType.STATIC_LINK))
    made = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC).replace(tzinfo=None)
    info = CreationInfo(
        spdx_version="SPDX-2.3", spdx_id="SPDXRef-DOCUMENT", name=f"{arguments.name}-{arguments.version}",
        document_namespace=f"https://stoker.invalid/spdx/{arguments.file.name}-{digest}",
        creators=[Actor(ActorType.TOOL, "stoker-sbom")], created=made,
    )  # fmt: skip
    relationships = [Relationship("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, ROOT)]
    relationships += [Relationship(ROOT, how, each.spdx_id) for each, how in parts]
    return Document(info, packages=[root, *(each for each, _ in parts)], relationships=relationships)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("--name", "--version", "--commit"):
        parser.add_argument(name, required=True)
    for name in ("--file", "--status", "--output"):
        parser.add_argument(name, required=True, type=Path)
    parser.add_argument("--depends")
    arguments = parser.parse_args()
    document = describe(arguments)
    for message in validate_full_spdx_document(document):
        sys.exit(f"sbom.py: {message.validation_message}")
    write_file(document, str(arguments.output), validate=False)


if __name__ == "__main__":
    main()
