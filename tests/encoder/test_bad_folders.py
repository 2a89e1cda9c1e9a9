"""Whatever is wrong with a model folder: one line that names it, exit code 2, nothing written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from spanlab.encoder import MaskedLMHead, TransformerEncoder, load_model, preset, save_model
from spanlab.errors import InputError, MissingHeadError, SpanlabError, WeightsError
from tests.cli.run import run_spanlab


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    encoder = TransformerEncoder(preset("bert", "tiny", vocab_size=41))
    save_model(tmp_path / "model", encoder, {"mlm": MaskedLMHead(encoder.config)})
    return tmp_path / "model"


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def rename_key(folder: Path, old: str, new: str) -> None:
    path = folder / "config.json"
    path.write_text(path.read_text().replace(f'"{old}"', f'"{new}"'))


def truncate(path: Path, share: float = 0.5) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def drop_weight(folder: Path, name: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors")


def add_tokenizer(folder: Path, size: int) -> None:
    vocab = {f"t{i}": i for i in range(size)}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece", "vocab": vocab}}))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (shutil.rmtree, "no such model folder"),
    "empty": (lambda f: [p.unlink() for p in f.iterdir()], "no config.json"),
    "cut weights": (lambda f: truncate(f / "model.safetensors"), "model.safetensors: damaged or truncated"),
    "cut header": (lambda f: truncate(f / "model.safetensors", 0.001), "model.safetensors: damaged or truncated"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "the folder holds no weights"),
    "cut config": (lambda f: truncate(f / "config.json"), "config.json:.*not valid JSON"),
    "not text": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe{}"), "not UTF-8"),
    "not an object": (lambda f: (f / "config.json").write_text("[1]"), "expected a JSON object"),
    "misspelt": (lambda f: rename_key(f, "hidden_size", "hiden_size"), "'hiden_size'.*did you mean 'hidden_size'"),
    "wrong type": (lambda f: edit_config(f, hidden_size="big"), "'hidden_size' is 'big'; it must be a whole number"),
    "head count": (lambda f: edit_config(f, num_attention_heads=3), "3 heads cannot share a width of 128"),
    "other shape": (lambda f: edit_config(f, hidden_size=64), "but the config says"),
    "relative": (lambda f: edit_config(f, position_embedding_type="relative_key"), "position_embedding_type"),
    "no type": (lambda f: edit_config(f, model_type=None), "'model_type' is missing"),
    "missing": (lambda f: drop_weight(f, "bert.encoder.layer.1.output.dense.bias"), "missing weights: layers.1.0"),
    "half a head": (lambda f: drop_weight(f, "cls.predictions.bias"), "missing weights: mlm.bias"),
    "tokenizer": (lambda f: add_tokenizer(f, 42), "the tokenizer has 42 tokens and the model's vocabulary 41"),
    "bad tokenizer": (lambda f: (f / "tokenizer.json").write_text("{}"), "not a tokenizer file"),
    "newer": (lambda f: (f / "spanlab.json").write_text('{"format_version": 99}'), "newer than this SpanLab"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(name: str, folder: Path) -> None:
    damage, message = DAMAGE[name]
    damage(folder)
    with pytest.raises(SpanlabError, match=message) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["gone", "cut weights", "misspelt", "head count", "tokenizer"])
def test_commands_exit_with_2_and_write_nothing(name: str, folder: Path, tmp_path: Path) -> None:
    damage, _ = DAMAGE[name]
    damage(folder)
    for arguments in (("inspect", "model", str(folder)), ("convert", str(folder), "--out", str(tmp_path / "out"))):
        done = run_spanlab(*arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert len(done.stderr.strip().splitlines()) == 1
        assert done.stderr.startswith("spanlab: ")
    assert not (tmp_path / "out").exists()


def test_convert_names_an_empty_checkpoint(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint_best.pt"
    checkpoint.touch()
    done = run_spanlab("convert", str(checkpoint), "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "checkpoint_best.pt: damaged or truncated" in done.stderr


def test_convert_never_writes_over_something(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    done = run_spanlab("convert", str(folder), "--out", str(out))
    assert done.returncode == 2
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
    done = run_spanlab("convert", str(folder), "--out", str(out), "--overwrite")
    assert done.returncode == 0, done.stderr
    assert (out / "thesis.txt").read_text() == "mine"
    assert set(load_model(out).heads) == {"mlm"}


def test_inspect_model_shows_what_is_there(folder: Path) -> None:
    report = json.loads(run_spanlab("inspect", "model", str(folder), "--json").stdout)
    assert report["heads"] == ["mlm"]
    assert report["config"]["layers"] == 2
    expected = sum(p.numel() for p in load_model(folder).encoder.parameters())
    assert (
        sum(count for part, count in report["parameters"].items() if "head" not in part and part != "total") == expected
    )
    assert "2 layers x 128" in run_spanlab("inspect", "model", str(folder)).stdout


def test_a_checkpoint_without_a_head_refuses_its_work(tmp_path: Path) -> None:
    TransformerEncoder(preset("bert", "tiny", vocab_size=41)).save_pretrained(tmp_path)
    with pytest.raises(MissingHeadError, match=r"no mlm head in .* the model cannot fill masks"):
        load_model(tmp_path).head("mlm")


def test_a_weight_that_belongs_to_nothing_is_reported(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "classifier.weight": torch.zeros(2)}, folder / "model.safetensors")
    assert load_model(folder).report.unexpected == ("classifier.weight",)
    assert "classifier.weight" in run_spanlab("inspect", "model", str(folder)).stdout


def test_bin_files_and_shards_are_read_like_safetensors(folder: Path, tmp_path: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    expected = load_model(folder).encoder.state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    names = sorted(tensors)
    sharded = tmp_path / "sharded"
    sharded.mkdir()
    shutil.copy(folder / "config.json", sharded)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-{number:05d}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, sharded / file)
        weight_map |= dict.fromkeys(part, file)
    index = sharded / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    for place in (folder, sharded):
        for name, tensor in load_model(place).encoder.state_dict().items():
            assert torch.equal(tensor, expected[name])
    index.write_text(json.dumps({"weight_map": {**weight_map, "ghost": file}}))
    with pytest.raises(WeightsError, match="names 'ghost', which no shard holds"):
        load_model(sharded)
    index.write_text(json.dumps({"weight_map": {"a": "../../etc/passwd"}}))
    with pytest.raises(WeightsError, match="outside the folder"):
        load_model(sharded)


def test_a_pickle_that_runs_code_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"bert.x": Path("y")}, folder / "pytorch_model.bin")
    with pytest.raises(WeightsError, match="never loaded"):
        load_model(folder)


def test_a_run_folder_means_its_model(folder: Path) -> None:
    assert load_model(folder.parent).encoder.config.vocab_size == 41


def test_saving_onto_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    with pytest.raises(InputError, match="is a file"):
        TransformerEncoder(preset("bert", "tiny", vocab_size=41)).save_pretrained(tmp_path / "note")
    assert (tmp_path / "note").read_text() == "mine"
