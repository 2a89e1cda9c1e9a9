"""The shipped studies as YAML; the first line of each says what it compares, the second is its command."""

from importlib.resources import files
from pathlib import Path


def shipped_studies() -> list[str]:
    """The names of the studies that come with the package."""
    paths = files(__name__).iterdir()
    return sorted(path.name.removesuffix(".yaml") for path in paths if path.name.endswith(".yaml"))


def study_path(name: str) -> Path:
    """The file of a shipped study."""
    return Path(str(files(__name__) / f"{name}.yaml"))


def describe_studies() -> dict[str, str]:
    """By name, what each study compares: its first line."""
    lines = {}
    for name in shipped_studies():
        with study_path(name).open(encoding="utf-8") as file:
            lines[name] = file.readline().removeprefix("# ").strip().removesuffix(".")
    return lines
