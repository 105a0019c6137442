"""A pack travels through a real registry and comes back as it was, or not at all."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.integration.daemon import STOKERCTL

TAG = "v1"


def skopeo_copy(source: str, target: str, *flags: str) -> None:
    command = ["skopeo", "--insecure-policy", "copy", *flags]
    command += ["--src-tls-verify=false", "--dest-tls-verify=false", source, target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def ctl(cache: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(STOKERCTL), "--cache", str(cache), "cache", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def write_entry(cache: Path, bucket: str) -> str:
    """Writes what a compile leaves in a kernel cache; the key."""
    factors = {"cpu.march": "x86-64-v3", "device": "cpu", "graph": "9a3f", "size.s0": bucket, "torch": "2.11.0"}
    canonical = json.dumps(factors, sort_keys=True, separators=(",", ":"))
    key = hashlib.sha256(canonical.encode()).hexdigest()
    folder = cache / "v1/entries" / key[:2] / key
    folder.mkdir(parents=True, mode=0o700)
    # Compresses well, so that a copy that may compress will.
    code = f"machine code for {bucket}".encode() * 20_000
    (folder / "model.so").write_bytes(code)
    files = {"model.so": {"bytes": len(code), "sha256": hashlib.sha256(code).hexdigest()}}
    description = {"model": "made:1", "bucket": f"batch={bucket}", "factors": factors, "seconds": 7.5}
    manifest = json.dumps({"schema": 1, "key": key, "files": files, **description}, indent=1)
    (folder / "manifest.json").write_text(manifest)
    seal = hashlib.sha256(manifest.encode()).hexdigest()
    (folder / "manifest.sha256").write_text(f"{seal}  manifest.json\n")
    note = cache / "v1/notes" / key / "verdict-1.json"
    note.parent.mkdir(parents=True)
    note.write_text('{"promote": true}')
    return key


def content(root: Path) -> dict[str, bytes]:
    """Every file of the entries and notes of a cache or an unpacked pack."""
    parts = (root / "v1/entries", root / "v1/notes")
    files = [file for part in parts for file in part.rglob("*") if file.is_file()]
    return {str(file.relative_to(root)): file.read_bytes() for file in files}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A kernel cache with three entries."""
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    (root / "v1").mkdir(mode=0o700)
    for bucket in ("1", "8", "32"):
        write_entry(root, bucket)
    return root


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """A signing key and the public key that trusts it."""
    private, public = tmp_path / "signing.pem", tmp_path / "trusted.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    private.chmod(0o600)
    return private, public


@pytest.fixture
def layout(tmp_path: Path, cache: Path, keys: tuple[Path, Path]) -> Path:
    """A signed pack of the cache as an OCI layout."""
    folder = tmp_path / "layout"
    done = ctl(cache, "export", "--sign", keys[0], "--oci", folder, "--tag", TAG)
    assert done.returncode == 0, done.stderr
    return folder


def blob_of(layout: Path, descriptor: dict[str, str]) -> Path:
    return layout / "blobs/sha256" / descriptor["digest"].removeprefix("sha256:")


def pack_of(layout: Path) -> Path:
    tagged = json.loads((layout / "index.json").read_text())["manifests"][0]
    return blob_of(layout, json.loads(blob_of(layout, tagged).read_text())["layers"][0])


def test_a_pack_comes_back_as_it_was(
    registry: str, layout: Path, cache: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    image = f"docker://{registry}/kernels/made:{TAG}"
    skopeo_copy(f"oci:{layout}:{TAG}", image, "--preserve-digests")
    skopeo_copy(image, f"oci:{tmp_path / 'pulled'}:{TAG}", "--preserve-digests")
    assert pack_of(tmp_path / "pulled").read_bytes() == pack_of(layout).read_bytes()

    done = ctl(tmp_path / "new", "import", "--trust", keys[1], "--oci", tmp_path / "pulled", "--tag", TAG)
    assert done.returncode == 0, done.stderr
    assert len(content(cache)) == 3 * 4
    assert content(tmp_path / "new") == content(cache)


def test_its_layer_is_a_cache_folder(layout: Path, cache: Path, tmp_path: Path) -> None:
    """What a container runtime unpacks when it mounts the pack as an image volume."""
    with tarfile.open(pack_of(layout)) as layer:
        layer.extractall(tmp_path / "mounted")
    assert content(tmp_path / "mounted") == content(cache)


def test_registries_show_what_it_fits(registry: str, layout: Path) -> None:
    image = f"docker://{registry}/kernels/shown:{TAG}"
    skopeo_copy(f"oci:{layout}:{TAG}", image, "--preserve-digests")
    command = ["skopeo", "inspect", "--raw", "--tls-verify=false", image]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    manifest = json.loads(shown.stdout)
    assert manifest["artifactType"] == "application/vnd.stoker.kernel-pack.v1"
    hardware = json.loads(manifest["annotations"]["stoker.kernel-pack.hardware"])
    assert hardware == {"cpu.march": ["x86-64-v3"], "device": ["cpu"], "torch": ["2.11.0"]}


def test_a_copy_that_was_changed_is_refused(
    registry: str, layout: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    image = f"docker://{registry}/kernels/changed:{TAG}"
    skopeo_copy(f"oci:{layout}:{TAG}", image, "--preserve-digests")
    pulled = tmp_path / "pulled"
    skopeo_copy(image, f"oci:{pulled}:{TAG}", "--preserve-digests")
    pack = bytearray(pack_of(pulled).read_bytes())
    pack[len(pack) // 2] ^= 1
    pack_of(pulled).write_bytes(pack)

    done = ctl(tmp_path / "new", "import", "--trust", keys[1], "--oci", pulled, "--tag", TAG)
    assert done.returncode != 0
    assert "expected SHA-256" in done.stderr
    assert content(tmp_path / "new") == {}


def test_a_signer_nobody_trusts_is_refused(layout: Path, cache: Path, tmp_path: Path) -> None:
    done = ctl(tmp_path / "new", "import", "--oci", layout, "--tag", TAG)
    assert done.returncode != 0
    assert "signed by unknown key" in done.stderr
    assert content(tmp_path / "new") == {}
    done = ctl(tmp_path / "new", "import", "--allow-unsigned", "--oci", layout, "--tag", TAG)
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "new") == content(cache)


def test_a_compressed_copy_is_refused_with_the_remedy(
    registry: str, layout: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    image = f"docker://{registry}/kernels/compressed:{TAG}"
    # By its manifest, a copy that may change the image.
    skopeo_copy(f"oci:{layout}:{TAG}", image)
    skopeo_copy(image, f"oci:{tmp_path / 'pulled'}:{TAG}")
    done = ctl(tmp_path / "new", "import", "--trust", keys[1], "--oci", tmp_path / "pulled", "--tag", TAG)
    assert done.returncode != 0
    assert "--preserve-digests" in done.stderr
    assert content(tmp_path / "new") == {}
