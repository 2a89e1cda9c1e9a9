"""The list of skips at the end of a run, and its refusal in CI, in runs of pytest of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import read_patterns, refused

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import pytest

def test_passes():
    pass

@pytest.mark.parametrize("number", range(3))
def test_needs_a_machine(number):
    pytest.skip("no CPU affinity on this system")
"""
HOLE = "import pytest\npytest.importorskip('surely_not_installed_anywhere')\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text("from tests.skips import pytest_sessionfinish, pytest_terminal_summary\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    return tmp_path


def run(folder: Path, *options: str, ci: bool) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    environment.pop("SPANLAB_CI", None)
    if ci:
        environment["SPANLAB_CI"] = "true"
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a second instead of many
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-p", "no:cacheprovider", str(folder), *options]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_skips_are_listed_by_file_and_reason(folder: Path) -> None:
    outcome = run(folder, ci=True)
    assert outcome.returncode == 0, outcome.stdout
    assert "3  test_some.py: no CPU affinity on this system" in outcome.stdout
    assert "NOT ALLOWED" not in outcome.stdout


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "workers"])
def test_ci_refuses_a_skip_without_an_accepted_reason(folder: Path, workers: tuple[str, ...]) -> None:
    (folder / "test_hole.py").write_text(HOLE)
    elsewhere, in_ci = (run(folder, *workers, ci=ci) for ci in (False, True))
    assert elsewhere.returncode == 0, elsewhere.stdout
    assert in_ci.returncode == 1, in_ci.stdout
    (line,) = [line for line in in_ci.stdout.splitlines() if line.startswith("NOT ALLOWED")]
    assert "test_hole.py" in line
    assert "surely_not_installed_anywhere" in line
    assert "3  test_some.py: no CPU affinity on this system" in in_ci.stdout


def test_a_missing_extra_is_no_reason() -> None:
    skips = [("a.py", "the ray extra is not installed"), ("b.py", "no /data/here"), ("a.py", "wandb is not installed")]
    assert refused(skips, read_patterns()) == [
        ("a.py", "the ray extra is not installed"),
        ("a.py", "wandb is not installed"),
    ]
