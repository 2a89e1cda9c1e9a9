"""Some thousands of mutated files; and every file that once escaped, forever."""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.cases import run_case, where
from tests.fuzz.runner import run
from tests.fuzz.targets import make_files, targets

pytestmark = pytest.mark.slow
REGRESSIONS = sorted(path for path in (Path(__file__).parent / "regressions").iterdir() if path.suffix != ".md")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "files"
    make_files(folder)
    return folder


def test_valid_files_are_read(files: Path) -> None:
    for target in targets(files):
        outcome = run_case(files, target, target.files[0], (files / target.files[0]).read_bytes())
        assert outcome.result == "read", (target.name, outcome.detail)


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.name)
def test_what_once_escaped(files: Path, path: Path) -> None:
    """The name of a file is TARGET__FILE__WHAT, with + for /."""
    name, file, _ = path.name.split("__")
    target = next(target for target in targets(files) if target.name == name)
    outcome = run_case(files, target, file.replace("+", "/"), path.read_bytes())
    assert not outcome.escaped, (outcome.result, outcome.detail)


def test_mutated_files_are_read_or_refused(files: Path) -> None:
    seed = int(os.environ.get("FUZZ_SEED", "20"))  # the same cases each time, so that a change is what makes it fail
    print(f"fuzzing with seed {seed}: python -m tests.fuzz --seed {seed}")  # noqa: T201 (shown where it fails)
    outcomes = list(run(files.parent, seed, range(4000), workers=1))
    assert len(outcomes) == 4000
    escapes = Counter(
        (outcome.target, outcome.file, outcome.result, where(outcome.detail), f"case {number}")
        for number, outcome in outcomes
        if outcome.escaped
    )
    assert not escapes, f"seed {seed}: {escapes}"
