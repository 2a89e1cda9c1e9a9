import errno
import os
import re
import threading
from pathlib import Path

import pytest

import spanlab
from spanlab.atomic_io import check_new_folder, open_atomically, staged_folder, write_atomically, write_files
from spanlab.errors import InputError
from tests.breaking import file_size_limit

DIRECT_WRITES = re.compile(r"""\.write_text\(|\.write_bytes\(|open\([^)]*"[wx]b?"|np\.savez?\((?!file)|json\.dump\(""")
STAGED = {
    "atomic_io.py": "the writer itself, and lock files",
    "cli/streams.py": "/dev/null in place of a closed standard error",
    "corpus/blocks.py": "an index, written beside its name",
    "corpus/shards.py": "a shard, written beside its name",
    "corpus/prepare/run.py": "a working file",
    "inference/onnx_export.py": "into a folder that is renamed when whole",
    "inference/onnx_graphs.py": "into a folder that is renamed when whole",
    "inference/package.py": "an entry of an archive that is written atomically",
    "inference/output_file.py": "predictions, under the name of an unfinished output; devices directly",
    "quickstart/data.py": "into a folder that is renamed when whole",
}
"""The only files of the package that may write without the atomic writer."""


def test_every_file_is_written_by_the_atomic_writer() -> None:
    package = Path(spanlab.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if DIRECT_WRITES.search(path.read_text(encoding="utf-8"))
    }
    assert found - set(STAGED) == set()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_cannot_be_written_keeps_its_content_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with file_size_limit(10), pytest.raises(OSError, match="File too large") as raised:
        write_atomically(path, b"new" * 10)
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(path))
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["file"]


def test_an_error_of_the_caller_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), open_atomically(tmp_path / "file") as file:
        file.write(bytes(1 // 0))
    assert names_in(tmp_path) == []


def test_an_error_about_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised, open_atomically(tmp_path / "file"):
        (tmp_path / "input").read_bytes()
    assert raised.value.filename == str(tmp_path / "input")


def test_links_stay_links_and_pipes_stay_pipes(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_atomically(tmp_path / "link", b"through the link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"through the link"
    os.mkfifo(tmp_path / "pipe")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_atomically(tmp_path / "pipe", b"through the pipe")
    reader.join()
    assert received == [b"through the pipe"]
    assert (tmp_path / "pipe").is_fifo()


def test_files_of_a_folder_come_together_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    files = {"small": "a", "sub/large": "b" * 100}
    with file_size_limit(50), pytest.raises(OSError, match="File too large") as raised:
        write_files(out, files)
    assert raised.value.filename == str(out / "sub" / "large")
    assert names_in(tmp_path) == []
    write_files(out, files)
    assert {path.name: path.read_text() for path in out.rglob("*") if path.is_file()} == {
        "small": "a",
        "large": "b" * 100,
    }


def test_other_files_of_a_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "mine").write_text("mine")
    (tmp_path / "changed").write_text("old")
    write_files(tmp_path, {"changed": "new", "sub/theirs": "theirs"})
    contents = {path.name: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert contents == {"mine": "mine", "changed": "new", "theirs": "theirs"}
    with file_size_limit(50), pytest.raises(OSError, match="File too large"):
        write_files(tmp_path, {"changed": "newer", "sub/theirs": "b" * 100})
    assert {path.name: path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == contents


def test_what_a_kill_left_does_not_stand_in_the_way(tmp_path: Path) -> None:
    (tmp_path / ".unfinished").mkdir()
    (tmp_path / ".unfinished" / "half").write_text("ha")
    check_new_folder(tmp_path, overwrite=False)
    with staged_folder(tmp_path) as stage:
        (stage / "whole").write_text("whole")
    assert names_in(tmp_path) == ["whole"]
    with pytest.raises(InputError, match="not empty"):
        check_new_folder(tmp_path, overwrite=False)
