"""Which operators need a guard, where their operands are, and which operators need none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compiler.guards.bounds import operator_name
from compiler.guards.known import known_operators

if TYPE_CHECKING:
    from torch.fx import Graph, Node


@dataclass(frozen=True)
class IndexRule:
    """Where an operator's index is and what it may be."""

    position: int  # of the index among the arguments
    size: Callable[[Node], tuple[Any, int | None]]  # (tensor node, dimension); no dimension: all elements
    wraps: bool = False  # -1 means the last
    writes: bool = False
    row_local: bool = False  # a write that stays in the row that its index belongs to


def _along(node: Node) -> tuple[Any, int | None]:
    return node.args[0], node.args[1]


def _first(node: Node) -> tuple[Any, int | None]:
    return node.args[0], 0


def _elements(node: Node) -> tuple[Any, int | None]:
    return node.args[0], None


INDEX_RULES: dict[str, IndexRule] = {
    "embedding": IndexRule(1, _first),
    "gather": IndexRule(2, _along),
    "index_select": IndexRule(2, _along),
    "take": IndexRule(1, _elements, wraps=True),
    "put": IndexRule(1, _elements, wraps=True, writes=True),
    "index_add": IndexRule(2, _along, writes=True),
    "index_copy": IndexRule(2, _along, writes=True),
    "index_reduce": IndexRule(2, _along, writes=True),
    "index_fill": IndexRule(2, _along, wraps=True, writes=True),
    "scatter": IndexRule(2, _along, writes=True, row_local=True),
    "scatter_add": IndexRule(2, _along, writes=True, row_local=True),
    "scatter_reduce": IndexRule(2, _along, writes=True, row_local=True),
}
# Operators with one index tensor per dimension, None where a dimension is taken whole.
INDEX_LISTS = {"index": False, "index_put": True, "_unsafe_index": False, "_unsafe_index_put": True}
DIVISIONS = frozenset("div floor_divide remainder fmod".split())
# Rewritten before anything else, because what eager checks is lost once they are decomposed.
PRESERVED = frozenset(
    "index_select index_add index_copy index_fill index_reduce _unsafe_index_put take put one_hot "
    "max_unpool2d max_unpool3d floor_divide lcm masked_scatter binary_cross_entropy linalg_inv inverse "
    "linalg_solve linalg_cholesky".split()
)
# Operators that look up or divide by values, with no rule here that would make them safe: those that are known to be
# safe in eager only, and what decomposing makes of others.
UNGUARDED = frozenset(name for name, compilable in known_operators().items() if not compilable) | frozenset(
    "_linalg_check_errors _unsafe_masked_index_put_accumulate resize set_ _embedding_bag_backward".split()
)
# Composite operators that decompose into arithmetic only, which divides nothing but floats. A program of these and of
# basic operators needs no decomposing before it is guarded, which saves a third of a small compile. Where others
# must be decomposed, these stay whole: half as many nodes to guard, and linear layers and convolutions for oneDNN.
PLAIN = frozenset(
    "linear matmul bmm addmm mm baddbmm layer_norm native_layer_norm rms_norm group_norm "
    "native_group_norm batch_norm _native_batch_norm_legit_no_training gelu silu relu relu6 leaky_relu "
    "elu selu celu mish softplus hardtanh hardswish hardsigmoid sigmoid log_sigmoid tanh softmax "
    "log_softmax _softmax _log_softmax dropout feature_dropout alpha_dropout scaled_dot_product_attention "
    "conv1d conv2d conv3d convolution _convolution reshape view flatten unflatten transpose permute t "
    "numpy_T mT movedim expand expand_as unsqueeze squeeze contiguous to type_as arange full full_like "
    "zeros zeros_like ones ones_like new_full new_zeros new_ones empty_like linalg_vector_norm norm clamp "
    "clip clamp_min clamp_max add sub rsub mul multiply subtract neg negative abs square pow rsqrt sqrt "
    "exp log log1p expm1 sin cos tan erf sum mean var std amax amin max min maximum minimum cumsum where "
    "masked_fill eq ne lt le gt ge __and__ __or__ __xor__ logical_and logical_or logical_not bitwise_and "
    "bitwise_or bitwise_not cat concat concatenate stack chunk split split_with_sizes unbind narrow slice "
    "select detach clone alias lift_fresh_copy tril triu addcmul lerp threshold glu prod any all isnan "
    "isinf isfinite nan_to_num true_divide avg_pool2d max_pool2d max_pool2d_with_indices "
    "_assert_tensor_metadata mse_loss l1_loss sym_size sym_numel sym_stride".split()
)


def decompositions() -> dict[Any, Any]:
    """The table to decompose a program with, when it must be, before its operators are guarded:
    Inductor's own, so that nothing that it makes of an operator goes unseen."""
    # Some rules of the table look it up without importing it.
    import torch._inductor.lowering  # noqa: F401
    from torch._inductor.decomposition import select_decomp_table

    table = dict(select_decomp_table())
    return {op: rule for op, rule in table.items() if operator_name(op) not in PRESERVED | PLAIN}


def needs_decomposing(graph: Graph) -> bool:
    """Whether operators with indices or divisions may hide in composite ones."""
    import torch

    table = decompositions()
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        if node.target._schema.is_mutable:
            return True
        if operator_name(node.target) in PLAIN | PRESERVED:
            continue
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(
            node.target.name(), "CompositeImplicitAutograd"
        )
        if node.target in table or composite:
            return True
    return False
