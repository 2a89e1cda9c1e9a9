from pathlib import Path

import pytest
from hypothesis import settings

from spanlab.text import Tokenizer
from tests.corpus.making import letters_tokenizer

settings.register_profile("corpus", deadline=None, max_examples=60)
settings.load_profile("corpus")


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return letters_tokenizer()


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(folder)
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder of text files, one of which repeats an earlier one."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for index in range(12):
        lines = [
            f"{'abcdefghij'[k % 10] * (k % 7 + 1)} file {'xyzuvwrstopq'[index]} {'mnop'[k % 4]}." for k in range(40)
        ]
        (folder / f"{index:02d}.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "05-again.txt").write_text((folder / "03.txt").read_text(encoding="utf-8"), encoding="utf-8")
    return folder
