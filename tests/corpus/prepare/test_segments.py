import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.corpus.prepare.config import Documents, PrepareConfig
from spanlab.corpus.prepare.documents import documents_of
from spanlab.corpus.prepare.segments import RECORD_BYTES, Segment, group_segments, segments_of
from spanlab.corpus.prepare.sources import find_sources
from spanlab.errors import InputError

LINES = st.lists(st.text("ab é漢😀 \r", max_size=12), max_size=40)
MODES = st.sampled_from(["file", "blank-line", "line"])


def segments(path: Path, documents: Documents, record_bytes: int = RECORD_BYTES, **limits: int) -> list[Segment]:
    config = PrepareConfig(documents=documents, lines="paragraphs", **limits)
    return [
        segment
        for source in find_sources([str(path)])
        for segment in segments_of(source, config, record_bytes=record_bytes)
    ]


def texts(parts: list[Segment], documents: Documents) -> list[str]:
    read = [documents_of(segment, PrepareConfig(documents=documents))[0] for segment in parts]
    return [" ".join(text.split()) for part in read for text in part if text.strip()]


@given(LINES, MODES, st.integers(1, 60), st.sampled_from(["\n", "\r\n"]))
def test_segments_hold_the_documents_of_the_file_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], documents: Documents, size: int, end: str
) -> None:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(end.join(lines).encode())
    whole = texts(segments(path, documents), documents)
    cut = segments(path, documents, segment_bytes=size)
    assert texts(cut, documents) == whole
    assert not any(segment.cut for segment in cut)
    assert [segment.start for segment in cut[1:]] == [segment.stop for segment in cut[:-1]]


@given(LINES, MODES, st.integers(1, 60), st.integers(1, 60))
def test_a_stream_is_cut_where_a_file_is(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], documents: Documents, size: int, longest: int
) -> None:
    folder = tmp_path_factory.mktemp("text")
    content = "\n".join(lines).encode()
    (folder / "a.txt").write_bytes(content)
    (folder / "a.txt.gz").write_bytes(gzip.compress(content))
    limits = {"segment_bytes": size, "document_bytes": longest}
    plain, packed = segments(folder / "a.txt", documents, **limits), segments(folder / "a.txt.gz", documents, **limits)
    assert [(s.start, s.stop, s.cut) for s in plain] == [(s.start, s.stop, s.cut) for s in packed]
    assert b"".join(s.data or b"" for s in packed) == content


@given(st.text("ab é漢😀\n", max_size=300), MODES, st.integers(4, 40))
def test_documents_too_long_are_cut_between_characters_and_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, text: str, documents: Documents, longest: int
) -> None:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(text.encode())
    parts = segments(path, documents, segment_bytes=longest, document_bytes=longest)
    assert all(segment.stop - segment.start <= longest for segment in parts)
    pieces = [documents_of(s, PrepareConfig(documents="file"))[0][0] for s in parts]
    assert "".join(pieces) == text


def test_a_cut_prefers_line_ends_then_spaces(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("aaa bbb\nccc dddd eeeeeeeeeeeeeee", encoding="utf-8")
    parts = segments(path, "file", segment_bytes=12, document_bytes=12)
    assert texts(parts, "file") == ["aaa bbb", "ccc dddd", "eeeeeeeeeeee", "eee"]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"\xef\xbb\xbfabc")
    assert texts(segments(tmp_path / "text.txt", "file"), "file") == ["abc"]


def test_small_files_share_a_group_and_groups_depend_on_the_input_alone(texts: Path) -> None:
    config = PrepareConfig(documents="file", lines="sentences")
    parts = [segment for source in find_sources([str(texts)]) for segment in segments_of(source, config)]
    grouped = list(group_segments(parts, 1500))
    assert [segment for group in grouped for segment in group] == parts
    assert all(sum(s.size for s in group[:-1]) < 1500 <= sum(s.size for s in group) for group in grouped[:-1])
    assert len(grouped) > 1


def test_a_record_without_end_is_refused(tmp_path: Path) -> None:
    content = ('{"text": "a"}\n' * 7 + '{"text": "' + "a" * 500 + '"}\n').encode()
    (tmp_path / "text.jsonl").write_bytes(content)
    (tmp_path / "text.jsonl.gz").write_bytes(gzip.compress(content))
    for name in ("text.jsonl", "text.jsonl.gz"):
        for size in (5, 30):
            with pytest.raises(InputError, match=rf"{name}:8: the line is longer than .* MiB; write one JSON object a"):
                segments(tmp_path / name, "line", segment_bytes=size, record_bytes=200)


def test_fingerprints_see_another_size_and_another_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"abc"))
    before = segments(path, "file")[0].fingerprint
    path.write_bytes(gzip.compress(b"abd"))
    assert segments(path, "file")[0].fingerprint != before
