"""Turns an exported program into the flat, guarded, bucket-sized graph that Inductor compiles.

The guards are put into the program as it was exported, while the batch is still a symbol that can
be told from all other sizes. Specialising then costs nothing: Inductor traces the graph again in
any case, and gets inputs of the bucket's sizes to trace it with.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from compiler.guards import branches, insertion, known, rules, value_sizes
from compiler.guards.refused import Refused
from compiler.program.operators import is_question
from compiler.specialise import convolutions, dynamic, moved, onednn, rounding

if TYPE_CHECKING:
    import sympy
    import torch
    from torch.export import ExportedProgram

    from compiler.specialise.passes import Passes

# Operators that only look at or rearrange their first operand: what they return may share its memory.
VIEWS = frozenset(
    "alias as_strided detach diagonal expand permute real imag select slice split split_with_sizes "
    "squeeze t transpose unbind unfold unsqueeze view view_as_complex view_as_real _reshape_alias".split()
)


@dataclass
class Specialised:
    """A graph that takes the program's inputs flat and returns its outputs flat, then the validity."""

    module: torch.fx.GraphModule
    fakes: list[torch.Tensor]  # one per input, of the bucket's sizes
    inputs: list[dict[str, Any]]  # name, dtype, shape, as in the manifest
    outputs: int  # without the validity
    guards: list[dict[str, Any]]  # as in the manifest
    constants: frozenset[str]  # the names that can be bound when the artifact is opened
    packed: list[str]  # those of them that are to be bound as oneDNN packs them; on a GPU, as they are, rounded
    packed_as: str  # the dtype that these are rounded to
    convolutions: list[convolutions.Convolution]  # whose weights are to be bound packed
    largest_tensor: int = 0  # bytes, of a graph on a GPU
    calls: Counter[str] = field(default_factory=Counter)  # of operators that aren't torch's own


def specialise(
    program: ExportedProgram,
    sizes: dict[str, int],
    change: Passes | None = None,
    precision: str = "float32",
    device: str = "cpu",
) -> Specialised:
    """`sizes` maps symbols of the program's graph to sizes; a symbol without one stays dynamic.
    `change`: the operator's passes. `precision`: what linear layers compute in. `device`: where the graph
    will run; for a GPU the program is taken over: its weights are gone afterwards.

    Raises ValueError for a symbol that the program does not have or a size outside its bounds, and
    Refused for a program that can't run as a pure function of its inputs and weights.
    """
    import torch

    _check_sizes(program, sizes)
    _check_effects(program)
    on_gpu = device != "cpu"
    known.check(program.graph_module, on_gpu)
    calls = known.library_calls(program.graph)
    constants = frozenset(program.state_dict) | frozenset(program.constants)
    names = input_names(program)
    if on_gpu:
        program = moved.move(program, device)
    for node in list(program.graph.nodes):
        if is_question(node):
            program.graph.erase_node(node)
    if rules.needs_decomposing(program.graph):
        program = program.run_decompositions(rules.decompositions())
    _check_mutations(program)
    module = program.module(check_guards=False)
    _flatten(module)
    _bind_constants(module, constants)
    if change is not None:
        change.apply(module)
    _own_outputs(module)
    outputs = len(_output_node(module).args[0])
    inserted = insertion.insert(module, names, sizes)
    dynamic.set_hints([node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"], sizes)
    packed: list[str] = []
    packed_convolutions: list[convolutions.Convolution] = []
    packed_as = precision if precision in ("bfloat16", "float16") else "float32"
    if not on_gpu:
        packed = onednn.rewrite(module, lambda size: dynamic.hint(size, sizes), precision == "bfloat16")
        packed_convolutions = convolutions.rewrite(module, sizes)
    elif packed_as != "float32":
        packed = rounding.round_linears(module, getattr(torch, packed_as))
    module.recompile()
    fakes = _bucket_inputs(module, names, sizes, on_gpu)
    largest = moved.propagate(module, dynamic.as_traced(fakes)) if on_gpu else 0
    shapes = [[-1 if not isinstance(n, int) else n for n in fake.shape] for fake in fakes]
    dtypes = [str(fake.dtype).removeprefix("torch.") for fake in fakes]
    inputs = [{"name": n, "dtype": d, "shape": s} for n, d, s in zip(names, dtypes, shapes, strict=True)]
    return Specialised(
        module, fakes, inputs, outputs, inserted, constants, packed, packed_as, packed_convolutions, largest, calls
    )


def input_names(program: ExportedProgram) -> list[str]:
    """The author's names of the flat inputs; torch's own where the author's say nothing."""
    names = [str(name) for name in program.graph_signature.user_inputs]
    if program.module_call_graph and (signature := program.module_call_graph[0].signature):
        given = signature.forward_arg_names or []
        if len(given) == len(names) == signature.in_spec.num_leaves:
            return list(given)
    return names


def _check_sizes(program: ExportedProgram, sizes: dict[str, int]) -> None:
    bounds = {str(symbol): limits for symbol, limits in program.range_constraints.items()}
    for symbol, size in sizes.items():
        if symbol not in bounds:
            raise ValueError(f"sizes: the program has no symbol {symbol!r}, only {sorted(bounds)}")
        if not bounds[symbol].lower <= size <= bounds[symbol].upper:
            limits = f"{bounds[symbol].lower}..{bounds[symbol].upper}"
            raise ValueError(f"sizes: {symbol} is bounded to {limits}, got {size}")


def _check_effects(program: ExportedProgram) -> None:
    """Refuses what can't be guarded because it only shows when the program runs."""
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if branches.is_control_flow(node):
            branches.check(node)
        value_sizes.check(node)


def _check_mutations(program: ExportedProgram) -> None:
    """Refuses what a shared, read-only copy of the weights and a batch of strangers don't allow.

    As exported, a program may change its buffers by operators that work in place; decomposing turns
    them into outputs that the signature lists.
    """
    signature = program.graph_signature
    if signature.buffers_to_mutate:
        raise Refused(f"the program changes its buffers {sorted(signature.buffers_to_mutate.values())}")
    if signature.user_inputs_to_mutate:
        raise Refused(f"the program changes its inputs {sorted(signature.user_inputs_to_mutate.values())}")


def _flatten(module: torch.fx.GraphModule) -> None:
    """Gives the graph flat inputs and one flat tuple of tensors as output."""
    import torch
    from torch.fx.graph import CodeGen

    for node in list(module.graph.nodes):
        if node.op == "placeholder" and not isinstance(node.meta.get("val"), torch.Tensor):
            raise Refused(f"the program's input {node.name} is not a tensor")
        if node.op == "call_function" and str(node.target) == "aten._assert_tensor_metadata.default":
            module.graph.erase_node(node)  # what it asserts held when the program was exported
    output = _output_node(module)
    results = list(output.args[0]) if isinstance(output.args[0], (tuple, list)) else [output.args[0]]
    for index, node in enumerate(results):
        if not isinstance(node, torch.fx.Node) or not isinstance(node.meta.get("val"), torch.Tensor):
            raise Refused(f"the program's output {index} is not a tensor")
    output.args = (tuple(results),)
    module.graph.set_codegen(CodeGen())


def _output_node(module: torch.fx.GraphModule) -> torch.fx.Node:
    return next(iter(reversed(module.graph.nodes)))


def _bind_constants(module: torch.fx.GraphModule, constants: frozenset[str]) -> None:
    """Makes buffers of the program's constants, which keep their name through Inductor, and rebuilds
    in the graph the one-element constants that decomposing added, which can't be bound."""
    import torch

    known = {name for name, _ in [*module.named_parameters(), *module.named_buffers()]}
    for node in list(module.graph.nodes):
        if node.op != "get_attr" or node.target in known or branches.is_branch(module, node):
            continue
        *path, name = node.target.split(".")
        owner = module.get_submodule(".".join(path))
        value = getattr(owner, name)
        if not isinstance(value, torch.Tensor):
            raise Refused(f"the program's constant {node.target} is not a tensor")
        if node.target in constants:
            delattr(owner, name)
            owner.register_buffer(name, value, persistent=False)
            known.add(node.target)
        elif value.numel() == 1:
            _inline(module, node, value)
        else:
            raise Refused(f"decomposing the program made the constant {node.target}, which can't be bound")


def _inline(module: torch.fx.GraphModule, node: torch.fx.Node, value: torch.Tensor) -> None:
    import torch

    with module.graph.inserting_before(node):
        full = module.graph.call_function(
            torch.ops.aten.full.default,
            (list(value.shape), value.item()),
            {"dtype": value.dtype, "device": value.device},
        )
    full.meta = dict(node.meta)
    node.replace_all_uses_with(full)
    module.graph.erase_node(node)


def _own_outputs(module: torch.fx.GraphModule) -> None:
    """Copies outputs that are inputs, weights or views of them: a result must own its memory."""
    import torch

    output = _output_node(module)
    results = list(output.args[0])
    for index, node in enumerate(results):
        root = node
        while root.op == "call_function" and _is_view(root.target):
            root = root.args[0]
        if root.op in ("placeholder", "get_attr"):
            with module.graph.inserting_before(output):
                results[index] = module.graph.call_function(torch.ops.aten.clone.default, (node,))
            results[index].meta = dict(node.meta)
    output.args = (tuple(results),)


def _is_view(target: Any) -> bool:
    name = getattr(target, "overloadpacket", target)
    return getattr(name, "__name__", "") in VIEWS or getattr(target, "__name__", "") == "getitem"


def _bucket_inputs(
    module: torch.fx.GraphModule, names: list[str], sizes: dict[str, int], on_gpu: bool
) -> list[torch.Tensor]:
    """Contiguous fake inputs of the bucket's sizes, which also become the placeholders' values:
    Inductor takes them from there. On a GPU they are of one mode with the weights."""
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    assert len(placeholders) == len(names), (placeholders, names)
    values = [node.meta["val"] for node in placeholders]
    shapes = [[resolve(size, sizes) for size in value.shape] for value in values]
    static = all(isinstance(size, int) for shape in shapes for size in shape)
    own_mode = not values or (static and not on_gpu)
    # Sizes that depend on values are symbols of an environment.
    environment = ShapeEnv() if own_mode and value_sizes.has_any(module.graph) else None
    for node in module.graph.nodes if environment else ():
        node.meta.pop("unbacked_bindings", None)  # symbols of the environment that the program was read in
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=environment) if own_mode else values[0].fake_mode
    fakes = []
    with mode:
        for node, value, shape in zip(placeholders, values, shapes, strict=True):
            fakes.append(torch.empty(shape, dtype=value.dtype, device=value.device))
            node.meta = {"val": fakes[-1]}
    return fakes


def resolve(size: int | torch.SymInt, sizes: dict[str, int]) -> int | torch.SymInt:
    """The size in the bucket: a number when all of its symbols have one."""
    if isinstance(size, int):
        return size
    expression: sympy.Expr = size.node.expr
    known = expression.subs({s: sizes[str(s)] for s in expression.free_symbols if str(s) in sizes})
    if known.is_Integer:
        return int(known)
    return size.node.shape_env.create_symintnode(known, hint=dynamic.hint(size, sizes))
