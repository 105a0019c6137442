"""Moves an exported program to a GPU without its weights.

The artifact holds no weights, and code is generated from their shapes, dtypes and strides alone. So they are
replaced by tensors without memory before anything moves: compiling a model takes no room on the device for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compiler.guards.refused import Refused

if TYPE_CHECKING:
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.export import ExportedProgram

# Operators that only CPUs have; a program gets them when it is decomposed before it is saved.
CPU_ONLY = ("_for_cpu", "quantized::")


def move(program: ExportedProgram, device: str) -> ExportedProgram:
    """The program on `device`, with fake weights; Refused, naming the operator, where it was made for a CPU."""
    from torch.export.passes import move_to_device_pass

    mode = _fake_mode(program)
    for table in (program._state_dict, program._constants):
        for name, value in list(table.items()):
            table[name] = _fake(mode, value)
    program._example_inputs = None
    with mode:
        program = move_to_device_pass(program, device)
    _move_arguments(program.graph_module, device)
    program.graph_module.recompile()
    return program


def _fake_mode(program: ExportedProgram) -> FakeTensorMode:
    import torch
    from torch._subclasses import FakeTensor, FakeTensorMode

    for node in program.graph.nodes:
        if isinstance(value := node.meta.get("val"), FakeTensor):
            value.fake_mode.allow_non_fake_inputs = True
            return value.fake_mode
    return FakeTensorMode(shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv(), allow_non_fake_inputs=True)


def _fake(mode: FakeTensorMode, value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    fake = mode.from_tensor(value.detach(), static_shapes=True)
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(fake, requires_grad=False)
    return fake


def _move_arguments(module: torch.fx.GraphModule, device: str) -> None:
    """What move_to_device_pass leaves: devices among the positional arguments, and tensors that are made on
    the default device because none is named."""
    import torch
    from torch.utils import _pytree as pytree

    there = torch.device(device)
    for part in module.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        for node in part.graph.nodes:
            if node.op != "call_function":
                continue
            _check_operator(node)
            node.args = pytree.tree_map_only(torch.device, lambda _: there, node.args)
            node.kwargs = {
                name: there if name == "device" and value is not None else value
                for name, value in node.kwargs.items()
            }
            if _makes_tensor(node) and node.kwargs.get("device") is None:
                node.update_kwarg("device", there)


def _check_operator(node: torch.fx.Node) -> None:
    name = node.target.name() if hasattr(node.target, "name") else str(node.target)
    if any(mark in name for mark in CPU_ONLY):
        raise Refused("it exists on CPUs only; export the program without decomposing it", node)


def _makes_tensor(node: torch.fx.Node) -> bool:
    """Whether its result's device follows from no operand."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not any(argument.name == "device" for argument in schema.arguments):
        return False
    return not any(hasattr(operand.meta.get("val"), "device") for operand in node.all_input_nodes)


def propagate(module: torch.fx.GraphModule, fakes: list[torch.Tensor]) -> int:
    """Runs the graph on fakes; returns the bytes of its largest tensor. Refused where one is on another device
    than the inputs and weights: a constant that was overlooked."""
    import torch
    from torch.fx import Interpreter
    from torch.utils import _pytree as pytree

    largest = 0
    astray: list[torch.fx.Node] = []

    class Watcher(Interpreter):
        def run_node(self, node: torch.fx.Node) -> Any:
            nonlocal largest
            result = super().run_node(node)
            for tensor in pytree.tree_leaves(result):
                if isinstance(tensor, torch.Tensor):
                    largest = max(largest, tensor.element_size() * tensor.numel())
                    if tensor.device.type == "cpu" and node.op != "output":
                        astray.append(node)
            return result

    modes = [fake.fake_mode for fake in fakes] or [
        value.fake_mode
        for value in [*module.parameters(), *module.buffers()]
        if hasattr(value, "fake_mode")
    ]
    with torch.no_grad(), modes[0] if modes else _new_mode():
        Watcher(module).run(*fakes)
    if astray:
        raise Refused("its result is on the CPU while the program is on a GPU", astray[0])
    return largest


def _new_mode() -> FakeTensorMode:
    from torch._subclasses import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)
