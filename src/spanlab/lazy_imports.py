"""Names of a package that are imported on first use.

`import spanlab` and `spanlab --help` must be fast, so a package lists where its names are defined instead of importing
them.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package; `modules` says which of its modules defines each name."""

    def getter(name: str) -> Any:  # noqa: ANN401 (any public name)
        if name in modules:
            return getattr(import_module(f"{package}.{modules[name]}"), name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return getter, lambda: sorted(modules)
