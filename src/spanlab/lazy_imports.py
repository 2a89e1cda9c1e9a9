"""Names of a package that are imported when they are first used.

`import spanlab` and `spanlab --help` must be quick, so a package names where things live instead of importing them.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names live in its modules `homes`."""

    def getter(name: str) -> Any:  # noqa: ANN401 (any public name)
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return getter, lambda: sorted(homes)
