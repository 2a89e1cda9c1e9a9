"""How the code is divided into files, functions and types: counted from the source, and traced along two paths.

`python -m benchmarks.code_shape [--root CHECKOUT] [--static]` measures `CHECKOUT/src/spanlab`; without, this checkout.
Smaller is not better by itself; the numbers are for comparing two structures of the same program.

- Code lines are those that are neither blank, nor comment alone, nor part of a docstring. Import lines are the code
  lines of import statements, wherever they stand.
- A module's importers are the modules that name it, or something in it, in an import statement, also within functions
  and for type checking alone. A name that a package re-exports counts for the module it comes from, and the package
  that only passes it on is no importer.
- A private function is one of a module, not of a class, whose name begins with one underscore; its uses are the places
  of its own module that name it.
- A function's length is from `def` to its last line; methods and inner functions count.
- A path passes a file where the body of a function of that file ran. What runs only because a module is imported does
  not count. It passes a type where a method ran for an instance of it, `__init__` included.

Ends in one line `RESULT {json}`.
"""

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

PACKAGE = "spanlab"
HERE = Path(__file__).resolve()
LONG_FUNCTION = 60
Function = ast.FunctionDef | ast.AsyncFunctionDef
Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True, kw_only=True)
class Module:
    """A source file: its name as it is imported, its text and its syntax."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__` of a package."""
        return self.path.name == "__init__.py"

    @property
    def lines(self) -> int:
        """All lines of the file."""
        return len(self.text.splitlines())


def read_modules(package: Path) -> dict[str, Module]:
    """The modules of a package by name."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        modules[name] = Module(name=name, path=path, text=text, tree=ast.parse(text))
    return modules


# ---- lines


def code_lines(module: Module) -> set[int]:
    """The numbers of the lines that hold code."""
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in nothing:
            found.update(range(token.start[0], token.end[0] + 1))
    return found - docstring_lines(module.tree)


def docstring_lines(tree: ast.Module) -> set[int]:
    """The lines of strings that are statements: docstrings of all kinds, including those of fields."""
    lone = (node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    strings = (node for node in lone if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str))
    return {line for node in strings for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def count_lines(modules: Mapping[str, Module]) -> dict[str, Any]:
    """Files and lines."""
    lengths = [module.lines for module in modules.values()]
    code = imports = 0
    for module in modules.values():
        held = code_lines(module)
        spans = ((node.lineno, node.end_lineno or node.lineno) for node in import_statements(module))
        code += len(held)
        imports += len(held & {line for first, last in spans for line in range(first, last + 1)})
    return {
        "files": len(lengths),
        "lines": sum(lengths),
        "code_lines": code,
        "file_median": median(lengths),
        "files_under_80": sum(length < 80 for length in lengths),
        "files_under_40": sum(length < 40 for length in lengths),
        "import_lines_percent": percent(imports, code),
    }


# ---- importers


def import_statements(module: Module) -> Iterator[Import]:
    """All import statements, those within functions too."""
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.Import | ast.ImportFrom))


def imported_names(module: Module) -> Iterator[tuple[str, str | None]]:
    """(module, name in it) of each import; None where the module itself is imported."""
    for node in import_statements(module):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
            continue
        base = node.module or ""
        if node.level:
            parts = module.name.split(".")
            kept = len(parts) - node.level + module.is_package
            base = ".".join([*parts[:kept], *([node.module] if node.module else [])])
        yield from ((base, alias.name) for alias in node.names)


def home_of(
    base: str, name: str | None, modules: Mapping[str, Module], seen: frozenset[str] = frozenset()
) -> str | None:
    """The module of the package that an import is about, through what packages re-export; None for other packages."""
    if name is not None and f"{base}.{name}" in modules:
        return f"{base}.{name}"
    if base not in modules:
        return None
    if name is not None and modules[base].is_package and base not in seen:
        for inner, passed_on in imported_names(modules[base]):
            if passed_on == name:
                return home_of(inner, name, modules, seen | {base}) or base
    return base


def importers(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """The modules that import each module."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        passed_on = exported_names(module) if module.is_package else set()
        for base, name in imported_names(module):
            home = home_of(base, name, modules)
            if home is not None and home != module.name and name not in passed_on:
                found[home].add(module.name)
    return found


def exported_names(module: Module) -> set[str]:
    """What `__all__` lists."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return {str(name.value) for name in ast.walk(node.value) if isinstance(name, ast.Constant)}
    return set()


def count_importers(modules: Mapping[str, Module]) -> dict[str, Any]:
    """Modules that one other module imports, and those that lie in its folder."""
    single = {name: next(iter(users)) for name, users in importers(modules).items() if len(users) == 1}
    near = [name for name, user in single.items() if modules[name].path.parent == modules[user].path.parent]
    stems: defaultdict[str, set[Path]] = defaultdict(set)
    for module in modules.values():
        if not module.path.stem.startswith("__"):
            stems[module.path.stem].add(module.path.parent)
    return {
        "modules_with_one_importer": len(single),
        "of_these_in_its_folder": len(near),
        "module_names_in_two_packages": sum(len(places) > 1 for places in stems.values()),
    }


# ---- functions and types


def count_functions(modules: Mapping[str, Module]) -> dict[str, Any]:
    """Private functions used once, and how long functions are."""
    private = once = 0
    lengths = []
    for module in modules.values():
        uses = Counter(node.id for node in ast.walk(module.tree) if isinstance(node, ast.Name))
        for node in ast.walk(module.tree):
            if isinstance(node, Function):
                lengths.append((node.end_lineno or node.lineno) - node.lineno + 1)
        for node in module.tree.body:
            if isinstance(node, Function) and node.name.startswith("_") and not node.name.startswith("__"):
                private, once = private + 1, once + (uses[node.name] == 1)
    return {
        "private_functions": private,
        "private_functions_used_once": once,
        "functions": len(lengths),
        "function_median": median(lengths),
        "function_p90": round(quantiles(lengths, n=10)[-1]) if len(lengths) > 1 else lengths[0],
        "functions_over_60": sum(length > LONG_FUNCTION for length in lengths),
    }


def count_types(modules: Mapping[str, Module], code: int) -> dict[str, Any]:
    """Classes and dataclasses."""
    classes = [node for module in modules.values() for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    dataclasses = sum(any(map(is_dataclass_decorator, node.decorator_list)) for node in classes)
    per_thousand = round(1000 * dataclasses / code, 1) if code else 0.0
    return {"classes": len(classes), "dataclasses": dataclasses, "dataclasses_per_1000_lines": per_thousand}


def is_dataclass_decorator(node: ast.expr) -> bool:
    """`@dataclass`, `@dataclass(...)`, `@dataclasses.dataclass(...)`."""
    called = node.func if isinstance(node, ast.Call) else node
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name == "dataclass"


def percent(part: int, whole: int) -> float:
    """A share, to one digit."""
    return round(100 * part / whole, 1) if whole else 0.0


def measure_source(package: Path) -> dict[str, Any]:
    """Everything that is counted from the source of a package."""
    modules = read_modules(package)
    lines = count_lines(modules)
    types = count_types(modules, lines["code_lines"])
    return {**lines, **count_importers(modules), **count_functions(modules), **types}


# ---- the two paths


def measure_paths(root: Path) -> dict[str, Any]:
    """Files and types that a question and a sentence pass, each traced in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        trace(root, folder, "setup")
        traced = {**trace(root, folder, "question"), **trace(root, folder, "sentence")}
    counted = {f"{path}_{what}": len(found[what]) for path, found in traced.items() for what in ("files", "types")}
    return {**counted, "passed": traced}


def trace(root: Path, folder: str, path: str) -> dict[str, dict[str, list[str]]]:
    """What `traced_paths` finds along a path of the checkout at `root`."""
    script = HERE.with_name("traced_paths.py")
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-P", str(script), path, str(root / "src" / PACKAGE)],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{path} failed in {root}:\n{done.stderr}")
    found: dict[str, dict[str, list[str]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure a checkout and print it."""
    parser = argparse.ArgumentParser(description="How the code is cut into files, functions and types.")
    parser.add_argument("--root", type=Path, default=HERE.parents[1], help="the checkout to measure")
    parser.add_argument("--static", action="store_true", help="count the source only, trace nothing")
    parser.add_argument("--list", action="store_true", help="also print the files and types of each path")
    options = parser.parse_args()
    root = options.root.resolve()
    result = measure_source(root / "src" / PACKAGE)
    passed: dict[str, dict[str, list[str]]] = {}
    if not options.static:
        paths = measure_paths(root)
        passed = paths.pop("passed")
        result |= paths
    for name, value in result.items():
        print(f"{name.replace('_', ' '):34}{value:>10,}")
    if options.list:
        for path, found in passed.items():
            print(f"\n{path}", *found["files"], *found["types"], sep="\n  ")
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
