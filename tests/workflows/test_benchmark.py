"""`spanlab benchmark`: every engine answers the same inputs; an exported folder and a file of inputs work."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.workflows.benchmark import Rate, benchmark, open_engines, time_engines
from tests.cli.run import run_here


def test_a_rate_is_the_median_of_the_rounds() -> None:
    rate = Rate.of(10, [2.0, 1.0, 5.0])
    assert (rate.median, rate.low, rate.high) == (5.0, 2.0, 10.0)
    assert str(rate) == "5.0 (2.0 to 10.0)"


def test_engines_answer_in_turn_after_a_warm_up() -> None:
    asked: list[tuple[str, int]] = []
    runs = {name: lambda rows, name=name: asked.append((name, len(rows))) for name in ("a", "b")}
    timed = time_engines(runs, [1, 2], [1, 2, 3], 2)  # type: ignore[arg-type,list-item]
    one_round = [("a", 1), ("a", 1), ("a", 3), ("b", 1), ("b", 1), ("b", 3)]
    assert asked == one_round * 3
    assert all(len(alone) == len(together) == 2 for alone, together in timed.values())


def test_the_command_measures_every_precision_and_engine(tiny_model: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("the river rose\nshe won the race and the river fell\n" * 5)
    outcome = run_here("benchmark", str(tiny_model), "--input", str(texts), "--rounds", "1", "--json")
    assert outcome.returncode == 0, outcome.stderr
    result = json.loads(outcome.stdout)
    wanted = {"fp32", "int8"}
    wanted |= {"onnx fp32", "onnx int8"} if find_spec("onnxruntime") and find_spec("onnx") else set()
    wanted |= {"transformers"} if find_spec("transformers") else set()
    assert wanted <= result["engines"].keys(), result["left_out"]
    assert result["measured"] == "embeddings"
    assert result["threads"] >= 1
    assert result["texts"] == 10
    for speed in result["engines"].values():
        assert 0 < speed["bulk"]["low"] <= speed["bulk"]["median"] <= speed["bulk"]["high"]
        assert speed["tokens"] == pytest.approx(result["tokens_per_text"] * speed["bulk"]["median"])
    assert "round 1 of 1" in outcome.stderr


def test_an_exported_folder_is_an_engine(tiny_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from spanlab.inference.onnx_export import export_onnx

    export_onnx(tiny_model, tmp_path / "exported")
    result = benchmark(str(tmp_path / "exported"), rounds=1, seconds=0.01)
    assert list(result.engines) == ["onnx fp32"]
    assert result.tokens_per_text > 2


def test_what_is_not_installed_is_left_out_with_the_command(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanlab.workflows.benchmark.is_installed", lambda module: False)
    with open_engines(str(tiny_model), None, lambda line: None) as engines:
        assert {"fp32", "int8"} <= engines.runs.keys()
        assert engines.left_out == {"onnx": "pip install 'spanlab[onnx]'", "transformers": "pip install 'spanlab[hf]'"}


def test_an_empty_file_and_an_unknown_task_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    empty = tmp_path / "none.jsonl"
    empty.write_text("")
    with pytest.raises(InputError, match=r"none\.jsonl"):
        benchmark(str(tiny_model), source=str(empty), rounds=1)
    with pytest.raises(InputError, match="encoder only"):
        benchmark(str(tiny_model), task="ner", rounds=1)
