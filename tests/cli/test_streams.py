"""Commands with closed, broken, full or narrow standard streams: one line, and an exit code that tells."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.test_folders_written_before import DATA

pytestmark = pytest.mark.slow  # a process each
CLASSIFIER = str(DATA / "tasks" / "classification")


def shell(arguments: str, *given: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`spanlab …` with redirections, as a shell runs it; `given` are its $1, $2, …"""
    command = f'set -o pipefail; "{sys.executable}" -m spanlab {arguments}'
    return subprocess.run(
        ["bash", "-c", command, "bash", *given],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
    )


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("streams") / "texts.txt"
    path.write_text("Anna sold the flour in Delft\n" * 3000)
    return str(path)


@pytest.mark.parametrize(
    "arguments", ["--version", "--help", "doctor", "almanac show", "recipe --help", 'predict "$1" --input "$2"']
)
def test_a_closed_output_is_one_line(arguments: str, texts: str) -> None:
    done = shell(f"{arguments} >&-", CLASSIFIER, texts)
    assert "Traceback" not in done.stderr
    assert done.returncode in {1, 2}, done.stderr
    if arguments != "recipe --help":
        assert done.stderr == "spanlab: standard output is closed; redirect it to a file, or to /dev/null\n"


def test_a_closed_input_is_one_line(texts: str) -> None:
    done = shell('predict "$1" <&-', CLASSIFIER)
    assert done.returncode == 2
    assert done.stderr == "spanlab: standard input is closed; name a file, or connect it with a pipe\n"
    assert shell('predict "$1" --input "$2" <&- >/dev/null', CLASSIFIER, texts).returncode == 0


def test_all_streams_closed(texts: str, tmp_path: Path) -> None:
    """What is written to files is whole: none of them is opened as a standard stream."""
    done = shell('predict "$1" --input "$2" --output "$3" <&- >&- 2>&-', CLASSIFIER, texts, str(tmp_path / "out.jsonl"))
    assert done.returncode == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 3000
    assert shell('predict "$1" <&- >&- 2>&-', CLASSIFIER).returncode == 2


def test_a_reader_that_leaves_is_no_error_to_report(texts: str) -> None:
    done = shell('predict "$1" --input "$2" --json | head -1; exit ${PIPESTATUS[0]}', CLASSIFIER, texts)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
    assert done.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_the_output_is_named(texts: str) -> None:
    for arguments in ('predict "$1" --input "$2" --json', "almanac show"):
        done = shell(f"{arguments} > /dev/full", CLASSIFIER, texts)
        assert done.returncode == 2
        assert done.stderr == (
            "spanlab: standard output: the disk is full; free some space and run the command again\n"
        )


def test_characters_that_a_terminal_lacks_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"id": "№ 한", "text": "Anna"}\n', encoding="utf-8")
    done = shell('predict "$1" --input "$2" --json', CLASSIFIER, str(path), PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert '"id": "\\u2116 \\ud55c"' in done.stdout
