"""`spanlab fill`: what it prints, and how it refuses."""

import json
from pathlib import Path

import pytest

from tests.cli.run import run_spanlab
from tests.inference.models import make_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_folder(tmp_path_factory.mktemp("model"), sbo={"max_span": 2}))


def test_both_heads_side_by_side(model: str) -> None:
    done = run_spanlab("fill", model, "The old [MASK] [MASK] [MASK] went out", "--top", "2", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "run 1 of 1, characters 8 to 28: 3 masks"
    assert lines[1].split() == ["mask", "by", "MLM", "by", "SBO"]
    shown = [line.split() for line in lines[2:8]]
    assert [cells[0] for cells in shown[::2]] == ["1", "2", "3"]
    assert shown[4][3:] == ["—"]  # deeper than the span boundary head knows
    assert [line.split(":")[0] for line in lines[8:10]] == ["best filling by MLM", "best filling by MLM and SBO"]
    assert lines[-1].startswith("The old")
    assert lines[-1].endswith("went out")
    assert done.stderr.strip() == "the sbo head takes spans of up to 2 tokens; it has no candidates for the last 1"


def test_json_is_the_result(model: str) -> None:
    done = run_spanlab("fill", model, "The [MASK] out", "--top", "3", "--json")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    (place,) = run["places"]
    assert (place["start"], place["end"]) == (4, 10)
    assert len(place["mlm"]) == len(place["sbo"]) == len(run["fillings"]["mlm"]) == 3
    assert set(place["mlm"][0]) == {"token", "text", "begins_word", "probability"}


def test_one_head_is_one_column(tmp_path: Path) -> None:
    done = run_spanlab("fill", str(make_folder(tmp_path)), "The [MASK]")
    assert done.returncode == 0, done.stderr
    assert "SBO" not in done.stdout
    assert "no sbo head" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [("nothing to do", "spanlab: the text has no mask; write [MASK] for every token to be filled in"),
     ("[MASK] " * 70, "spanlab: the text has 72 tokens, special ones included, and the model takes 64; "
      "shorten the text; keep what is near the masks")],
)  # fmt: skip
def test_wrong_texts(text: str, message: str, model: str) -> None:
    done = run_spanlab("fill", model, text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == message


def test_a_model_without_the_head(tmp_path: Path) -> None:
    done = run_spanlab("fill", str(make_folder(tmp_path, mlm=False)), "The [MASK]")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no mlm head" in done.stderr
    assert "cannot fill masks" in done.stderr
