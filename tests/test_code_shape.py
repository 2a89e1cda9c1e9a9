"""The counting of `benchmarks.code_shape` on a small package whose numbers are known."""

from pathlib import Path

import pytest

from benchmarks.code_shape import importers, measure_source, read_modules

FILES = {
    "__init__.py": '"""The face."""\n\nfrom made_up.near.parts import Part\n\n__all__ = ["Part"]\n',
    "top.py": '''"""Uses the face and a relative import."""

from made_up import (
    Part,
)

from .near import shared


def build() -> Part:
    """A part."""
    # A comment is no code.
    return _make(shared.SIZE)


def _make(size: int) -> Part:
    return Part(_twice(size) + _twice(0))


def _twice(size: int) -> int:
    return 2 * size
''',
    "near/__init__.py": "",
    "near/parts.py": '''"""A dataclass and a plain class."""

from dataclasses import dataclass

from made_up.near.helper import CHECKED


@dataclass(frozen=True)
class Part:
    size: int
    """A field that is explained."""

    def checked(self) -> bool:
        return CHECKED


class Plain:
    pass
''',
    "near/helper.py": "CHECKED = True\n",
    "near/shared.py": "def size():\n    import made_up.far.shared as other\n\n    return other.SIZE\n\n\nSIZE = 1\n",
    "far/__init__.py": "",
    "far/shared.py": "SIZE = 2\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "made_up" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "made_up"


def test_importers_are_found_through_the_face_of_a_package(package: Path) -> None:
    assert importers(read_modules(package)) == {
        "made_up.near.parts": {"made_up.top"},  # not the package, which only passes the name on
        "made_up.near.helper": {"made_up.near.parts"},
        "made_up.near.shared": {"made_up.top"},
        "made_up.far.shared": {"made_up.near.shared"},
    }


def test_what_is_counted(package: Path) -> None:
    found = measure_source(package)
    assert found["files"] == 8
    assert found["files_under_40"] == 8
    assert found["lines"] == sum(len(text.splitlines()) for text in FILES.values())
    code = {"__init__": 2, "top": 10, "parts": 9, "helper": 1, "near/shared": 4, "far/shared": 1}
    assert found["code_lines"] == sum(code.values())
    assert found["import_lines_percent"] == pytest.approx(100 * 8 / 27, abs=0.05)
    assert found["modules_with_one_importer"] == 4
    assert found["of_these_in_its_folder"] == 1
    assert found["module_names_in_two_packages"] == 1
    assert (found["private_functions"], found["private_functions_used_once"]) == (2, 1)
    assert (found["functions"], found["functions_over_60"], found["function_median"]) == (5, 0, 2)
    assert (found["classes"], found["dataclasses"]) == (2, 1)
    assert found["dataclasses_per_1000_lines"] == round(1000 / 27, 1)
