"""Tasks on backbones other than autoencoders: XLNet, whose class token is last; GPT, which is causal; ELMo."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from spanlab.encoder import CausalLMHead, ElmoEncoder, Encoder, build_encoder, elmo_preset, preset, save_model
from spanlab.inference.load import load
from spanlab.samples import load as load_almanac
from spanlab.tasks.model import load_task_model
from spanlab.text.tokenizer import Kind
from spanlab.text.train import System, TokenizerConfig, train_tokenizer
from spanlab.training.records import Record
from spanlab.workflows.finetune import finetune
from tests.tasks.almanac_files import write_files, write_topics

BODIES: dict[str, tuple[Kind, System | None]] = {
    "xlnet": ("unigram", "xlnet"),
    "gpt": ("bpe", "gpt"),
    "elmo": ("word", None),
}
QUICK: dict[str, Any] = {"training": {"lr": 3e-3, "batch_size": 8, "precision": "fp32", "device": "cpu"}}
HEADS: dict[str, dict[str, str]] = {"ner": {"head": "span"}, "qa": {}}  # the almanac's entities nest


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model folder of each backbone with random weights and its kind of vocabulary."""
    texts = [passage.text for passage in load_almanac()]
    folders = {}
    for name, (kind, system) in BODIES.items():
        tokenizer = train_tokenizer(texts, TokenizerConfig(kind=kind, vocab_size=1500, system=system))
        torch.manual_seed(3)
        dry: dict[str, Any] = {"vocab_size": tokenizer.vocab_size, "dropout": 0.0, "max_positions": 128}
        encoder: Encoder
        if name == "elmo":
            encoder = ElmoEncoder(elmo_preset("tiny", cells=64, projection=32, **dry), tokenizer.vocabulary)
        else:
            narrow = {"width": 32, "heads": 4, "inner_width": 128, "init_std": 0.1, "attention_dropout": 0.0}
            encoder = build_encoder(preset(name, "tiny", **dry, **narrow))
        folders[name] = tmp_path_factory.mktemp(name)
        save_model(folders[name], encoder, {"clm": CausalLMHead(encoder.config)} if name == "gpt" else {})
        tokenizer.save(folders[name])
    return folders


@pytest.mark.parametrize("name", BODIES)
def test_texts_are_classified(name: str, models: dict[str, Path], tmp_path: Path) -> None:
    train, dev = write_topics(tmp_path / "data")
    records: list[Record] = []
    settings = {"training": {**QUICK["training"], "epochs": 6.0}}
    out = tmp_path / "run"
    finetune("classification", model=models[name], train=train, dev=dev, out=out, on_record=records.append, **settings)
    assert max(record.metrics["accuracy"] for record in records if record.split == "dev") > 80
    (result,) = load(out, precision="fp32").predict("the river rose again")
    assert set(result.scores) == {"sport", "water"}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("task", ["ner", "qa"])
def test_spans_are_found_in_the_text(task: str, name: str, models: dict[str, Path], tmp_path: Path) -> None:
    """From file to answers: the folder gives what the run had, and offsets are those of the text."""
    train, dev = write_files(task, tmp_path / "data")
    settings = {"training": {**QUICK["training"], "epochs": 1.0}, **HEADS[task]}
    out = tmp_path / "run"
    losses: list[float] = []
    result = finetune(
        task,
        model=models[name],
        train=train,
        dev=dev,
        out=out,
        on_record=lambda record: losses.append(record.metrics["loss"]) if record.split == "train" else None,
        **settings,
    )
    assert result.outcome == "finished"
    assert all(torch.isfinite(torch.tensor(losses)))
    rows = [json.loads(line) for line in dev.read_text().splitlines()]
    for row, found in zip(rows, load(out, precision="fp32").predict(rows), strict=True):
        shown = found.to_dict()
        text = row["context"] if task == "qa" else row["text"]
        spans = [shown] if task == "qa" else shown["spans"]
        for span in spans:
            if span["start"] is not None:
                assert text[span["start"] : span["end"]] == span["answer" if task == "qa" else "text"]


def test_layers_of_an_elmo_are_mixed_anew_for_each_task(models: dict[str, Path], tmp_path: Path) -> None:
    train, dev = write_files("ner", tmp_path / "data")
    settings = {"training": {**QUICK["training"], "epochs": 1.0}, **HEADS["ner"]}
    finetune("ner", model=models["elmo"], train=train, dev=dev, out=tmp_path / "run", **settings)
    before, after = (load_task_model(folder).encoder for folder in (models["elmo"], tmp_path / "run"))
    assert isinstance(before, ElmoEncoder)
    assert isinstance(after, ElmoEncoder)
    pairs = zip(before.mixture.parameters(), after.mixture.parameters(), strict=True)
    assert any(not old.equal(new) for old, new in pairs)
