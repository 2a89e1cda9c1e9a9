"""Models by hub id: from the cache, at a revision, offline; and clear words when there is nothing."""

import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from spanlab.encoder import Encoder, TransformerEncoder, preset
from spanlab.errors import InputError

REVISIONS = {"main": "a" * 40, "v2": "b" * 40}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache with one repository in two revisions, laid out as huggingface_hub does."""
    repository = tmp_path / "models--lab--tiny"
    for name, commit in REVISIONS.items():
        torch.manual_seed(len(name))
        TransformerEncoder(preset("bert", "tiny", vocab_size=41)).save_pretrained(repository / "snapshots" / commit)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / name).write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return repository


def test_the_cache_serves_offline_and_revisions_differ(cache: Path) -> None:
    newest = Encoder.from_pretrained("lab/tiny")
    tagged = Encoder.from_pretrained("lab/tiny", revision="v2")
    expected = Encoder.from_pretrained(cache / "snapshots" / REVISIONS["v2"])
    assert torch.equal(tagged.word_table, expected.word_table)
    assert not torch.equal(newest.word_table, tagged.word_table)


def test_a_repository_of_bin_files(cache: Path) -> None:
    from safetensors.torch import load_file

    folder = cache / "snapshots" / REVISIONS["main"]
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert Encoder.from_pretrained("lab/tiny").config.vocab_size == 41


def test_a_repository_that_is_nowhere(cache: Path) -> None:
    with pytest.raises(InputError, match="no folder 'lab/other' here, and the hub does not answer"):
        Encoder.from_pretrained("lab/other")
    shutil.rmtree(cache)
    with pytest.raises(InputError, match="no such model folder"):
        Encoder.from_pretrained("./lab/tiny")


def test_a_hub_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InputError, match="the hub does not answer"):
        Encoder.from_pretrained("lab/tiny")


def test_a_folder_one_letter_away_comes_before_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    home = tmp_path / "home"
    for name in ("runs/tickets", "bert"):
        (home / name).mkdir(parents=True)
    monkeypatch.chdir(home)
    asked = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *words, **_: asked.append(words))
    local = {
        "runs/tickts": r"^runs/tickts: no such model folder \(did you mean 'runs/tickets'\?\); .* the hub is not asked",
        "runs/other": r"^runs/other: no such model folder; give .* the hub is not asked",
        "./run/ticket": r"no such model folder \(did you mean 'runs/tickets'\?\)",
        "a/b/c": "no such model folder; give a model folder, a run folder, .*minilm or a Hugging Face id$",
        str(home / "runs" / "Tickets"): r"\(did you mean '.*/home/runs/tickets'\?\)",
    }
    for name, words in local.items():
        with pytest.raises(InputError, match=words):
            Encoder.from_pretrained(name)
    assert not asked


def test_the_hub_is_asked_for_what_only_resembles_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "labs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert Encoder.from_pretrained("lab/tiny").config.vocab_size == 41
    words = r"no folder 'tiny-x' here \(did you mean 'tiny'\?\), and the hub does not answer; check the path or the"
    with pytest.raises(InputError, match=words):
        Encoder.from_pretrained("tiny-x")
