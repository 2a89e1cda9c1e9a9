"""Exported folders answer as the models they were made from, without torch, and say what is wrong with them."""

import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spanlab
import spanlab.models
from spanlab.errors import InputError, SpanlabError
from spanlab.inference.predictor import Predictor
from spanlab.tasks.coref import host_links
from spanlab.tasks.relation import host_pairs
from tests.cli.run import run_here
from tests.compat.examples import READ
from tests.test_imports import without_torch
from tests.tiny_model import write_tiny_model

pytest.importorskip("onnx", reason="the onnx extra is not installed")
pytest.importorskip("onnxruntime", reason="the onnx extra is not installed")

DATA = Path(__file__).parent.parent / "compat" / "data"
REFUSED = {
    "classification-elmo": "a elmo encoder cannot be exported",
    "qa-xlnet": "a xlnet encoder cannot be exported",
    "generation-both": "'generation' generates text token by token",
    "generation-causal": "'generation' generates text token by token",
}
NAMES = sorted(path.stem for path in (DATA / "tasks").glob("*.json") if path.stem not in REFUSED)
CLOSE = 1e-4
TEXTS = [*READ, "", "x", "the mayor of Oslo sold the nets " * 40, "Anna"]


def export(model: Path, out: Path, **options: bool) -> Path:
    from spanlab.inference.onnx_export import export_onnx

    export_onnx(model, out, **options)
    return out


def cases(name: str) -> list[tuple[str | None, Any]]:
    told = json.loads((DATA / "tasks" / f"{name}.json").read_text(encoding="utf-8"))
    return [(case["task"], case["input"]) for case in told]


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        yield f"{place}#", len(value)
        for index, item in enumerate(value):
            yield from leaves(item, f"{place}[{index}]")
    else:
        yield place, value


def assert_same(found: Any, expected: Any) -> None:
    """Labels, texts and offsets are the same, scores within `CLOSE`."""
    ours, theirs = dict(leaves(expected.to_dict())), dict(leaves(found.to_dict()))
    assert type(found) is type(expected)
    assert theirs.keys() == ours.keys()
    for place, value in ours.items():
        if isinstance(value, float):
            assert theirs[place] == pytest.approx(value, abs=CLOSE), place
        else:
            assert theirs[place] == value, place


def assert_alike(model: Predictor, exported: Predictor, asked: list[tuple[str | None, Any]]) -> None:
    assert exported.tasks == model.tasks
    for task, item in asked:
        (expected,), (found,) = (side.predict([item], task=task) for side in (model, exported))
        assert_same(found, expected)


@pytest.mark.parametrize("name", NAMES)
def test_every_task_answers_as_in_torch(name: str, tmp_path: Path) -> None:
    model = spanlab.load(DATA / "tasks" / name, device="cpu", precision="fp32")
    exported = spanlab.load(export(DATA / "tasks" / name, tmp_path / "out"))
    assert_alike(model, exported, cases(name))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=REFUSED[name]):
        export(DATA / "tasks" / name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["bert", "roberta", "albert", "electra", "gpt", "spanbert"])
def test_every_architecture_embeds_as_in_torch(name: str, tmp_path: Path) -> None:
    model = spanlab.load(DATA / "models" / name, device="cpu", precision="fp32")
    exported = spanlab.load(export(DATA / "models" / name, tmp_path / "out"))
    np.testing.assert_allclose(exported.encode(TEXTS), model.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(exported.encode(TEXTS[0]), model.encode(TEXTS[0]), atol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"architecture": "modernbert", "positions": "rotary", "segments": 0, "pooler": False, "local_window": 8}
        | {"global_every": 2, "norm_place": "pre", "final_norm": True, "first_attention_norm": False, "layers": 3},
        {"embedding_width": 16, "layer_groups": 1},
        {"norm": "rms", "feed_forward": "glu", "activation": "silu", "positions": "sinusoidal"},
    ],
    ids=["local", "shared", "gated"],
)
def test_padding_changes_nothing(settings: dict[str, Any], tmp_path: Path) -> None:
    """One text at a time has no padding; together, the shorter ones have."""
    model = write_tiny_model(tmp_path / "model", **settings)
    torch_side, exported = spanlab.load(model, precision="fp32"), spanlab.load(export(model, tmp_path / "out"))
    expected = np.stack([torch_side.encode(text) for text in TEXTS])
    np.testing.assert_allclose(exported.encode(TEXTS), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["coref", "relation-pairs", "relation-joint"])
def test_blocks_of_rows_change_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = spanlab.load(DATA / "tasks" / name, device="cpu", precision="fp32")
    exported = spanlab.load(export(DATA / "tasks" / name, tmp_path / "out"))
    monkeypatch.setattr(host_links, "_MENTION_ROWS", 3)
    monkeypatch.setattr(host_links, "_CANDIDATE_ROWS", 7)
    monkeypatch.setattr(host_pairs, "_MAX_PAIRS", 2)
    assert_alike(model, exported, cases(name))


def test_several_tasks_of_a_text_are_predicted_together(tmp_path: Path) -> None:
    folder = DATA / "tasks" / "multitask"
    sides = [spanlab.load(folder, precision="fp32"), spanlab.load(export(folder, tmp_path / "out"))]
    ours, theirs = (side.predict(READ * 5, task=["topics", "names"]) for side in sides)
    for expected, found in zip(ours, theirs, strict=True):
        for task in ("topics", "names"):
            assert_same(found[task], expected[task])


def test_a_task_with_adapters_costs_no_second_encoder(tmp_path: Path) -> None:
    out = export(DATA / "tasks" / "added", tmp_path / "out")
    described = json.loads((out / "spanlab.json").read_text(encoding="utf-8"))["onnx"]
    encoders = {task["encoder"] for task in described["tasks"].values()}
    assert len(encoders) > 1
    assert described["opset"] == 17
    assert described["graphs"]["encoder.onnx"]["inputs"][:2] == ["input_ids", "lengths"]
    alone = export(DATA / "models" / "spanbert", tmp_path / "alone")
    sizes = [(folder / "weights.bin").stat().st_size for folder in (out, alone)]
    assert sizes[0] < 2 * sizes[1]


@pytest.mark.slow
@pytest.mark.usefixtures("minilm")
def test_the_reader_answers_as_in_torch(tmp_path: Path) -> None:
    """Eight tasks, seven of them with adapters, in a folder that is not twice as large as the encoder."""
    exported = spanlab.load(export(Path(spanlab.models.__file__).parent / "reader", tmp_path / "out"))
    model = spanlab.load("reader", device="cpu", precision="fp32")
    text = "Ada Lovelace met Charles Babbage in London in June 1833. He showed her his engine, and she wrote about it."
    inputs: dict[str, Any] = dict.fromkeys(model.tasks, text)
    inputs |= {"qa": {"question": "Who showed her the engine?", "context": text}, "similarity": (text, "An engine.")}
    inputs["summary"] = {"sentences": text.split(". ")}
    assert_alike(model, exported, list(inputs.items()))
    assert (tmp_path / "out" / "weights.bin").stat().st_size < 2 * 90e6


def test_int8_is_of_the_encoder_alone(tmp_path: Path) -> None:
    import onnx

    folder = DATA / "tasks" / "multitask"
    out = export(folder, tmp_path / "out", int8=True)
    described = json.loads((out / "spanlab.json").read_text(encoding="utf-8"))["onnx"]
    assert described["int8"]
    for file in described["graphs"]:
        kinds = [node.op_type for node in onnx.load(str(out / file), load_external_data=False).graph.node]
        assert ("MatMulInteger" in kinds) == file.startswith("encoder"), file
    model, exported = spanlab.load(folder, precision="fp32"), spanlab.load(out)
    assert exported.precision == "int8"
    cosines = (exported.encode(READ) * model.encode(READ)).sum(axis=-1)
    assert cosines.min() > 0.99
    assert (cosines < 1 - 1e-7).any()  # it did change something


def test_int8_has_the_adapters_of_each_task(tmp_path: Path) -> None:
    folder = DATA / "tasks" / "added"
    model = spanlab.load(folder, device="cpu", precision="fp32")
    exported = spanlab.load(export(folder, tmp_path / "out", int8=True))
    for task, item in cases("added"):
        (expected,), (found,) = (side.predict([item], task=task) for side in (model, exported))
        ours, theirs = (dict(leaves(result.to_dict())) for result in (expected, found))
        shared = [key for key in ours if key in theirs and isinstance(ours[key], float)]
        assert all(theirs[key] == pytest.approx(ours[key], abs=0.1) for key in shared)


# ---- without torch


def test_an_exported_folder_needs_no_torch(tmp_path: Path) -> None:
    """Loading, every task, several at once, evaluation and vectors, by Python and by the commands."""
    out = export(DATA / "tasks" / "multitask", tmp_path / "out")
    asked = [[task, item] for task, item in cases("multitask")]
    (tmp_path / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    rows = [{"text": text, "spans": []} for text in READ]
    (tmp_path / "names.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    code = """
import json, sys
import spanlab
from spanlab.cli.main import main

model = spanlab.load("out")
for task, item in json.load(open("asked.json")):
    print(json.dumps(model.predict([item], task=task)[0].to_dict()))
for command in (
    ["predict", "out", "--task", "names", "--input", "names.jsonl", "--output", "found.jsonl"],
    ["evaluate", "out", "--task", "names", "--data", "names.jsonl", "--json"],
    ["embed", "out", "--input", "names.jsonl", "--output", "vectors.npy"],
):
    sys.argv = ["spanlab", *command]
    try:
        main()
    except SystemExit as ending:
        assert not ending.code, command
assert "torch" not in sys.modules
"""
    done = without_torch(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    model = spanlab.load(DATA / "tasks" / "multitask", device="cpu", precision="fp32")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line, (task, item) in zip(lines, asked, strict=False):
        ours = dict(leaves(json.loads(json.dumps(model.predict([item], task=task)[0].to_dict()))))
        for place, value in leaves(line):
            assert value == pytest.approx(ours[place], abs=CLOSE) if isinstance(value, float) else value == ours[place]
    assert lines[-1]["count"] == len(rows)
    assert len((tmp_path / "found.jsonl").read_text(encoding="utf-8").splitlines()) == len(rows)
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), model.encode(READ), atol=1e-5)
    assert out.is_dir()


def test_without_onnxruntime_the_extra_is_named() -> None:
    code = """
sys.modules["onnxruntime"] = None
from spanlab.errors import MissingExtraError
from spanlab.inference.onnx_predictor import load_exported
try:
    load_exported("folder")
except MissingExtraError as error:
    print(error)
"""
    done = without_torch(code)
    assert "pip install 'spanlab[onnx]'" in done.stdout, done.stderr


def test_the_requirements_are_those_of_spanlab_without_training(good: Path) -> None:
    """Without torch and what reads weights and the hub, with ONNX Runtime in their place."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    left_out = ("torch", "safetensors", "huggingface_hub")
    core = [name for name in project["dependencies"] if not name.startswith(left_out)]
    runtime = [name for name in project["optional-dependencies"]["onnx"] if name.startswith("onnxruntime")]
    assert (good / "requirements.txt").read_text(encoding="utf-8").split() == sorted(core + runtime)


# ---- damaged folders


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(DATA / "tasks" / "ner-tag", tmp_path_factory.mktemp("exported") / "out")


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "copy"))


def predict_error(folder: Path) -> str:
    with pytest.raises(SpanlabError) as caught:
        spanlab.load(folder).predict(READ)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("file", ["encoder.onnx", "ner.logits.onnx", "weights.bin"])
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    assert f"the file '{file}' is missing; export the model again" in predict_error(folder)


@pytest.mark.parametrize("file", ["encoder.onnx", "ner.logits.onnx"])
@pytest.mark.parametrize("content", [b"", b"no graph", None], ids=["empty", "text", "cut"])
def test_a_damaged_graph_is_named(folder: Path, file: str, content: bytes | None) -> None:
    whole = (folder / file).read_bytes()
    (folder / file).write_bytes(whole[: len(whole) // 2] if content is None else content)
    assert file in predict_error(folder)


def test_weights_that_are_cut_are_an_error(folder: Path) -> None:
    weights = (folder / "weights.bin").read_bytes()
    (folder / "weights.bin").write_bytes(weights[: len(weights) // 2])
    assert "ONNX Runtime cannot load this graph" in predict_error(folder)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"encoder": "../encoder.onnx"}, "is not the name of a file in this folder"),
        ({"opset": "seventeen"}, "opset"),
        ({"tasks": {}}, "do not go together"),
        ({"no_such_key": 1}, "no_such_key"),
    ],
)
def test_a_wrong_description_is_an_error(folder: Path, changes: dict[str, Any], told: str) -> None:
    path = folder / "spanlab.json"
    described = json.loads(path.read_text(encoding="utf-8"))
    described["onnx"] |= changes
    path.write_text(json.dumps(described), encoding="utf-8")
    assert told in predict_error(folder)


def test_graphs_of_another_task_are_an_error(folder: Path) -> None:
    """The head's graph is there, but takes and gives something else."""
    shutil.copy(folder / "encoder.onnx", folder / "ner.logits.onnx")
    assert "ner.logits.onnx" in predict_error(folder)


def test_what_only_torch_has_is_refused(good: Path) -> None:
    for options, told in (
        ({"device": "cuda"}, "runs on the CPU"),
        ({"precision": "bf16"}, "that of its export"),
        ({"beams": 2}, "no task of the model generates text"),
    ):
        with pytest.raises(InputError, match=told):
            spanlab.load(good, **options)  # type: ignore[arg-type]


# ---- the command


def test_the_command_compares_and_the_folder_works(tmp_path: Path) -> None:
    model = str(DATA / "tasks" / "classification")
    done = run_here("export", model, "--to", "onnx", "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    parity = told["parity"]["by_task"]
    assert parity.keys() == {"classification", "embedding"}
    assert all(agreement["identical"] == 1.0 for agreement in parity.values())
    assert all(agreement["largest_difference"] < CLOSE for agreement in parity.values())
    again = run_here("export", model, "--to", "onnx", "--out", str(tmp_path / "out"))
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
