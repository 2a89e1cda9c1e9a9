"""Whatever writes a file: its permissions are those that the umask gives any new file, whoever may write the folder."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from spanlab.encoder import Electra, Encoder, MaskedLMHead, TransformerEncoder, preset, save_model
from spanlab.encoder.transformers_encoder import TransformersEncoder
from spanlab.training.checkpoint import Checkpoints, Progress, Snapshot
from spanlab.training.run_folder import RunFolder
from spanlab.workflows.finetune import finetune
from spanlab.workflows.pretrain import run_job
from tests.pretraining.making import job, make_tokenizer, prepare, write_text
from tests.tasks.almanac_files import write_topics

UMASKS = (0o022, 0o077, 0o002)


@pytest.fixture(params=UMASKS, ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def shared(tmp_path: Path, umask: int) -> Path:
    """A folder that everybody may write, as a shared disk has."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def check(folder: Path, umask: int) -> None:
    paths = list(folder.rglob("*"))
    assert any(path.is_file() for path in paths)
    wrong = {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in paths
        if stat.S_IMODE(path.stat().st_mode) != (0o777 if path.is_dir() else 0o666) & ~umask
    }
    assert wrong == {}


def encoder() -> TransformerEncoder:
    return TransformerEncoder(preset("bert", "tiny", vocab_size=41))


def test_model_folders(shared: Path, umask: int) -> None:
    made = encoder()
    save_model(shared, made, {"mlm": MaskedLMHead(made.config)})
    Electra.build(preset("electra", "tiny", vocab_size=41), generator_share=0.5).save_pretrained(shared / "pair")
    check(shared, umask)


def test_encoders_of_transformers(shared: Path, umask: int) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.DistilBertConfig(dim=32, hidden_dim=64, n_layers=1, n_heads=2, vocab_size=41)
    foreign: Encoder = TransformersEncoder(transformers.DistilBertModel(config))
    save_model(shared, foreign)
    check(shared, umask)


def test_checkpoints_and_models_of_runs(shared: Path, umask: int) -> None:
    weights = {"weight": torch.zeros(3)}
    Checkpoints(shared / "checkpoints").write(
        Snapshot(progress=Progress(step=1), weights=weights, optimiser=weights), keep=1
    )
    run = RunFolder(shared / "run")
    with run.lock():
        run.begin({})
        run.put_model(lambda folder: save_model(folder, encoder()))
        run.put_model(lambda folder: save_model(folder, encoder()))
    check(shared, umask)


def test_tokenizers_and_corpora(shared: Path, umask: int) -> None:
    text = write_text(shared / "text.txt", documents=3)
    tokenizer = make_tokenizer(text)
    tokenizer.save(shared / "tokenizer")
    prepare(text, tokenizer, shared / "corpus")
    check(shared, umask)


@pytest.mark.slow
def test_whole_runs(shared: Path, umask: int, small_corpus: Path, tiny_model: Path, tmp_path: Path) -> None:
    run_job(job("electra", small_corpus, shared / "electra", "training.steps=2"))
    train, dev = write_topics(tmp_path / "data")
    settings = {"training": {"steps": 2, "precision": "fp32", "device": "cpu"}}
    finetune("classification", model=tiny_model, train=train, dev=dev, out=shared / "topics", **settings)
    check(shared, umask)
