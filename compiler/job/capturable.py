"""Whether what was compiled can be captured into a CUDA graph, and if not, why.

A graph replays what the device was given to do while it was captured: nothing that the host decides, copies or
waits for in between is part of it. That shows in the graph that Inductor generates code from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from compiler.guards.bounds import operator_name
from compiler.guards.branches import is_control_flow
from compiler.guards.proof import is_random

if TYPE_CHECKING:
    import torch

# Calls of libraries that wait for the device to learn how large a result is or whether it exists. Operators that
# torch itself marks are found by their marks.
WAITING = frozenset(
    "nonzero masked_select item _local_scalar_dense unique unique_dim _unique2 unique_consecutive "
    "unique_dim_consecutive repeat_interleave bincount histc multinomial nms index_put_boolean equal is_nonzero "
    "linalg_eig linalg_eigh _linalg_eigh linalg_eigvals _linalg_eigvals linalg_svd _linalg_svd linalg_inv "
    "linalg_inv_ex linalg_lstsq linalg_cholesky linalg_matrix_exp linalg_ldl_factor_ex linalg_ldl_solve "
    "linalg_lu linalg_lu_factor linalg_lu_factor_ex _linalg_solve_ex linalg_solve_ex linalg_qr geqrf ormqr "
    "lu_unpack triangular_solve cholesky_inverse cholesky_solve to_sparse _to_dense segment_reduce".split()
)


def reason_against(graph: torch.fx.Graph) -> str | None:
    """One line that names the first operator in the way; None for a graph that can be captured."""
    for node in graph.nodes:
        if node.op in ("call_function", "placeholder", "get_attr") and (reason := _reason(node)):
            return f"{_name(node)}: {reason}"
    return None


def _reason(node: torch.fx.Node) -> str | None:
    import torch
    from torch._inductor.utils import is_cudagraph_unsafe_fx_node
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if any(tensor.device.type == "cpu" for tensor in _tensors(node.meta.get("val"))):
        return "on the CPU"
    if node.op != "call_function":
        return None
    if is_control_flow(node):
        return "the host chooses what runs"
    if free_unbacked_symbols(node.meta.get("val")):
        return "its result's size or value depends on the data"
    name = operator_name(node.target)
    if name == "device_put" or (name in ("_to_copy", "copy_", "copy", "to") and _crosses(node)):
        return "a copy between the host and the device"
    if isinstance(node.target, torch._ops.OpOverload):
        if is_random(node):
            return "draws random numbers"
        if torch.Tag.data_dependent_output in node.target.tags:
            return "the host waits for its result"
    if name in WAITING:
        return "the host waits for its result"
    if is_cudagraph_unsafe_fx_node(node):
        return "torch marks it as unsafe in CUDA graphs"
    return None


def _crosses(node: torch.fx.Node) -> bool:
    devices = {t.device.type for operand in node.all_input_nodes for t in _tensors(operand.meta.get("val"))}
    return len(devices | {t.device.type for t in _tensors(node.meta.get("val"))}) > 1


def _tensors(value: Any) -> Iterator[Any]:
    import torch
    from torch.utils import _pytree as pytree

    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def _name(node: torch.fx.Node) -> str:
    return str(node.target) if node.op == "call_function" else f"{node.op} {node.name}"
