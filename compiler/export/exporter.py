"""Exports a model into a model repository.

    python -m compiler.export SOURCE [--output models/NAME/VERSION]

writes models/NAME/VERSION/model.pt2 with dynamic dimensions, checked against the model itself, and
a starter models/NAME/model.yaml unless there is one. SOURCE is one of

    module:function         a callable of an importable module that returns (module, args), where
                            axis 0 of every tensor is the batch, or (module, args, kwargs,
                            dynamic_shapes) as torch.export.export takes them
    transformers:FOLDER     a local folder of a transformers or sentence-transformers model: texts, images, sound,
                            one half of an encoder-decoder or of a model of texts and images (--task)
    diffusers:FOLDER        a local folder of a UNet, or of an autoencoder (--task vae-encoder, vae-decoder)
    torchvision:NAME        such as torchvision:resnet18, or a detector, of one image at a time; random weights unless
                            --weights is given
    timm:NAME               such as timm:vit_tiny_patch16_224; likewise
    torchaudio:NAME         such as torchaudio:wav2vec2_base; likewise
    program:FILE            what torch.export.save has written, by this torch or one since 2.7: written anew

What torch.export can't take is refused with the reason and the line of the model that is the
cause; nothing is written then, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.export.graph_signature import ConstantArgument

from compiler.export import diffusers_folder, transformers_folder
from compiler.export.refusal import (
    ExportRefused,
    explain,
    location_of_error,
    location_of_node,
    shape_conditions,
)
from compiler.export.source import ExportSource, Limits
from compiler.export.sources import resolve
from compiler.export.starter_yaml import Description, Dimension, starter_yaml
from compiler.program import origins
from compiler.program.archive import ArchiveError, load_program

DTYPES = {
    torch.bool, torch.uint8, torch.uint16, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
}  # fmt: skip
PATHS = ("transformers", "diffusers", "program")  # kinds of sources that are named by a path
# How far an output may be from eager's: rounding differs where export rewrites an operator.
TOLERANCES = {torch.float16: (1e-2, 1e-2), torch.bfloat16: (2e-2, 2e-2)}
DEFAULT_TOLERANCE = (1e-3, 1e-4)


def trace(source: ExportSource) -> torch.export.ExportedProgram:
    """Runs torch.export on the model. Raises ExportRefused."""
    if source.module.training:
        source.module.eval()
    # torch prints the graph so far when it gives up; the refusal says it shorter.
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with shape_conditions() as conditions, torch.no_grad(), quiet[0], quiet[1]:
        try:
            program = torch.export.export(
                source.module, source.args, source.kwargs, dynamic_shapes=source.dynamic_shapes
            )
        except Exception as error:
            raise explain(error, conditions) from error
    _check_interface(program)
    _check_mutations(program)
    return program


def _check_interface(program: torch.export.ExportedProgram) -> None:
    """Inputs and outputs are tensors that a request can carry, or fixed: inputs that torch.export baked into the
    program, outputs that are None."""
    nodes = {node.name: node for node in program.graph.nodes}
    signature = program.graph_signature
    inputs = [spec.arg for spec in signature.input_specs if spec.kind.name == "USER_INPUT"]
    outputs = [spec.arg for spec in signature.output_specs if spec.kind.name == "USER_OUTPUT"]
    for what, position, arg in [("input", *i) for i in enumerate(inputs)] + [
        ("output", *o) for o in enumerate(outputs)
    ]:
        node = nodes.get(getattr(arg, "name", ""))
        value = node.meta.get("val") if node else getattr(arg, "value", None)
        name = f"{what} {node.name if node else position}"
        location = location_of_node(node) if node else ""
        if isinstance(arg, ConstantArgument) and (what == "input" or value is None):
            continue
        if not isinstance(value, Tensor):
            raise ExportRefused(f"{name} is {type(value).__name__}, expected a tensor", location)
        if value.dtype not in DTYPES:
            raise ExportRefused(f"{name} has dtype {value.dtype}, which requests can't carry", location)


def _check_mutations(program: torch.export.ExportedProgram) -> None:
    """One request must not change what the next one sees, nor its own inputs."""
    functional = program.run_decompositions({})
    signature = functional.graph_signature
    nodes = {node.name: node for node in functional.graph.nodes}
    for what, mutated in (
        ("buffer", signature.buffers_to_mutate),
        ("parameter", signature.parameters_to_mutate),
        ("input", signature.user_inputs_to_mutate),
    ):
        for node_name, target in mutated.items():
            raise ExportRefused(
                f"the model writes to its {what} {target}, expected one that keeps no state",
                location_of_node(nodes[node_name]),
            )


def save(program: torch.export.ExportedProgram, path: Path) -> None:
    """torch.export.save without the sample inputs (a pickle), and of the stack traces (paths of this
    machine) only the model's lines."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                line = origins.portable(node.meta.pop("stack_trace", None) or "")
                if line is not None:
                    node.meta["stack_trace"] = line
    program._example_inputs = None
    try:
        torch.export.save(program, path)
    except Exception as error:
        line = next(iter(str(error).splitlines()), type(error).__name__)
        raise ExportRefused(f"torch can't write the program: {line}", location_of_error(error)) from error


def verify(source: ExportSource, path: Path) -> None:
    """Loads the file as a server does and compares its answers with the model's. Raises ExportRefused."""
    try:
        program = load_program(path)
    except ArchiveError as error:
        raise ExportRefused(
            f"the exported program would not be served: {str(error).partition(': ')[2]}"
        ) from error
    exported = program.module(check_guards=False)
    for args, kwargs in _sample_calls(source):
        with torch.no_grad():
            answer = source.module(*pytree.tree_map(_copy, args), **kwargs)
            expected = [leaf for leaf in pytree.tree_leaves(answer) if leaf is not None]
            given, named = pytree.tree_map(_unless_fixed, (args, kwargs))
            actual = pytree.tree_leaves(exported(*given, **named))
        for i, (got, want) in enumerate(zip(actual, expected, strict=True)):
            rtol, atol = TOLERANCES.get(want.dtype, DEFAULT_TOLERANCE)
            try:
                torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                detail = " ".join(str(error).split())
                raise ExportRefused(
                    f"output {i} of the exported program is not the model's: {detail}"
                ) from error


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _unless_fixed(value: Any) -> Any:
    """As load_program leaves the calling convention (compiler.program.fixed_values)."""
    return value if isinstance(value, Tensor) else ()


def _sample_calls(source: ExportSource) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The example, and its first row alone where the batch is dynamic."""
    yield source.args, source.kwargs
    dims, leaves = _dimensions(source), pytree.tree_leaves(list(_combined(source).values()))
    rows = {
        id(leaves[position]): dim.fn(1) if hasattr(dim, "fn") else 1  # two rows where an axis is 2 * batch
        for (position, axis), dim in dims.items()
        if axis == 0 and _root(dim).__name__ == "batch"
    }
    if rows:
        yield pytree.tree_map(lambda x: x[: rows[id(x)]] if id(x) in rows else x, (source.args, source.kwargs))


def _combined(source: ExportSource) -> dict[str, Any]:
    """The arguments by the parameters' names."""
    found: dict[str, Any] = torch.export.dynamic_shapes._combine_args(source.module, source.args, source.kwargs)
    return found


def _dimensions(source: ExportSource) -> dict[tuple[int, int], torch.export.Dim]:
    """(flat input, axis) → the Dim that was given for it."""
    if not source.dynamic_shapes:
        return {}
    combined = _combined(source)
    shapes = source.dynamic_shapes
    specs = [shapes.get(n) for n in combined] if isinstance(shapes, dict) else list(shapes)
    leaves = [leaf for value, spec in zip(combined.values(), specs) for leaf in _with_spec(value, spec)]
    found = {}
    for position, spec in enumerate(leaves):
        axes = spec.items() if isinstance(spec, dict) else enumerate(spec or ())
        for axis, dim in axes:
            if isinstance(dim, torch.export.Dim):
                found[position, axis] = dim
    return found


def _root(dim: Any) -> torch.export.Dim:
    """Of a multiple (8 * high), what it is one of."""
    found: torch.export.Dim = getattr(dim, "root", dim)
    return found


def _with_spec(value: Any, spec: Any) -> Iterator[Any]:
    """The shape specification of every leaf of an argument, in flat order."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _with_spec(child, spec.get(key) if isinstance(spec, dict) else None)
    elif isinstance(value, (list, tuple)):
        for i, child in enumerate(value):
            yield from _with_spec(child, spec[i] if isinstance(spec, (list, tuple)) else None)
    else:
        yield spec


def _input_names(source: ExportSource) -> list[str]:
    """Names of the flat inputs: the argument's, with index or key where it holds several tensors."""
    names = []
    for path, _ in pytree.tree_flatten_with_path(_combined(source))[0]:
        names.append("_".join(str(getattr(key, "key", getattr(key, "idx", ""))) for key in path))
    return names


def describe(
    program: torch.export.ExportedProgram,
    source: ExportSource,
    text: str,
    buckets: tuple[list[int], list[int]],
) -> Description:
    """What model.yaml is to say about the program."""
    names = _input_names(source)
    given = _dimensions(source)
    nodes = {node.name: node for node in program.graph.nodes}
    dimensions: dict[str, Dimension] = {}
    values = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    tensors = [(i, arg.name) for i, arg in enumerate(values) if not isinstance(arg, ConstantArgument)]
    for position, graph_name in tensors:
        for axis, size in enumerate(nodes[graph_name].meta["val"].shape):
            symbols = set() if isinstance(size, int) else size.node.expr.free_symbols
            if len(symbols) != 1 or str(symbol := symbols.pop()) in dimensions:
                continue
            bounds = program.range_constraints.get(symbol)
            where = f"{names[position]}.{axis}"
            name = _root(given[position, axis]).__name__ if (position, axis) in given else where
            if bounds is not None:
                largest = int(bounds.upper) if bounds.upper.is_finite else 1 << 31
                dimensions[str(symbol)] = Dimension(
                    name, where, int(bounds.lower), largest, name in source.padded
                )
    kind, _, rest = text.partition(":")
    return Description(
        # A place on this machine says nothing to who reads the file elsewhere.
        source=f"{kind}:{Path(rest).resolve().name}" if kind in PATHS else text,
        inputs=[names[position] for position, _ in tensors],
        dimensions=list(dimensions.values()),
        ranges=source.ranges,
        pad_values=source.pad_values if any(d.padding for d in dimensions.values()) else {},
        batch_buckets=buckets[0],
        length_buckets=buckets[1],
        has_batch=_has_batch(program, [nodes[name].meta["val"] for _, name in tensors]),
    )


def _has_batch(program: torch.export.ExportedProgram, inputs: list[Tensor]) -> bool:
    """Whether one dimension is axis 0 of every input and output, as the server looks for it."""
    outputs = [node.meta["val"] for node in program.graph.output_node().args[0] if node is not None]
    first = {str(value.shape[0]) if value.dim() else "" for value in (*inputs, *outputs)}
    return len(first) == 1 and not first.pop().isdigit()


def export_model(
    text: str,
    output: Path | None,
    *,
    limits: Limits,
    name: str = "",
    task: str = "auto",
    weights: Path | None = None,
    dtype: str = "float32",
    buckets: tuple[list[int], list[int]] = ([1, 8], [16, 32, 64, 128]),
    force: bool = False,
) -> Path:
    """Exports SOURCE; returns the path of model.pt2. Raises ExportRefused, with nothing written."""
    source = resolve(text, limits, weights, task, getattr(torch, dtype))
    folder = output or Path("models") / (name or source.name) / "1"
    if not folder.name.isdigit() or int(folder.name) < 1:
        raise ExportRefused(
            f"--output {folder}: expected a folder models/NAME/VERSION, with a number as version"
        )
    path = folder / "model.pt2"
    if path.exists() and not force:
        raise ExportRefused(f"{path} exists: give another version, or --force to replace it")
    program = trace(source)
    description = describe(program, source, text, buckets)
    created = _make_folders(folder)
    yaml = folder.parent / "model.yaml"
    starter = False
    try:
        with tempfile.TemporaryDirectory(prefix=".export-", dir=folder) as temporary:
            written = Path(temporary) / "model.pt2"
            save(program, written)
            verify(source, written)
            # A server that polls the repository must not see the program without what is said of it.
            starter = _put_unless_there(starter_yaml(description), yaml, Path(temporary))
            os.replace(written, path)
    except BaseException:
        if starter:
            yaml.unlink()
        for made in created:
            made.rmdir()
        raise
    return path


def _put_unless_there(text: str, path: Path, temporary: Path) -> bool:
    """Writes the file, all at once; false when there is one."""
    if path.exists():
        return False
    written = temporary / path.name
    written.write_text(text)
    os.replace(written, path)
    return True


def _make_folders(folder: Path) -> list[Path]:
    """Creates a folder and its parents; returns those that were missing, innermost first."""
    missing = [f for f in (folder, *folder.parents) if not f.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportRefused(f"{folder}: {error.strerror}") from error
    return missing


def _sizes(text: str) -> list[int]:
    sizes = [int(part) for part in text.split(",")]
    if not sizes or min(sizes) < 1:
        raise ValueError
    return sizes


_sizes.__name__ = "list of sizes"  # argparse names it in its message


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m compiler.export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("--output", type=Path, help="folder for model.pt2 (models/NAME/1)")
    parser.add_argument("--name", default="", help="NAME in the default of --output")
    parser.add_argument(
        "--task", choices=(*transformers_folder.CHOICES, *diffusers_folder.HALVES), default="auto",
        help="of a transformers or diffusers folder",
    )  # fmt: skip
    parser.add_argument("--weights", type=Path, help="state dict to load, .pt or .safetensors")
    parser.add_argument("--max-batch", type=int, default=64, help="largest batch; 0: no batch dimension (64)")
    parser.add_argument(
        "--max-length", type=int, help="most tokens, or samples of sound (what the model's positions allow; 30 s)"
    )
    parser.add_argument("--image-size", type=int, help="height and width of images (the model's own)")
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16", "float16"), default="float32", help="of weights and numbers"
    )
    parser.add_argument("--batch-buckets", type=_sizes, default=[1, 8], help="sizes to compile (1,8)")
    parser.add_argument(
        "--length-buckets", type=_sizes, default=[16, 32, 64, 128], help="likewise (16,32,64,128)"
    )
    parser.add_argument("--force", action="store_true", help="replace a model.pt2 that exists")
    parser.add_argument("--traceback", action="store_true", help="show where in torch a refusal came from")
    return parser


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    warnings.simplefilter("ignore")
    logging.getLogger("torch").setLevel(logging.ERROR)
    torch.manual_seed(0)
    try:
        path = export_model(
            args.source,
            args.output,
            limits=Limits(args.max_batch, args.max_length, args.image_size),
            name=args.name,
            task=args.task,
            weights=args.weights,
            dtype=args.dtype,
            buckets=(args.batch_buckets, args.length_buckets),
            force=args.force,
        )
    except ExportRefused as refusal:
        if args.traceback:
            traceback.print_exception(refusal)
        print(f"{args.source}: {refusal}", file=sys.stderr)
        if refusal.location:
            print(f"  caused by {refusal.location}", file=sys.stderr)
        return 1
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, answers equal the model's")
    print(f"{path.parent.parent / 'model.yaml'}: how to serve it, every field explained")
    return 0
