"""Checks the graph of an exported program before torch deserialises it.

A program's graph is JSON, but torch turns parts of it into code: size expressions go through
sympy's `eval`, names become identifiers of generated Python, guards are compiled, operators are
looked up by attribute path, and tree specifications may import modules (which is why none names a
class: compiler.program.containers). `check_graph` therefore
accepts only what `torch.export.save` writes for ordinary programs: every string must have the
shape that its field calls for, and what serves no purpose after the export (stack traces, guards'
source) is dropped.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from compiler.program.containers import PLAIN, use_plain_containers
from compiler.program.fixed_values import drop_fixed_values
from compiler.program.limits import MAX_EXPRESSION_BYTES
from compiler.program.loops import LOOPS
from compiler.program.operators import is_known
from compiler.program.wrappers import WRAPPERS

MAX_DEPTH = 100
MAX_STRING = 64 * 1024
MAX_INT = 2**63
MAX_EXPONENT = 16

# Of torch's own operators.
OPERATOR_NAMESPACES = {"aten", "prims", "quantized"}
HIGHER_ORDER = WRAPPERS | LOOPS | {"cond", "while_loop"}
# Operators that read or write files named by the program.
FILE_OPERATORS = {"from_file", "save", "load"}
ARITHMETIC = (
    "add and_ eq floordiv ge getitem gt le lshift lt mod mul ne neg or_ pos pow rshift sub truediv".split()
)
SCALAR_OPERATORS = {
    *(f"_operator.{name}" for name in ARITHMETIC),
    *(f"torch.sym_{name}" for name in ("float", "int", "ite", "max", "min", "not", "sqrt")),
    "math.trunc",
}

# What torch's printer makes of sizes and of conditions on them.
EXPRESSION_FUNCTIONS = set(
    "Symbol Integer Rational Float Add Mul Pow Mod Max Min Abs floor ceiling "
    "Equality Unequality LessThan StrictLessThan GreaterThan StrictGreaterThan And Or Not "
    "FloorDiv ModularIndexing Where PythonMod CleanDiv CeilToInt FloorToInt CeilDiv LShift RShift "
    "PowByNatural FloatPow FloatTrueDiv IntTrueDiv IsNonOverlappingAndDenseIndicator "
    "TruncToFloat TruncToInt RoundToInt RoundDecimal ToFloat Identity".split()
)
POWERS = {"Pow", "PowByNatural", "FloatPow", "LShift"}
EXPRESSION_WORDS = {"true", "false", "True", "False"}
SYMBOL = re.compile(r"[a-z]{1,8}[0-9]{1,9}")
NUMBER = re.compile(r"-?[0-9]{1,32}(\.[0-9]{0,64})?(e-?[0-9]{1,3})?")

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,511}")
LITERAL = re.compile(r'[^"\\\x00-\x1f\x7f]*')
# Names of modules and parameters; free of everything that could end a quoted string.
QUALIFIED_NAME = re.compile(r"[\w.:/+@ -]{0,1024}")
OPERATOR = re.compile(r"torch\.ops\.(\w+)\.(\w+)(?:\.(\w+))?")


class ArchiveError(ValueError):
    """The archive is not a program that may be loaded; the message is one line with the reason."""


class MissingOperator(ArchiveError):
    """The program calls an operator of a library that isn't loaded here. The server may have it, for eager only:
    some of torchvision's and transformers', and what --operator-library names."""


def check_graph(program: dict[str, Any], notes: list[Any] | None = None) -> dict[str, Any]:
    """Returns the program's JSON without what is not needed, or raises ArchiveError.

    Where `notes` is given, what torch.export noted of each operator is appended to it, unchecked, and
    the operator keeps its number there, "node 17", as its stack trace.
    """
    if not isinstance(program, dict) or not isinstance(program.get("graph_module"), dict):
        raise ArchiveError("the graph is not an exported program: expected an object with graph_module")
    program = dict(program, guards_code=[], range_constraints=_of_symbols(program.get("range_constraints")))
    module = dict(program["graph_module"], metadata={}, treespec_namedtuple_fields={})
    use_plain_containers(module)
    module["graph"] = _without_metadata(module.get("graph"), notes, 0)
    if isinstance(module.get("signature"), dict):
        module["signature"] = dict(module["signature"])
    drop_fixed_values(module)
    program["graph_module"] = module
    try:
        _walk(program, "", "", 0)
    except RecursionError:
        raise ArchiveError("the graph is nested too deeply") from None
    return program


def _of_symbols(ranges: Any) -> Any:
    """Without those of expressions ("2*s77"), which follow from the symbols'."""
    if not isinstance(ranges, dict):
        return ranges
    return {key: value for key, value in ranges.items() if SYMBOL.fullmatch(key)}


def _without_metadata(value: Any, notes: list[Any] | None, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ArchiveError(f"the graph is nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        kept = {k: _without_metadata(v, notes, depth + 1) for k, v in value.items() if k != "metadata"}
        if "metadata" in value:
            kept["metadata"] = {}
            if notes is not None and "target" in value:
                kept["metadata"] = {"stack_trace": f"node {len(notes)}"}
                notes.append(value["metadata"])
        return kept
    if isinstance(value, list):
        return [_without_metadata(v, notes, depth + 1) for v in value]
    return value


def _walk(value: Any, key: str, where: str, depth: int) -> None:
    """Visits every leaf; `key` is the field it stands in, `where` the path for messages."""
    if depth > MAX_DEPTH:
        raise ArchiveError(f"the graph is nested more than {MAX_DEPTH} deep at {where[:200]}")
    if isinstance(value, dict):
        if key in ("as_custom_obj", "custom_obj", "as_script_object"):
            raise ArchiveError(f"{where}: custom objects are not accepted")
        for name, child in value.items():
            if not QUALIFIED_NAME.fullmatch(name):
                raise ArchiveError(f"{where}: expected a name, got {name[:60]!r}")
            if name == "custom_obj_values" and child:
                raise ArchiveError(f"{where}.{name}: custom objects are not accepted")
            # The keys of tables are names of values in the graph.
            if key.endswith("_values") and not IDENTIFIER.fullmatch(name):
                raise ArchiveError(f"{where}: expected an identifier, got {name[:60]!r}")
            _walk(child, name, f"{where}.{name}" if where else name, depth + 1)
    elif isinstance(value, list):
        for i, child in enumerate(value):
            _walk(child, key, f"{where}[{i}]", depth + 1)
    elif isinstance(value, str):
        _check_string(value, key, where)
    elif isinstance(value, int) and not -MAX_INT <= value <= MAX_INT:
        raise ArchiveError(f"{where}: expected a 64-bit integer, got one of {value.bit_length()} bits")


def _check_string(text: str, key: str, where: str) -> None:
    if len(text) > MAX_STRING:
        raise ArchiveError(f"{where}: a string of {len(text)} characters, expected at most {MAX_STRING}")
    if key in ("as_string", "as_strings"):
        # An argument of an operator, which the compiler may write between quotes into C++.
        if not LITERAL.fullmatch(text):
            raise ArchiveError(f"{where}: expected text without quotes and controls, got {text[:60]!r}")
    elif key == "expr_str":
        check_expression(text, where)
    elif key in ("target", "as_operator"):
        _check_operator(text, where)
    elif key in ("in_spec", "out_spec"):
        _check_tree(text, where)
    elif key in ("name", "as_name", "forward_arg_names"):
        if text and not IDENTIFIER.fullmatch(text):
            raise ArchiveError(f"{where}: expected an identifier, got {text[:60]!r}")
    elif not QUALIFIED_NAME.fullmatch(text):
        raise ArchiveError(f"{where}: expected a name, got {text[:60]!r}")


def _check_operator(text: str, where: str) -> None:
    if text in SCALAR_OPERATORS:
        return
    match = OPERATOR.fullmatch(text)
    if match:
        namespace, name, overload = match.groups()
        if namespace == "higher_order" and overload is None and name in HIGHER_ORDER:
            return
        if namespace in OPERATOR_NAMESPACES and overload and name not in FILE_OPERATORS:
            return
        if namespace not in OPERATOR_NAMESPACES | {"higher_order"} and overload:
            if is_known(f"{namespace}::{name}"):
                return
            raise MissingOperator(f"{namespace}::{name} is not one of torch's own operators, its library isn't here")
    raise ArchiveError(f"{where}: operator {text[:80]!r} is not accepted")


def _check_tree(text: str, where: str) -> None:
    try:
        version, spec = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise ArchiveError(f"{where}: not a tree specification: {text[:60]!r}") from None
    if version != 1:
        raise ArchiveError(f"{where}: tree specification of version 1 expected, got {str(version)[:20]!r}")
    _check_tree_node(spec, where, 0)


def _check_tree_node(node: Any, where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ArchiveError(f"{where}: nested more than {MAX_DEPTH} deep")
    if not isinstance(node, dict) or set(node) != {"type", "context", "children_spec"}:
        raise ArchiveError(f"{where}: a node of a tree specification expected, got {str(node)[:60]!r}")
    kind, context, children = node["type"], node["context"], node["children_spec"]
    if not isinstance(kind, (str, type(None))) or kind not in PLAIN:
        raise ArchiveError(
            f"{where}: values are passed in a {str(kind)[:80]!r}, expected tuples, lists and dictionaries"
        )
    if not isinstance(children, list):
        raise ArchiveError(f"{where}: a list of children expected, got {type(children).__name__}")
    if context is not None:
        _check_tree_context(kind, context, len(children), where)
    for child in children:
        _check_tree_node(child, where, depth + 1)


def _check_tree_context(kind: str | None, context: Any, children: int, where: str) -> None:
    try:
        keys = json.loads(context)
    except (ValueError, TypeError, RecursionError):
        raise ArchiveError(f"{where}: not a context: {str(context)[:60]!r}") from None
    if kind == "builtins.dict":
        if not isinstance(keys, list) or len(keys) != children:
            raise ArchiveError(f"{where}: a dictionary of {children} values needs as many keys")
        for key in keys:
            if not isinstance(key, str) or not QUALIFIED_NAME.fullmatch(key):
                raise ArchiveError(f"{where}: expected a name as key, got {str(key)[:60]!r}")
    elif keys is not None:
        raise ArchiveError(f"{where}: a {kind} has no context, got {str(context)[:60]!r}")


def check_expression(text: str, where: str) -> None:
    """Accepts arithmetic on sizes as torch prints it, refuses everything else that Python could evaluate."""
    if len(text) > MAX_EXPRESSION_BYTES or not text.isascii() or not text.isprintable():
        raise ArchiveError(f"{where}: not a size expression: {text[:60]!r}")
    try:
        arithmetic = _is_arithmetic(ast.parse(text, mode="eval").body, powers=0)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        arithmetic = False
    if not arithmetic:
        raise ArchiveError(f"{where}: not a size expression: {text[:60]!r}")


def _is_arithmetic(node: ast.expr, powers: int) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and abs(node.value) <= MAX_INT
    if isinstance(node, ast.Name):
        return node.id in EXPRESSION_WORDS or SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, (ast.USub, ast.UAdd)) and _is_arithmetic(node.operand, powers)
    if isinstance(node, ast.BinOp):
        if not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)):
            return False
        return _is_arithmetic(node.left, powers) and _is_arithmetic(node.right, powers)
    if isinstance(node, ast.Compare):
        return all(_is_arithmetic(n, powers) for n in (node.left, *node.comparators))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _is_known_call(node, node.func.id, powers)
    return False


def _is_known_call(node: ast.Call, name: str, powers: int) -> bool:
    if name == "Symbol":
        return (
            len(node.args) == 1
            and _is_text(node.args[0], SYMBOL)
            and all(
                k.arg
                and IDENTIFIER.fullmatch(k.arg)
                and isinstance(k.value, ast.Constant)
                and isinstance(k.value.value, bool)
                for k in node.keywords
            )
        )
    if name == "Float":
        return (
            len(node.args) == 1
            and _is_text(node.args[0], NUMBER)
            and all(k.arg == "precision" and _small_int(k.value, 128) for k in node.keywords)
        )
    if name not in EXPRESSION_FUNCTIONS or node.keywords:
        return False
    if name in POWERS:
        # Numbers that grow without bound are a way to stop a process.
        if powers >= 2 or len(node.args) != 2 or not _small_int(node.args[1], MAX_EXPONENT):
            return False
        powers += 1
    return all(_is_arithmetic(arg, powers) for arg in node.args)


def _is_text(node: ast.expr, pattern: re.Pattern[str]) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and pattern.fullmatch(node.value) is not None
    )


def _small_int(node: ast.expr, limit: int) -> bool:
    """An integer literal or Integer(n), of at most `limit` in size."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Integer":
        return len(node.args) == 1 and not node.keywords and _small_int(node.args[0], limit)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _small_int(node.operand, limit)
    return isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) <= limit
