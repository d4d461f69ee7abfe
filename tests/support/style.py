"""Rules of words, names, sizes and imports, each a function that yields what breaks it.

`python -m tests.support.style [PATH…]` prints the findings, of these paths or of everything.
"""

from __future__ import annotations

import ast
import functools
import gc
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Final

from tests.support.paths import ROOT

PACKAGES: Final = ("helix", "pipelines", "query", "workers")
RULES: Final[dict[str, Any]] = tomllib.loads((Path(__file__).with_suffix(".toml")).read_text("utf-8"))

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, *_FUNCTIONS)
_MESSAGE_CALLS: Final = re.compile(
    r"\w*(Error|Exception|Warning|Refused|Exit)|print|warn|warning|info|error|exception|debug|critical"
)
_MESSAGE_OPTIONS: Final = frozenset({"help", "description", "epilog", "remedy", "detail", "title", "message", "reason"})


@dataclass(frozen=True, order=True)
class Finding:
    """A place that breaks a rule."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


class Source:
    """A parsed Python file."""

    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(ROOT).as_posix()
        self.text = path.read_text("utf-8")
        self.nodes = tuple(ast.walk(ast.parse(self.text)))
        self.functions = [node for node in self.nodes if isinstance(node, _FUNCTIONS)]
        self.is_test = self.path.startswith("tests/")


# ---------------------------------------------------------------- words


def read_passages(source: Source) -> Iterator[tuple[int, str]]:
    """Yield what a person reads in a file, each with its first line: docstrings, comments, messages."""
    for node in source.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
        elif isinstance(node, ast.Call):
            yield from _read_messages(node)
    yield from _read_comments(source.text)


def get_docstring(node: ast.AST) -> ast.Constant | None:
    """Return the docstring of a module, class or function."""
    body = getattr(node, "body", []) if isinstance(node, _DOCUMENTED) else []
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        constant = body[0].value
        return constant if isinstance(constant.value, str) else None
    return None


def _read_messages(call: ast.Call) -> Iterator[tuple[int, str]]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given: list[ast.expr] = [option.value for option in call.keywords if option.arg in _MESSAGE_OPTIONS]
    if _MESSAGE_CALLS.fullmatch(name):
        given += call.args
    for value in given:
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value


def _read_comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments; those on lines of their own that follow each other are one."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if block and (line != last + 1 or token.line[: token.start[1]].strip()):
            yield first, "\n".join(block)
            block = []
        if not block:
            first = line
        block.append(token.string.lstrip("# "))
        last = line
    if block:
        yield first, "\n".join(block)


_PHRASES: Final = re.compile(
    r"\b(?:"
    + "|".join(phrase.replace(" ", r"\s+") for phrase in sorted(RULES["avoid"], key=len, reverse=True))
    + r")\b",
    re.IGNORECASE,
)
_OPENING: Final = re.compile(r"(?:^|(?<=[.!?:]\s))What\s+is\b")
_CODE: Final = re.compile(r"(`+)[^`]*\1")


def _check_passage(path: str, line: int, text: str, rule: str = "words") -> Iterator[Finding]:
    text = _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
    for match in (*_PHRASES.finditer(text), *_OPENING.finditer(text)):
        phrase = " ".join(match[0].lower().split())
        advice = f"“{phrase}”: {RULES['avoid'].get(phrase, 'open with the subject')}"
        yield Finding(path, line + text.count("\n", 0, match.start()), rule, advice)


def check_words(source: Source) -> Iterator[Finding]:
    """Find phrases to avoid."""
    for line, text in read_passages(source):
        yield from _check_passage(source.path, line, text)


def check_documents() -> Iterator[Finding]:
    """Find phrases to avoid in documents, outside of fenced blocks."""
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = re.sub(r"^(```+).*?^\1", lambda m: "\n" * m[0].count("\n"), path.read_text("utf-8"), flags=re.M | re.S)
        yield from _check_passage(path.relative_to(ROOT).as_posix(), 1, text, "documents")


def check_openings(source: Source) -> Iterator[Finding]:
    """Find docstrings that open with a question word."""
    for node in source.nodes:
        if (text := get_docstring(node)) is not None:
            first = re.match(r"\W*(\w+)", text.value)
            if first and first[1].lower() in RULES["openings"]["docstring"]:
                yield Finding(source.path, text.lineno, "openings", text.value.strip().split("\n")[0])


# ---------------------------------------------------------------- names

_WORDS: Final = {key: frozenset(value.split()) for key, value in RULES["names"].items()}
_BARE: Final = _WORDS["participles"] | _WORDS["obliques"]


def check_function_names(source: Source) -> Iterator[Finding]:
    """Find functions whose name has no verb and no noun."""
    for function in source.functions:
        name = function.name.strip("_")
        words = name.split("_")
        is_participle = name.endswith("ed") and len(words) == 1
        is_bad = name in _BARE or is_participle or words[0] in _WORDS["prefixes"]
        if is_bad and name not in _WORDS["allowed"] and not function.name.endswith("__"):
            yield Finding(source.path, function.lineno, "function names", function.name)


def check_test_names(source: Source) -> Iterator[Finding]:
    """Find tests named by a clause in place of a statement."""
    for function in source.functions:
        words = function.name.split("_")
        if words[0] == "test" and words[1:2] and words[1] in RULES["openings"]["test"]:
            yield Finding(source.path, function.lineno, "test names", function.name)


def list_classes(source: Source) -> Iterator[Finding]:
    """Yield every class of the code, to be compared with the others."""
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and not source.is_test:
            yield Finding(source.path, node.lineno, "class names", node.name)


# ---------------------------------------------------------------- sizes


def check_sizes(source: Source) -> Iterator[Finding]:
    """Find modules, functions and classes that are too long; files of tests may be longer."""
    limits = RULES["sizes"]
    lines = source.text.count("\n")
    is_support = source.path.startswith("tests/support/")
    if lines > limits["module"] and (is_support or not source.is_test):
        yield Finding(source.path, 1, "sizes", f"module of {lines} lines, at most {limits['module']}")
    for node in source.nodes:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            if (lines := (node.end_lineno or 0) - node.lineno + 1) > limits[kind]:
                text = f"{kind} {node.name} of {lines} lines, at most {limits[kind]}"
                yield Finding(source.path, node.lineno, "sizes", text)


# ---------------------------------------------------------------- imports


def check_circles() -> Iterator[Finding]:
    """Find circles of files; imports for types only and inside of functions count."""
    import grimp

    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    while True:
        try:
            TopologicalSorter(imports).prepare()
        except CycleError as error:
            circle = error.args[1]  # each is imported by the next
            target, importer = circle[0], circle[1]
            details = graph.get_import_details(importer=importer, imported=target)
            text = " → ".join(reversed(circle))
            yield Finding(_path_of(importer), details[0]["line_number"] if details else 1, "circles", text)
            imports[importer].discard(target)
        else:
            return


def _path_of(module: str) -> str:
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if (ROOT / path).is_dir() else f"{path}.py"


def check_dynamic_imports(source: Source) -> Iterator[Finding]:
    """Find imports of a name that is put together at run time."""
    if source.is_test or source.path in RULES["imports"]["dynamic"]:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("import_module", "__import__") and not isinstance(node.args[0], ast.Constant):
                yield Finding(source.path, node.lineno, "dynamic imports", ast.unparse(node))


def check_package_imports(source: Source) -> Iterator[Finding]:
    """Find packages whose `__init__.py` imports their own modules.

    Two threads that import such a package and one of its modules at once get a module without its names. The package
    `helix` itself is imported before there are threads.
    """
    package = source.path.removesuffix("/__init__.py").replace("/", ".")
    if source.is_test or not source.path.endswith("/__init__.py") or "." not in package:
        return
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{package}."):
            yield Finding(source.path, node.lineno, "package imports", ast.unparse(node))


# ---------------------------------------------------------------- all of them

_OF_A_FILE: Final[tuple[Callable[[Source], Iterator[Finding]], ...]] = (
    check_words, check_openings, check_function_names, check_test_names, list_classes, check_sizes,
    check_dynamic_imports, check_package_imports,
)  # fmt: skip
CHECKS: Final = (
    "words", "documents", "openings", "function names", "test names", "class names", "sizes", "circles",
    "dynamic imports", "package imports",
)  # fmt: skip


@functools.cache
def find_all() -> Mapping[str, Sequence[Finding]]:
    """Return the findings of every rule, sorted, by the rule's name."""
    found: dict[str, list[Finding]] = {rule: [] for rule in CHECKS}
    gc.disable()  # it would walk every syntax tree, again and again
    try:
        for folder in (*PACKAGES, "tests"):
            for path in sorted((ROOT / folder).rglob("*.py")):
                source = Source(path)
                for check in _OF_A_FILE:
                    for finding in check(source):
                        found[finding.rule].append(finding)
    finally:
        gc.enable()
    counts = Counter(finding.text for finding in found["class names"])
    found["class names"] = [
        finding
        for finding in found["class names"]
        if counts[finding.text] > 1 and finding.text not in _WORDS["repeated"]
    ]
    found["documents"] += check_documents()
    found["circles"] += check_circles()
    return {rule: sorted(findings) for rule, findings in found.items()}


def main(*paths: str) -> int:
    """Print the findings and their number by rule; return 1 where there are some."""
    counts: Counter[str] = Counter()
    for rule, findings in find_all().items():
        for finding in findings:
            if not paths or finding.path.startswith(tuple(path.rstrip("/") for path in paths)):
                print(finding)
                counts[rule] += 1
    print(", ".join(f"{count} {rule}" for rule, count in counts.items()) or "no findings")
    return min(len(counts), 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
