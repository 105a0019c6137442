"""Holds the manuals to the tree: links and anchors lead somewhere, paths exist, tables are complete.

Pure text, no build needed. `broken` is also run on planted faults, so that this test cannot pass by
seeing nothing. What needs the built programs (options and commands against --help) is in
tests/integration/test_manual_options.py.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
README_LINES = 250

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|<img[^>]*\ssrc=\"([^\"]+)\"|<source[^>]*\ssrcset=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
# Not what goes on with a placeholder, such as results/suite_<date>.json.
PATH = re.compile(r"(?<![\w./$<>-])[\w.+*-]+(?:/[\w.+*-]+)+/?(?![\w<…])")
MODULE = re.compile(r"python -m ((?:compiler|loadtest|tests)\.[\w.]+)")


def tracked() -> set[str]:
    """Every file of the repository, and every folder that holds one."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    paths = {path for path in listed if (REPOSITORY / path).exists()}
    return paths | {str(folder) for path in paths for folder in PurePosixPath(path).parents}


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", ""))
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    return {slug(heading) for heading in HEADING.findall(FENCE.sub("", text))}


def resolve(folder: PurePosixPath, target: str) -> str:
    """A path from a manual's folder, as a path from the repository's root; "" when it leaves that."""
    parts: list[str] = []
    for part in (folder / target).parts:
        if part == "..":
            if not parts:
                return ""
            parts.pop()
        else:
            parts.append(part)
    return str(PurePosixPath(*parts))


def broken_links(name: str, text: str, paths: set[str], texts: dict[str, str]) -> Iterator[str]:
    for target in (next(filter(None, match)) for match in LINK.findall(FENCE.sub("", text))):
        if re.match(r"https?://", target):
            continue
        file, _, anchor = target.partition("#")
        path = resolve(PurePosixPath(name).parent, file) if file else name
        if path not in paths:
            yield f"{name}: link to {target}, which does not exist"
        elif anchor and anchor not in anchors(texts.get(path, "")):
            yield f"{name}: link to {target}, but {path} has no such heading"


def exists(path: str, paths: set[str]) -> bool:
    if "*" in path:
        return any(PurePosixPath(known).match(path) for known in paths)
    return path.rstrip("/") in paths


def broken_paths(name: str, text: str, paths: set[str]) -> Iterator[str]:
    """Paths in backticks and in commands: those that begin with a folder of the repository, or one beside
    the manual."""
    folder = str(PurePosixPath(name).parent)
    fenced = {word for fence in FENCE.findall(text) for word in PATH.findall(fence)}
    inline = {word for code in CODE.findall(FENCE.sub("", text)) for word in PATH.findall(code)}
    for word in sorted(fenced | inline):
        first = word.split("/")[0]
        if first in (".", ".."):
            continue
        from_root = first in paths
        beside = resolve(PurePosixPath(folder), first) in paths and word in inline
        if not from_root and not beside:
            continue
        if exists(word, paths) or exists(resolve(PurePosixPath(folder), word), paths):
            continue
        yield f"{name}: names {word}, which does not exist"


def broken_modules(name: str, text: str, paths: set[str]) -> Iterator[str]:
    for module in sorted(set(MODULE.findall(text))):
        path = module.rstrip(".").replace(".", "/")
        if f"{path}.py" not in paths and f"{path}/__main__.py" not in paths:
            yield f"{name}: names the module {module}, which does not exist"


def broken(texts: dict[str, str], paths: set[str]) -> list[str]:
    """What is wrong in the manuals, one line each. `texts`: by path from the root."""
    return [
        line
        for name, text in texts.items()
        for line in (
            *broken_links(name, text, paths, texts),
            *broken_paths(name, text, paths),
            *broken_modules(name, text, paths),
        )
    ]


def manuals() -> dict[str, str]:
    return {path: (REPOSITORY / path).read_text() for path in sorted(tracked()) if path.endswith(".md")}


def section(manual: str, heading: str) -> str:
    text = (REPOSITORY / manual).read_text()
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_links_paths_and_modules() -> None:
    wrong = broken(manuals(), tracked())
    assert not wrong, "\n".join(wrong)


def test_every_folder_has_its_manual() -> None:
    folders = {path.split("/")[0] for path in tracked() if "/" in path and not path.startswith(".")}
    assert not [folder for folder in sorted(folders) if not (REPOSITORY / folder / "README.md").exists()]


def test_the_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= README_LINES


# "`rpc/tensor_codec.cc` DecodeRequest": what a path's table says of a file.
STOP = re.compile(r"`([\w/]+\.cc)` ([A-Z]\w+)")


def misplaced(text: str, server: Path) -> list[str]:
    """Functions that the architecture's tables look for in files that have none of that name."""
    return [
        f"{file} has no {function}"
        for file, function in STOP.findall(text)
        if not re.search(rf"\b{function}\(", (server / file).read_text())
    ]


def test_the_paths_name_what_their_files_define() -> None:
    text = (REPOSITORY / "server/README.md").read_text()
    assert len(STOP.findall(text)) > 8
    assert misplaced(text, REPOSITORY / "server") == []
    wrong = "`rpc/infer_call.cc` NoSuchThing"
    assert misplaced(wrong, REPOSITORY / "server") == ["rpc/infer_call.cc has no NoSuchThing"]


def yaml_fields() -> set[str]:
    """Every name that the readers of model.yaml know."""
    names: set[str] = set()
    for path in (REPOSITORY / "server/repository").glob("*yaml*.cc"):
        text = path.read_text()
        for known in re.findall(r"Map\(\s*\{(\"[^}]*)\}\s*\)|vector<std::string>\{(\s*\"[^}]*)\}", text):
            names |= set(re.findall(r'"(\w+)"', "".join(known)))
    return names


def test_every_field_of_model_yaml_is_explained() -> None:
    known = yaml_fields()
    assert {"ready_when", "graphs", "precision", "pad_value", "timeout_action", "rms"} <= known
    table = "\n".join(section("config/README.md", title) for title in ("Fields of model.yaml", "Pipelines"))
    first_cells = "\n".join(re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE))
    documented = set(re.findall(r"\w+", re.sub(r"<\w+>", "", " ".join(CODE.findall(first_cells)))))
    in_text = set(re.findall(r"`graphs\.(\w+)`", table))
    assert documented | in_text == known
    example = (REPOSITORY / "config/model.yaml").read_text()
    assert not [name for name in sorted(known) if not re.search(rf"\b{name}\b", example)]


GOOD = {
    "README.md": "# Title\n[a](sub/README.md#two-words) [b](#title) `sub/file.txt` `other/thing`\n"
    "```\nsub/file.txt --flag\npython -m compiler.export\n```\n",
    "sub/README.md": "# Manual\n## `Two` words!\n[up](../README.md) `rooms/a.cc` `rooms/*.cc` [w](https://x.y/z)\n",
}
GOOD_PATHS = {"README.md", "sub", "sub/README.md", "sub/file.txt", "sub/rooms", "sub/rooms/a.cc", "compiler",
              "compiler/export.py", "."}  # fmt: skip


def test_a_clean_tree_passes() -> None:
    assert broken(GOOD, GOOD_PATHS) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("README.md", "[a](sub/none.md)", "link to sub/none.md, which does not exist"),
        ("README.md", "[a](sub/README.md#no-words)", "sub/README.md has no such heading"),
        ("README.md", "[a](#nothing)", "README.md has no such heading"),
        ("README.md", "```\n# title\n```\n[a](#title)", "README.md has no such heading"),
        ("README.md", "![a](sub/picture.svg)", "link to sub/picture.svg"),
        ("README.md", '<img alt="" src="sub/picture.svg">', "link to sub/picture.svg"),
        ("sub/README.md", "[a](../../README.md)", "which does not exist"),
        ("README.md", "see `sub/gone.cc`", "names sub/gone.cc"),
        ("README.md", "```\n$ sub/gone.sh --flag\n```", "names sub/gone.sh"),
        ("sub/README.md", "`rooms/b.cc`", "names rooms/b.cc"),
        ("sub/README.md", "`rooms/*.h`", "names rooms/*.h"),
        ("README.md", "`python -m compiler.none`", "the module compiler.none"),
    ],
)
def test_a_planted_fault_is_found(name: str, text: str, expected: str) -> None:
    wrong = broken({**GOOD, name: text}, GOOD_PATHS)
    assert [line for line in wrong if line.startswith(f"{name}: ") and expected in line]
