"""The shipped recipes as YAML, one per system, with the published settings; the first line of each describes it."""

from importlib.resources import files
from pathlib import Path


def shipped_recipes() -> list[str]:
    """The names of the recipes that come with the package."""
    paths = files(__name__).iterdir()
    return sorted(path.name.removesuffix(".yaml") for path in paths if path.name.endswith(".yaml"))


def recipe_path(name: str) -> Path:
    """The file of a shipped recipe."""
    return Path(str(files(__name__) / f"{name}.yaml"))


def describe_recipes() -> dict[str, str]:
    """By name, what is special about each recipe: its first line, without the paper that it begins with."""
    lines = {}
    for name in shipped_recipes():
        with recipe_path(name).open(encoding="utf-8") as file:
            lines[name] = file.readline().partition(": ")[2].strip().removesuffix(".")
    return lines
