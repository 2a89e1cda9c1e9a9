from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.text import plain_files
from spanlab.text.plain_files import open_plain_files
from tests.text.hostile_text import hostile_text


@given(text=hostile_text, block=st.integers(1, 9))
def test_blocks_joined_are_the_file(tmp_path_factory: pytest.TempPathFactory, text: str, block: int) -> None:
    path = tmp_path_factory.mktemp("file") / "a.txt"
    path.write_bytes(text.encode() or b" ")
    text = (text or " ").removeprefix("\ufeff")
    read: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_files, "_BLOCK", block)
        files = open_plain_files([path], read.append)
        assert "".join(files) == text
        assert "".join(files) == text  # and again
    assert sum(read) == 2 * path.stat().st_size


def test_blocks_end_with_lines_or_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_files, "_BLOCK", 16)
    (tmp_path / "a.txt").write_text("one two\nthree four five six seven eight nine\nten")
    blocks = list(open_plain_files([tmp_path / "a.txt"]))
    assert "".join(blocks).split() == [word for block in blocks for word in block.split()]
    assert blocks[0] == "one two\n"


@pytest.mark.parametrize(("damage", "place"), [(b"\xff", 40), (b"\xe4\xb8", 40), (b"\xe4\xb8 x", 40)])
def test_damaged_bytes_are_placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes, place: int) -> None:
    monkeypatch.setattr(plain_files, "_BLOCK", 16)
    (tmp_path / "a.txt").write_bytes(b"0123456789" * 4 + damage)
    with pytest.raises(InputError, match=rf"a.txt: not UTF-8 text \(byte {place}\)"):
        list(open_plain_files([tmp_path / "a.txt"]))


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    with pytest.raises(InputError, match=r"empty.txt: is empty"):
        open_plain_files([tmp_path / "empty.txt"])
    with pytest.raises(InputError, match=r"none.txt: no such file"):
        open_plain_files([tmp_path / "none.txt"])
    with pytest.raises(InputError, match=r"is a folder; give the files in it"):
        open_plain_files([tmp_path])
