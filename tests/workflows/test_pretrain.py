"""Whole runs in this process: what a run folder holds, what its model does, and combinations of systems."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import spanlab
from spanlab.corpus import PreparedCorpus
from spanlab.corruption import ExampleBatch
from spanlab.corruption.examples import SpanBoundaries
from spanlab.encoder import load_model
from spanlab.errors import InputError, RunError
from spanlab.inference.fill import Filler
from spanlab.objectives import Mixture, TensorBatch
from spanlab.pretraining.initial_model import build_model
from spanlab.pretraining.recipe import load_recipe
from spanlab.training import threads
from spanlab.training.loop import Training
from spanlab.training.records import Record
from spanlab.workflows.pretrain import compare_to_unigrams, run_job
from tests.pretraining.making import SMALLEST, job, make_tokenizer, prepare, write_text
from tests.workflows.running import records

FROM_PYTHON = {
    "encoder": {"layers": 1, "width": 32, "heads": 2, "inner_width": 64},
    "training": {"steps": 6, "batch_size": 8, "precision": "fp32", "threads": 1, "eval_every": 3},
    "data.length": 32,
    "data.held_out": 0.1,
}


def test_from_python(small_corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[Record] = []
    result = spanlab.pretrain(
        "spanbert", data=small_corpus, out=tmp_path / "run", size="tiny", on_record=seen.append, **FROM_PYTHON
    )
    assert capfd.readouterr() == ("", "")
    assert (result.outcome, result.steps, result.folder) == ("finished", 6, tmp_path / "run")
    assert [json.loads(json.dumps(record.to_dict())) for record in seen] == [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    assert result.scores["loss"] == seen[-1].metrics["loss"]
    for name in ("config.yaml", "environment.json", "report.html", "status.json", "fillings.json"):
        assert (result.folder / name).is_file()
    fillings = json.loads((result.folder / "fillings.json").read_text())
    assert len(fillings["before"]) == len(fillings["after"]) == 4
    assert fillings["before"] != fillings["after"]
    assert load_model(result.folder).heads.keys() == {"mlm", "sbo"}
    with pytest.raises(InputError, match="the folder contains a run"):
        spanlab.pretrain("spanbert", data=small_corpus, out=tmp_path / "run", size="tiny", **FROM_PYTHON)


def test_a_recipe_file_and_several_corpora(small_corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("system: bert\nmasking: {law: word}\ntraining: {steps: 2}\n")
    data = [f"{small_corpus}:2", small_corpus]
    settings = {name: value for name, value in FROM_PYTHON.items() if name != "training"}
    result = spanlab.pretrain(tmp_path / "mine.yaml", data=data, out=tmp_path / "run", size="tiny", **settings)
    assert (result.outcome, result.steps) == ("finished", 2)


def test_a_model_learns_what_follows_from_context(small_corpus: Path, tmp_path: Path) -> None:
    run_job(job("spanbert", small_corpus, tmp_path, "training.steps=150", "training.eval_every=75", "training.lr=0.01"))
    dev = [line for line in records(tmp_path) if line["split"] == "dev"]
    assert dev[-1]["loss.mlm"] < dev[-1]["unigram.mlm"] - 0.2
    assert dev[-1]["loss.sbo"] < dev[-1]["unigram.sbo"] - 0.2
    assert dev[-1]["loss.mlm"] < dev[0]["loss.mlm"]
    assert dev[-1]["perplexity.mlm"] == pytest.approx(np.exp(dev[-1]["loss.mlm"]))


def test_a_step_that_goes_wrong_leaves_a_batch_that_goes_wrong_again(small_corpus: Path, tmp_path: Path) -> None:
    settings = ("training.steps=30", "training.save_every=2", "training.accumulate=2", "encoder.dropout=0")
    tokenizer = PreparedCorpus.open(small_corpus).tokenizer
    rare = tokenizer.vocabulary.index("dawn")

    def spoil(criterion: nn.Module, value: float) -> None:
        assert isinstance(criterion, Mixture)
        with torch.no_grad():
            criterion.encoder.word_table[rare, 0] = value

    def poison(training: Training[ExampleBatch], notes: tuple[str, ...]) -> None:
        # A token has a vector that is no number: the first batch that holds it fails.
        spoil(training.spec.criterion, torch.nan)

    with pytest.raises(RunError, match=r"step \d+ gave a loss of nan .*; the weights are those of step"):
        run_job(job("spanbert", small_corpus, tmp_path / "run", *settings), on_start=poison)
    (folder,) = (tmp_path / "run").glob("fault-step-*")
    fault = json.loads((folder / "fault.json").read_text())
    assert len(fault["samples"]) == 8
    criterion = build_model(load_recipe("spanbert", [*SMALLEST, *settings]), tokenizer).criterion
    assert isinstance(criterion, nn.Module)
    held = []
    for path in sorted(folder.glob("batch-*.npz")):
        with np.load(path) as arrays:
            fields = {name: array for name, array in arrays.items() if "." not in name}
            of_spans = {name.partition(".")[2]: array for name, array in arrays.items() if "." in name}
        batch = TensorBatch.from_examples(ExampleBatch(**fields, boundaries=SpanBoundaries(**of_spans)))
        assert criterion(batch).value.isfinite()
        spoil(criterion, torch.nan)
        held.append(bool((batch.input_ids == rare).any()))
        assert not held[-1] or criterion(batch).value.isnan()
        spoil(criterion, 0.0)
    assert any(held)


def test_a_resumed_run_computes_with_the_threads_it_was_begun_with(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "available_cores", lambda: 2)
    used: list[int] = []

    def stop(record: Record) -> None:
        used.append(torch.get_num_threads())
        if record.step == 2:
            signal.raise_signal(signal.SIGINT)

    settings = ("training.steps=4", "data.held_out=0")
    run_job(job("bert", small_corpus, tmp_path / "whole", *settings, "training.threads=2"))
    with pytest.raises(KeyboardInterrupt):
        run_job(job("bert", small_corpus, tmp_path / "run", *settings, "training.threads=2"), on_record=stop)
    assert torch.get_num_threads() == 1
    run_job(job("bert", small_corpus, tmp_path / "run", *settings, "training.threads=0", resume=True), on_record=stop)
    assert used == [2, 2, 2, 2]
    assert records(tmp_path / "run") == records(tmp_path / "whole")
    told = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert (told["threads"], told["begun_threads"]) == (2, 2)
    assert not any("the last bits may differ" in note for note in told["notes"])


def test_a_run_resumed_with_other_threads_says_so(small_corpus: Path, tmp_path: Path) -> None:
    started: list[str] = []

    def begin(training: Training[ExampleBatch], notes: tuple[str, ...]) -> None:
        started.extend(notes)

    run_job(job("bert", small_corpus, tmp_path, "training.steps=2", "training.threads=1"))
    asked = job("bert", small_corpus, tmp_path, "training.steps=2", "training.threads=2", resume=True)
    run_job(asked, on_start=begin)
    assert "the run was started with training.threads=1, now 2: the last bits may differ" in started
    assert json.loads((tmp_path / "environment.json").read_text())["begun_threads"] == 1


def test_the_report_is_written_when_a_run_goes_wrong(small_corpus: Path, tmp_path: Path) -> None:
    def spoil(training: Training[ExampleBatch], notes: tuple[str, ...]) -> None:
        with torch.no_grad():
            next(training.spec.criterion.parameters()).fill_(torch.nan)

    with pytest.raises(RunError, match="step 1 gave a loss of nan"):
        run_job(job("roberta", small_corpus, tmp_path, "training.steps=9"), on_start=spoil)
    assert (tmp_path / "report.html").is_file()


OWN_ENDS = tuple(
    f"span_boundary.{setting}"
    for setting in (
        "boundaries=internal",
        "positions=false",
        "activation=relu",
        "layers=1",
        "norm=false",
        "bias=false",
        "tie=false",
    )
)
"""The head that predicts a span from its own two ends: softmax(W2 ReLU(W1 [h_start; h_end]))."""


@pytest.mark.parametrize(
    ("recipe", "overrides", "kind"),
    [
        ("spanbert", ("backbone=albert", "encoder.embedding_width=16", "encoder.layers=2"), "bpe"),
        ("roberta", ("objectives.sbo=1", "masking.law=span"), "bpe"),
        ("electra", ("masking.law=word", "data.blocks=next-sentence"), "unigram"),
        ("bert", ("objectives.nsp=0", "data.blocks=full-sentences", "masking.collapse=true"), "wordpiece"),
        (
            "spanbert",
            ("masking.collapse=true", "masking.unit=token-from-word", "output_bias=unigram", *OWN_ENDS),
            "bpe",
        ),
        (
            "spanbert",
            ("span_boundary.combine=sum-all", "masking.length_law=clipped", "masking.all_mask=true"),
            "unigram",
        ),
        ("albert", ("training.optimiser=lamb", "encoder.layer_groups=null", "encoder.layers=2"), "unigram"),
    ],
)
def test_combinations_train_and_load(tmp_path: Path, recipe: str, overrides: tuple[str, ...], kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    text = write_text(tmp_path / "text.txt")
    size = {"bpe": 330, "unigram": 110, "wordpiece": 130}[kind]
    tokenizer = make_tokenizer(text, kind, size)  # type: ignore[arg-type]
    corpus = prepare(text, tokenizer, tmp_path / "corpus")
    result = run_job(job(recipe, corpus, tmp_path / "run", "training.steps=4", "training.eval_every=2", *overrides))
    losses = [line["loss"] for line in records(result.folder)]
    assert np.isfinite(losses).all()
    model = load_model(result.model)
    asked = load_recipe(recipe, [*SMALLEST, *overrides])
    assert set(model.heads) == ({"rtd"} if "rtd" in asked.active_objectives else set(asked.active_objectives))
    theirs = transformers.AutoModel.from_pretrained(result.model).eval()
    ids = torch.randint(5, tokenizer.vocab_size, (2, 10))
    with torch.no_grad():
        ours = model.encoder.eval()(ids).hidden
        torch.testing.assert_close(theirs(ids).last_hidden_state, ours, rtol=1e-4, atol=1e-5)
    mask = tokenizer.vocabulary[tokenizer.mask_id or 0]
    assert mask not in Filler(result.folder).fill(f"The {mask} mended the nets.", top=1).filled


def test_the_exported_model_is_that_of_its_best_step(small_corpus: Path, tmp_path: Path) -> None:
    settings = ("training.steps=8", "training.eval_every=2", "training.save_every=2", "training.keep=9")
    # A learning rate that makes the model worse after a while, or at once.
    run_job(job("roberta", small_corpus, tmp_path, *settings, "training.lr=0.3", "training.warmup=4"))
    dev = {line["step"]: line["loss"] for line in records(tmp_path) if line["split"] == "dev"}
    best = min(dev, key=lambda step: dev[step])
    table = load_file(tmp_path / "model" / "model.safetensors")["roberta.embeddings.word_embeddings.weight"]
    at_best = load_file(tmp_path / "checkpoints" / f"step-{best:08d}" / "weights.safetensors")
    assert table.equal(at_best["encoder.embeddings.word.weight"])
    status = json.loads((tmp_path / "status.json").read_text())
    assert status["best"] == {"score": dev[best], "step": best}


def test_short_models_and_shorter_texts(small_corpus: Path, tmp_path: Path) -> None:
    result = run_job(job("spanbert", small_corpus, tmp_path, "training.steps=1", "data.length=8", "data.held_out=0"))
    assert (result.outcome, result.scores) == ("finished", {})
    assert "after" in json.loads((tmp_path / "fillings.json").read_text())


def test_a_model_that_knows_no_more_than_frequencies_is_told_of(small_corpus: Path, tmp_path: Path) -> None:
    settings = ("training.steps=1", "training.lr=1e-9", "data.held_out=0.1")
    result = run_job(job("spanbert", small_corpus, tmp_path, *settings))
    assert [remark.split(" is ")[0] for remark in result.remarks] == [
        f"the model has not learned to use context yet: its held-out loss.{name}" for name in ("mlm", "sbo")
    ]
    assert "training.lr" in result.remarks[0]
    assert compare_to_unigrams({"loss.mlm": 2.0, "unigram.mlm": 5.0, "loss": 2.0}) == ()
