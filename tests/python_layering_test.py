"""Holds the imports of the Python packages to a table, as layering_test.py does with the includes of server/.

Pure text: nothing is imported. An import counts wherever it stands, in a function and under TYPE_CHECKING
too. `violations` is also run on planted faults, so that this test cannot pass by seeing nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

# What each package may import of ours, besides itself, written from the ground up. Data flows the same way:
# a program is read, guarded and specialised, and a job has it compiled; the commands stand on top. Nothing may
# import from tests/ or deploy/.
ALLOWED: dict[str, set[str]] = {
    "compiler.program": set(),
    "compiler.guards": {"compiler.program"},
    "compiler.specialise": {"compiler.program", "compiler.guards"},
    "compiler.job": {"compiler.program", "compiler.guards", "compiler.specialise"},
    "compiler.sandbox": set(),
    "compiler.worker": {"compiler.guards", "compiler.job", "compiler.sandbox"},
    "compiler.explain": {"compiler.program", "compiler.guards", "compiler.specialise", "compiler.job"},
    "compiler.export": {"compiler.program"},
    "compiler.reference": {"compiler.program", "compiler.sandbox"},
    "loadtest.circumstances": set(),
    "loadtest.text_table": set(),
    "loadtest.environments": set(),
    "loadtest.servers": set(),
    "loadtest.benchmarks": {"compiler.program", "loadtest.circumstances", "loadtest.servers", "loadtest.text_table"},
    "loadtest.peers": {
        "loadtest.circumstances", "loadtest.text_table", "loadtest.environments", "loadtest.servers",
        "loadtest.benchmarks",
    },
    "loadtest.suite": {"loadtest.circumstances", "loadtest.text_table", "loadtest.servers"},
    "loadtest.coverage": {
        "loadtest.circumstances", "loadtest.text_table", "loadtest.environments", "loadtest.servers", "loadtest.suite",
    },
}
ROOTS = ("compiler", "loadtest", "deploy", "tests")
# Commands start without torch, which takes seconds to import, or before its environment is set up.
TORCH_LATER = {"compiler.guards", "compiler.specialise", "compiler.job", "compiler.worker", "compiler.explain"}


def module_name(path: Path, root: Path) -> str:
    """compiler/job/job.py → compiler.job.job; a package's __init__.py is the package."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(root: Path) -> dict[str, Path]:
    """Every module below the packages of the table, by name."""
    files = sorted(path for top in {name.split(".")[0] for name in ALLOWED} for path in (root / top).rglob("*.py"))
    return {module_name(path, root): path for path in files}


def package_of(module: str) -> str | None:
    """The entry of the table that a module belongs to."""
    fitting = [name for name in ALLOWED if module == name or module.startswith(name + ".")]
    return max(fitting, key=len, default=None)


def imports(path: Path, known: dict[str, Path], top_level: bool = False) -> Iterator[str]:
    """What a file imports, as absolute names: of `from a import b` the module a.b where there is one.
    `top_level`: only what is imported whenever the file is."""
    tree = ast.parse(path.read_text(), path)
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield "." * node.level + (node.module or "")
                continue
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module or ""


def violations(root: Path) -> list[str]:
    """Every broken rule below `root`."""
    known = modules(root)
    found: list[str] = []
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        package = package_of(name)
        if package is None:
            if name not in ROOTS:
                found.append(f"{name}: is in no known package")
            package = name
        graph[name] = set()
        for target in imports(path, known):
            if target.startswith("."):
                found.append(f"{name}: imports {target}, expected the whole name")
            if target.split(".")[0] not in ROOTS:
                continue
            other = package_of(target)
            if other != package and other not in ALLOWED.get(package, set()):
                found.append(f"{name}: imports {target}, but {package} may not see {other or target}")
            if target in known:
                graph[name].add(target)
        if package in TORCH_LATER and any(i.split(".")[0] == "torch" for i in imports(path, known, top_level=True)):
            found.append(f"{name}: imports torch at once, expected it in the functions that need it")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append(f"a circle: {' <- '.join(error.args[1])}")
    return found


def test_the_packages_are_layered() -> None:
    assert {package_of(name) for name in modules(REPOSITORY)} - {None} == set(ALLOWED)
    assert violations(REPOSITORY) == []


def test_the_table_has_no_circle() -> None:
    order = list(ALLOWED)
    for package, allowed in ALLOWED.items():
        assert all(order.index(below) < order.index(package) for below in allowed)


def plant(root: Path, files: dict[str, str]) -> None:
    """Writes a small tree that keeps all rules, then `files`."""
    clean = {
        "compiler/__init__.py": "",
        "compiler/program/__init__.py": "",
        "compiler/program/archive.py": "import torch\n",
        "compiler/guards/__init__.py": "",
        "compiler/guards/bounds.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n",
        "compiler/guards/proof.py": "from compiler.guards import bounds\n",
        "compiler/job/job.py": "from compiler.guards.proof import prove\n\ndef run():\n    import torch\n",
        "compiler/worker/parent.py": "from compiler.job.job import run\n",
        "compiler/export/source.py": "",
        "compiler/export/exporter.py": "import torch\nfrom compiler.export import source\n",
        "compiler/reference.py": "from compiler.program.archive import load_program\n",
        "loadtest/servers/process.py": "",
        "loadtest/suite/measure.py": "from loadtest.servers.process import free_ports\n",
    }
    for name, text in (clean | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_clean_tree_passes(tmp_path: Path) -> None:
    plant(tmp_path, {})
    assert violations(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("compiler/guards/x.py", "from compiler.job.job import run", "compiler.guards may not see compiler.job"),
        ("compiler/guards/x.py", "import compiler.job.job", "compiler.guards may not see compiler.job"),
        ("compiler/guards/x.py", "def f():\n    from compiler.job import job", "may not see compiler.job"),
        ("compiler/job/x.py", "from compiler.worker import parent", "compiler.job may not see compiler.worker"),
        ("compiler/export/x.py", "from compiler.job.job import Job", "compiler.export may not see compiler.job"),
        ("compiler/reference.py", "from compiler.job.job import Job", "compiler.reference may not see compiler.job"),
        ("compiler/worker/x.py", "from compiler.explain.report import explain", "may not see compiler.explain"),
        ("compiler/worker/x.py", "import tests.fakes.fake_worker", "may not see tests.fakes.fake_worker"),
        ("loadtest/suite/x.py", "from tests.integration.daemon import Daemon", "may not see tests.integration.daemon"),
        ("loadtest/servers/x.py", "from loadtest.peers import table", "loadtest.servers may not see loadtest.peers"),
        ("loadtest/peers/x.py", "import compiler.job.job", "loadtest.peers may not see compiler.job"),
        ("compiler/guards/x.py", "from . import bounds", "expected the whole name"),
        ("compiler/guards/x.py", "import torch", "imports torch at once"),
        ("compiler/guards/x.py", "from torch.fx import Node", "imports torch at once"),
        ("compiler/helpers.py", "", "compiler.helpers: is in no known package"),
        ("compiler/util/x.py", "", "compiler.util.x: is in no known package"),
        ("compiler/export/source.py", "def f():\n    from compiler.export import exporter", "a circle: "),
        ("compiler/guards/bounds.py", "import compiler.guards.proof", "a circle: "),
    ],
)  # fmt: skip
def test_a_planted_violation_is_found(tmp_path: Path, name: str, text: str, expected: str) -> None:
    plant(tmp_path, {name: text + "\n"})
    assert [v for v in violations(tmp_path) if expected in v]
