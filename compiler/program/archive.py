"""Loads an exported program from a `.pt2` file that nobody vouches for.

`torch.export.load` unpickles the sample inputs that every archive carries, and falls back to full
unpickling (that is, to running code from the file) when the restricted one fails. `load_program`
reads the archive itself: the container is checked before any of it is used, weights are mapped
straight from the file, sample inputs are never looked at, and the graph passes graph_check before
torch's deserialiser sees it, with the graphs of its wrappers inlined.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import stat
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compiler.program import limits
from compiler.program.graph_check import ArchiveError, MissingOperator, check_graph
from compiler.program.graph_values import NotInlined
from compiler.program.wrappers import inline_wrappers

if TYPE_CHECKING:
    import torch

__all__ = ["Archive", "ArchiveError", "MissingOperator", "load_archive", "load_program"]

MAX_ELEMENTS = 1 << 48

GRAPH = "models/model.json"
WEIGHTS_CONFIG = "data/weights/model_weights_config.json"
CONSTANTS_CONFIG = "data/constants/model_constants_config.json"
# What torch calls these parts before it knows the rest of the file.
FORMAT = {"archive_format": b"pt2", "archive_version": b"0"}


@dataclass(frozen=True)
class Member:
    """Where the content of a stored member lies in the file."""

    offset: int
    size: int
    crc32: int


class Archive:
    """The members of an archive, mapped copy-on-write: reading shares the page cache, writing never
    reaches the file. Raises ArchiveError when the container is not what torch.export.save writes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with open(path, "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode) or info.st_size == 0:
                raise ArchiveError("expected a file with content")
            try:
                with zipfile.ZipFile(file) as directory:
                    entries = directory.infolist()
            except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
                raise ArchiveError(f"not an archive: {error}") from None
            self.data = mmap.mmap(file.fileno(), info.st_size, access=mmap.ACCESS_COPY)
        if len(entries) > limits.MAX_ARCHIVE_MEMBERS:
            raise ArchiveError(f"{len(entries)} members, expected at most {limits.MAX_ARCHIVE_MEMBERS}")
        self.members: dict[str, Member] = {}
        self._digests: dict[str, str] = {}  # of what was read
        roots = set()
        for entry in entries:
            root, _, name = entry.orig_filename.partition("/")
            member = self._locate(entry)
            if name in self.members:
                raise ArchiveError(f"member {entry.orig_filename[:80]!r} appears twice")
            roots.add(root)
            self.members[name] = member
        if len(roots) != 1:
            raise ArchiveError(f"expected one folder at the top of the archive, got {len(roots)}")
        self._check_overlap()

    def _locate(self, entry: zipfile.ZipInfo) -> Member:
        """Checks an entry of the central directory and the local header that it points to."""
        name = entry.orig_filename
        parts = name.split("/")
        if (
            len(parts) < 2
            or any(p in ("", ".", "..") for p in parts)
            or not name.isprintable()
            or "\\" in name
        ):
            raise ArchiveError(f"member name {name[:80]!r} is not a plain relative path")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise ArchiveError(f"member {name[:80]!r} is compressed, expected it stored as it is")
        if entry.flag_bits & 0x1:
            raise ArchiveError(f"member {name[:80]!r} is encrypted")
        start = entry.header_offset
        header = self.data[start : start + 30] if start >= 0 else b""
        if len(header) != 30 or header[:4] != b"PK\x03\x04":
            raise ArchiveError(f"member {name[:80]!r} has no header where the directory says")
        name_length = int.from_bytes(header[26:28], "little")
        extra_length = int.from_bytes(header[28:30], "little")
        if self.data[start + 30 : start + 30 + name_length] != name.encode():
            raise ArchiveError(f"member {name[:80]!r} has another name in its header than in the directory")
        offset = start + 30 + name_length + extra_length
        if offset + entry.file_size > len(self.data):
            raise ArchiveError(f"member {name[:80]!r} ends beyond the end of the file")
        return Member(offset, entry.file_size, entry.CRC)

    def _check_overlap(self) -> None:
        end, before = 0, ""
        for name, member in sorted(self.members.items(), key=lambda item: item[1].offset):
            if member.offset < end:
                raise ArchiveError(f"members {before[:80]!r} and {name[:80]!r} overlap")
            end, before = member.offset + member.size, name

    def read(self, name: str, max_bytes: int) -> bytes:
        """The content of a member, its checksum verified."""
        member = self.members.get(name)
        if member is None:
            raise ArchiveError(f"no member {name!r}")
        if member.size > max_bytes:
            raise ArchiveError(f"member {name!r} holds {member.size} bytes, expected at most {max_bytes}")
        content = self.data[member.offset : member.offset + member.size]
        if zlib.crc32(content) != member.crc32:
            raise ArchiveError(f"member {name!r} is damaged: its checksum differs")
        self._digests[name] = hashlib.sha256(content).hexdigest()
        return content

    def content_digest(self) -> str:
        """Of the graph and of what is said of its tensors, by the bytes that were read; stokerd has its own of
        them (server/program/program_digest.h)."""
        read = (name for name in (CONSTANTS_CONFIG, WEIGHTS_CONFIG, GRAPH) if name in self._digests)
        lines = [f"{self._digests[name]}  {name}\n" for name in read]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def read_json(self, name: str, max_bytes: int) -> Any:
        try:
            return json.loads(self.read(name, max_bytes))
        except ArchiveError:
            raise
        except (ValueError, RecursionError) as error:
            raise ArchiveError(f"member {name!r} is not JSON: {str(error)[:100]}") from None


def load_program(
    path: str | os.PathLike[str], notes: list[Any] | None = None
) -> torch.export.ExportedProgram:
    """The exported program in the archive at `path`, its weights mapped from the file.

    The program has no example inputs, no stack traces and no guards; with `notes` its operators are
    numbered as graph_check.check_graph says. Raises MissingOperator, ArchiveError with the path and a
    one-line reason, and OSError when the file can't be read.
    """
    return load_archive(path, notes)[0]


def load_archive(
    path: str | os.PathLike[str], notes: list[Any] | None = None
) -> tuple[torch.export.ExportedProgram, Archive]:
    """load_program, with the archive that it was read from."""
    try:
        archive = Archive(path)
        return _load(archive, notes), archive
    except MissingOperator:
        raise  # with nothing said against the archive
    except ArchiveError as error:
        raise ArchiveError(f"{os.fspath(path)}: {error}") from None


def _load(archive: Archive, notes: list[Any] | None) -> torch.export.ExportedProgram:
    for name, expected in FORMAT.items():
        got = archive.read(name, limits.MAX_MARKER_BYTES)
        if got != expected:
            raise ArchiveError(f"{name}: expected {expected.decode()!r}, got {got[:20]!r}")
    if "byteorder" in archive.members and archive.read("byteorder", limits.MAX_MARKER_BYTES) != b"little":
        raise ArchiveError("byteorder: expected 'little'")
    programs = [name for name in archive.members if name.startswith("models/")]
    if programs != [GRAPH]:
        raise ArchiveError(f"expected one program, {GRAPH}, got {', '.join(programs)[:100] or 'none'}")
    graph = check_graph(archive.read_json(GRAPH, limits.MAX_GRAPH_BYTES), notes)
    try:
        inline_wrappers(graph)
    except NotInlined as error:
        raise ArchiveError(str(error)) from None
    state = _tensors(archive, WEIGHTS_CONFIG, "data/weights/")
    constants = _tensors(archive, CONSTANTS_CONFIG, "data/constants/")
    _check_signature(graph, state, constants)
    return _deserialise(graph, state, constants)


def _tensors(archive: Archive, config_name: str, folder: str) -> dict[str, torch.Tensor]:
    """The tensors that a payload configuration describes; tied ones share their memory."""
    if config_name not in archive.members and f"{folder}model.pt" in archive.members:
        raise ArchiveError(f"{folder}model.pt is pickled by an old torch, export the model again")
    config = archive.read_json(config_name, limits.MAX_CONFIG_BYTES)
    entries = config.get("config") if isinstance(config, dict) else None
    if not isinstance(entries, dict):
        raise ArchiveError(f"{config_name}: expected an object with config")
    tensors: dict[str, torch.Tensor] = {}
    bases: dict[tuple[str, Any], torch.Tensor] = {}
    for name, entry in entries.items():
        try:
            tensors[name] = _tensor(archive, folder, entry, bases)
        except ArchiveError as error:
            raise ArchiveError(f"{config_name}: {name[:200]!r}: {error}") from None
        except (KeyError, TypeError, AttributeError, RuntimeError, ValueError) as error:
            reason = str(error).partition("\n")[0][:200]
            raise ArchiveError(f"{config_name}: {name[:200]!r}: not a usable tensor: {reason}") from None
    return tensors


def _tensor(
    archive: Archive, folder: str, entry: dict[str, Any], bases: dict[tuple[str, Any], torch.Tensor]
) -> torch.Tensor:
    import torch
    from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE

    if entry["use_pickle"] is not False:
        raise ArchiveError("is pickled, expected plain bytes")
    if not entry["path_name"].startswith(("weight_", "tensor_")):
        raise ArchiveError(f"expected a tensor, got {entry['path_name'][:80]!r}")
    member_name = folder + entry["path_name"]
    member = archive.members.get(member_name)
    if member is None:
        raise ArchiveError(f"no member {member_name[:80]!r}")
    meta = entry["tensor_meta"]
    dtype = _SERIALIZE_TO_TORCH_DTYPE.get(meta["dtype"])
    if dtype is None or meta["layout"] != 7:
        raise ArchiveError(
            f"expected a strided tensor, got dtype {meta['dtype']!r}, layout {meta['layout']!r}"
        )
    if meta["device"]["type"] not in ("cpu", "cuda"):
        raise ArchiveError(f"expected a tensor of the CPU or of CUDA, got {str(meta['device'])[:60]}")
    sizes = [_integer(s, "size") for s in meta["sizes"]]
    strides = [_integer(s, "stride") for s in meta["strides"]]
    offset = _integer(meta["storage_offset"], "offset")
    base = bases.get((member_name, dtype))
    if base is None:
        base = bases[member_name, dtype] = _map(archive, member, dtype)
    _check_extent(sizes, strides, offset, base.numel())
    tensor = torch.as_strided(base, sizes, strides, offset)
    if meta["device"]["type"] == "cuda":
        tensor = tensor.to(torch.device("cuda", int(meta["device"].get("index") or 0)))
    return (
        torch.nn.Parameter(tensor, requires_grad=bool(meta["requires_grad"])) if entry["is_param"] else tensor
    )


def _integer(value: dict[str, Any], what: str) -> int:
    number = value.get("as_int")
    if type(number) is not int or not 0 <= number <= MAX_ELEMENTS:
        raise ArchiveError(f"expected a {what} from 0 to {MAX_ELEMENTS}, got {str(value)[:60]}")
    return number


def _check_extent(sizes: list[int], strides: list[int], offset: int, available: int) -> None:
    if len(sizes) != len(strides) or len(sizes) > limits.MAX_STORED_RANK:
        raise ArchiveError(
            f"{len(sizes)} sizes and {len(strides)} strides, expected as many, at most {limits.MAX_STORED_RANK}"
        )
    needed = 0 if 0 in sizes else offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides))
    if needed > available:
        raise ArchiveError(f"needs {needed} elements for shape {sizes}, its member holds {available}")


def _map(archive: Archive, member: Member, dtype: torch.dtype) -> torch.Tensor:
    """A flat tensor over the member's bytes."""
    import torch

    width = dtype.itemsize
    if member.size < width:
        return torch.empty(0, dtype=dtype)
    if member.offset % width:
        # Never written by torch, which aligns to 64 bytes; compiled kernels rely on alignment.
        content = bytearray(archive.data[member.offset : member.offset + member.size])
        return torch.frombuffer(content, dtype=dtype, count=member.size // width)
    return torch.frombuffer(archive.data, dtype=dtype, count=member.size // width, offset=member.offset)


def _check_signature(
    program: dict[str, Any], state: dict[str, torch.Tensor], constants: dict[str, torch.Tensor]
) -> None:
    """Every tensor that the graph binds is there, laid out as compiled code will assume."""
    from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE

    module = program["graph_module"]
    try:
        values = module["graph"]["tensor_values"]
        for spec in module["signature"]["input_specs"]:
            ((kind, body),) = spec.items()
            if kind == "user_input":
                continue
            if kind not in ("parameter", "buffer", "tensor_constant"):
                raise ArchiveError(f"inputs of kind {kind[:40]!r} are not accepted")
            name = body[f"{kind}_name"]
            tensor = state.get(name, constants.get(name))
            if tensor is None:
                raise ArchiveError(f"the graph needs {name!r}, which the archive does not hold")
            meta = values[body["arg"]["name"]]
            expected = _SERIALIZE_TO_TORCH_DTYPE.get(meta["dtype"])
            sizes = [size.get("as_int") for size in meta["sizes"]]
            strides = [stride.get("as_int") for stride in meta["strides"]]
            strides_differ = any(n > 1 and a != b for n, a, b in zip(tensor.shape, tensor.stride(), strides))
            if tensor.dtype != expected or list(tensor.shape) != sizes or (strides_differ and tensor.numel()):
                raise ArchiveError(
                    f"the graph takes {name!r} as {expected} {sizes} with strides {strides}, "
                    f"the archive holds {tensor.dtype} {list(tensor.shape)} with {list(tensor.stride())}"
                )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ArchiveError):
            raise
        raise ArchiveError(f"the graph's signature is incomplete: {error!r:.100}") from None


def _deserialise(
    graph: dict[str, Any], state: dict[str, torch.Tensor], constants: dict[str, torch.Tensor]
) -> torch.export.ExportedProgram:
    from torch._export.serde import schema
    from torch._export.serde.serialize import ExportedProgramDeserializer, _dict_to_dataclass

    try:
        program = _dict_to_dataclass(schema.ExportedProgram, graph)
        return ExportedProgramDeserializer().deserialize(program, state, constants, None)
    except Exception as error:  # torch raises whatever it stumbled over
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else "no reason given"
        raise ArchiveError(f"torch can't read the graph: {type(error).__name__}: {reason[:300]}") from None
