import csv
import gzip
import io
import json
import lzma
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spanlab.corpus import PrepareConfig, PreparedCorpus, plan_preparation, run_preparation
from spanlab.corpus.manifest import Manifest, read_manifest
from spanlab.corpus.prepare.byte_readers import LookAhead
from spanlab.corpus.prepare.run import Progress
from spanlab.errors import InputError, SpanlabError
from spanlab.text import Tokenizer
from tests.corpus.making import folder_digest, joined

SMALL = {"segment_bytes": 1500, "shard_tokens": 2000}


def prepare(tokenizer: Tokenizer, out: Path, *names: Path | str, workers: int = 1, **choices: Any) -> Manifest:
    run = {key: choices.pop(key) for key in ("overwrite", "on_progress", "commit_seconds") if key in choices}
    plan_choices = {key: choices.pop(key) for key in ("stdin", "file_format") if key in choices}
    plan = plan_preparation([str(name) for name in names], PrepareConfig(**choices), **plan_choices)
    return run_preparation(plan, tokenizer=tokenizer, out=out, workers=workers, **run)


def read_documents(corpus: PreparedCorpus) -> list[list[int]]:
    starts = corpus.start_of("documents", np.arange(corpus.counts.documents + 1))
    text = corpus.read(starts[:-1], starts[1:])
    return [part.tolist() for part in np.split(text.ids, np.cumsum(text.lengths)[:-1])]


def test_the_corpus_holds_the_documents_in_order_without_duplicates(
    tokenizer: Tokenizer, texts: Path, tmp_path: Path
) -> None:
    manifest = prepare(tokenizer, tmp_path / "out", texts, documents="file", lines="sentences", **SMALL)
    corpus = PreparedCorpus.open(tmp_path / "out")
    files = [path for path in sorted(texts.iterdir()) if path.name != "05-again.txt"]
    expected = [tokenizer.encode(" ".join(path.read_text().split())).ids.tolist() for path in files]
    assert read_documents(corpus) == expected
    counts = manifest.counts
    assert (counts.documents, counts.duplicates, counts.sentences) == (12, 1, 12 * 40)
    assert counts.tokens == sum(map(len, expected))
    assert counts.bytes == sum(len(" ".join(path.read_text().split())) for path in files)
    assert len(manifest.shards) > 1
    assert corpus.token_counts.tolist() == np.bincount(joined(expected), minlength=tokenizer.vocab_size).tolist()
    inputs = [json.loads(line) for line in (tmp_path / "out" / "inputs.jsonl").read_text().splitlines()]
    assert [entry["source"] for entry in inputs] == [str(path) for path in sorted(texts.iterdir())]
    assert [entry["bytes"] for entry in inputs] == [path.stat().st_size for path in sorted(texts.iterdir())]


def test_workers_change_no_byte(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    for workers in (1, 2, 3):
        prepare(tokenizer, tmp_path / f"out{workers}", texts, workers=workers, documents="line", **SMALL)
    first, second, third = (folder_digest(tmp_path / f"out{workers}") for workers in (1, 2, 3))
    assert first == second == third
    assert not [name for name in first if ".prepare" in name or "partial" in name]


def test_the_first_of_duplicates_stays_whatever_the_workers(tokenizer: Tokenizer, tmp_path: Path) -> None:
    lines = [f"{chr(97 + k % 26)}{chr(97 + k // 26 % 26)} same" if k % 3 else "same again" for k in range(600)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    unique = list(dict.fromkeys(lines))
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        manifest = prepare(
            tokenizer, out, tmp_path / "a.txt", workers=workers, documents="line", lines="paragraphs", segment_bytes=300
        )
        assert manifest.counts.duplicates == len(lines) - len(unique)
        assert read_documents(PreparedCorpus.open(out)) == [tokenizer.encode(line).ids.tolist() for line in unique]


def test_one_text_in_many_formats_gives_one_corpus(tokenizer: Tokenizer, tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard", reason="the data extra is not installed")
    pyarrow = pytest.importorskip("pyarrow", reason="the data extra is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the data extra is not installed")
    texts = ["one two. three", "four, five!", 'six "seven" eight\nnine']
    table = io.StringIO(newline="")
    csv.writer(table).writerows([["n", "body"], *([k, text] for k, text in enumerate(texts))])
    plain = {
        "a.jsonl": "".join(json.dumps({"body": text}) + "\n" for text in texts).encode(),
        "a.csv": table.getvalue().encode(),
        "a.txt": "\n\n".join(texts).encode(),
    }
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({"body": texts}), buffer)
    plain["a.parquet"] = buffer.getvalue()
    packers = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}
    shards = set()
    for name, content in plain.items():
        for ending, pack in packers.items():
            path = tmp_path / (name + ending)
            path.write_bytes(pack(content))
            out = tmp_path / (name + ending + ".out")
            manifest = prepare(tokenizer, out, path, text_field="body", documents="blank-line", lines="paragraphs")
            shards.add(manifest.shards[0].sha256)
    assert len(shards) == 1


def test_standard_input_is_read(tokenizer: Tokenizer, tmp_path: Path) -> None:
    stdin = LookAhead(io.BytesIO(b"one two.\nthree four.\n\nfive six.\nseven.\n"))
    manifest = prepare(tokenizer, tmp_path / "out", "-", stdin=stdin)
    assert (manifest.options.documents, manifest.options.lines) == ("blank-line", "sentences")
    assert (manifest.counts.documents, manifest.counts.sentences) == (2, 4)
    records = LookAhead(io.BytesIO(b'{"text": "one"}\n{"text": "two"}\n'))
    assert prepare(tokenizer, tmp_path / "out2", "-", stdin=records, file_format="jsonl").counts.documents == 2


def test_short_documents_are_left_out_and_counted(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b c\na b\na\n\u200b\na b c d\n")
    manifest = prepare(
        tokenizer, tmp_path / "out", tmp_path / "a.txt", documents="line", lines="paragraphs", min_tokens=3
    )
    assert (manifest.counts.documents, manifest.counts.short) == (2, 3)


def test_long_documents_are_cut_and_counted(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab cd " * 1000)
    manifest = prepare(
        tokenizer, tmp_path / "out", tmp_path / "a.txt", documents="line", segment_bytes=256, document_bytes=1000
    )
    # All parts but the last say the same: cut parts are documents like any other.
    assert (manifest.counts.cut, manifest.counts.documents + manifest.counts.duplicates) == (6, 7)


def test_empty_files_are_counted_and_passed_over(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    (texts / "00-empty.txt").touch()
    assert prepare(tokenizer, tmp_path / "out", texts, documents="file").counts.empty == 1


def test_wide_vocabularies_take_wide_shards(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, pre_tokenizers

    words = {f"w{index}": index for index in range(70_000)}
    backend = Backend(models.WordLevel(words, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    (tmp_path / "a.txt").write_text("w1 w65535 w65536 w69999")
    manifest = prepare(Tokenizer(backend), tmp_path / "out", tmp_path / "a.txt")
    assert manifest.token_type == "uint32"
    corpus = PreparedCorpus.open(tmp_path / "out")
    assert corpus.read([0], [4]).ids.tolist() == [1, 65535, 65536, 69999]
    assert corpus.shards[0].tokens.dtype == np.dtype("<u4")


def test_progress_reaches_the_end(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    plan = plan_preparation([str(texts)], PrepareConfig(documents="file", segment_bytes=1500))
    manifest = run_preparation(plan, tokenizer=tokenizer, out=tmp_path / "out", on_progress=seen.append)
    assert seen[-1].text_bytes == plan.text_bytes
    assert seen[-1].counts == manifest.counts
    assert len(seen) > 3


def test_the_layout_is_detected_where_it_is_not_said(tokenizer: Tokenizer, texts: Path) -> None:
    plan = plan_preparation([str(texts)], PrepareConfig())
    assert (plan.config.documents, plan.config.lines, plan.detected) == ("file", "sentences", ("documents", "lines"))
    assert plan_preparation([str(texts)], PrepareConfig(documents="line")).detected == ("lines",)
    (texts / "a.jsonl").write_text('{"text": "One. Two.\\nThree. Four."}\n')
    plan = plan_preparation([str(texts / "a.jsonl")], PrepareConfig())
    assert (plan.config.lines, plan.detected) == ("paragraphs", ("lines",))


class Stop(BaseException):
    """Ends a run as a kill would: nothing in the product catches it."""


def stop_after(parts: int) -> Any:
    def on_progress(progress: Progress, seen: list[Progress] = []) -> None:  # noqa: B006 (counts the calls)
        seen.append(progress)
        if len(seen) == parts:
            raise Stop

    return on_progress


def test_an_interrupted_folder_is_no_corpus_and_says_so(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        prepare(tokenizer, tmp_path / "out", texts, documents="file", on_progress=stop_after(2), **SMALL)
    with pytest.raises(InputError, match="out: its preparation was interrupted; run the same `spanlab prepare` again"):
        PreparedCorpus.open(tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"documents": "line"},
            "started with documents file, not line; resume it with the same options, or start over",
        ),
        ({"min_tokens": 5}, "started with min_tokens 1, not 5"),
        ({"segment_bytes": 1400}, "started with segment_bytes 1500, not 1400"),
        pytest.param(
            {"segmenter": "jieba"},
            "started with segmenter None, not jieba",
            marks=pytest.mark.skipif(find_spec("jieba") is None, reason="the zh extra is not installed"),
        ),
    ],
)
def test_going_on_with_other_options_is_refused(
    tokenizer: Tokenizer, texts: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    choices = {"documents": "file", "lines": "sentences", **SMALL}
    with pytest.raises(Stop):
        prepare(tokenizer, tmp_path / "out", texts, on_progress=stop_after(3), commit_seconds=0, **choices)
    with pytest.raises(InputError, match=message):
        prepare(tokenizer, tmp_path / "out", texts, **{**choices, **change})
    prepare(tokenizer, tmp_path / "out", texts, **{**choices, **change}, overwrite=True)
    prepare(tokenizer, tmp_path / "fresh", texts, **{**choices, **change})
    assert folder_digest(tmp_path / "out") == folder_digest(tmp_path / "fresh")


def test_going_on_with_other_input_or_another_tokenizer_is_refused(
    tokenizer: Tokenizer, texts: Path, tmp_path: Path
) -> None:
    with pytest.raises(Stop):
        prepare(
            tokenizer, tmp_path / "out", texts, documents="file", on_progress=stop_after(3), commit_seconds=0, **SMALL
        )
    from tokenizers import Tokenizer as Backend
    from tokenizers import models

    other = Tokenizer(Backend(models.WordLevel({"a": 0}, unk_token="a")))
    with pytest.raises(InputError, match="started with another tokenizer"):
        prepare(other, tmp_path / "out", texts, documents="file", **SMALL)
    (texts / "00.txt").write_text("changed")
    with pytest.raises(InputError, match="started with other input"):
        prepare(tokenizer, tmp_path / "out", texts, documents="file", **SMALL)


def test_replacing_may_be_chosen_after_an_error(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    (texts / "09-bad.txt").write_bytes(b"good\nbad \xff\n")
    choices = {"documents": "file", "lines": "sentences", "commit_seconds": 0, **SMALL}
    with pytest.raises(InputError, match=r"09-bad\.txt:2: byte 9 \(0xff\) is not UTF-8"):
        prepare(tokenizer, tmp_path / "out", texts, **choices)
    assert not (tmp_path / "out" / "manifest.json").exists()
    manifest = prepare(tokenizer, tmp_path / "out", texts, errors="replace", **choices)
    assert manifest.counts.replaced == 1
    prepare(tokenizer, tmp_path / "fresh", texts, errors="replace", **choices)
    assert folder_digest(tmp_path / "out") == folder_digest(tmp_path / "fresh")


def test_standard_input_must_come_again_as_it_was(tokenizer: Tokenizer, tmp_path: Path) -> None:
    content = "".join(f"{chr(97 + k % 26)}{'abcdefg'[k % 7]} line.\n" for k in range(300)).encode()
    choices: dict[str, Any] = {"documents": "line", "lines": "paragraphs", "segment_bytes": 200, "commit_seconds": 0}
    with pytest.raises(Stop):
        prepare(
            tokenizer, tmp_path / "out", "-", stdin=LookAhead(io.BytesIO(content)), on_progress=stop_after(4), **choices
        )
    with pytest.raises(InputError, match="other input"):
        prepare(tokenizer, tmp_path / "out", "-", stdin=LookAhead(io.BytesIO(b"x" + content)), **choices)
    prepare(tokenizer, tmp_path / "out", "-", stdin=LookAhead(io.BytesIO(content)), **choices)
    prepare(tokenizer, tmp_path / "fresh", "-", stdin=LookAhead(io.BytesIO(content)), **choices)
    assert folder_digest(tmp_path / "out") == folder_digest(tmp_path / "fresh")


def test_a_corpus_is_replaced_only_when_asked(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    prepare(tokenizer, tmp_path / "out", texts, documents="file", **SMALL)
    (tmp_path / "out" / "mine.md").write_text("notes")
    with pytest.raises(InputError, match="out: the folder contains a prepared corpus; use --overwrite to replace it"):
        prepare(tokenizer, tmp_path / "out", texts, documents="line")
    before = len(read_manifest(tmp_path / "out").shards)
    assert before > 1
    prepare(tokenizer, tmp_path / "out", texts, documents="line", overwrite=True)
    assert [path.name for path in (tmp_path / "out").glob("shard-*")] == ["shard-00000.bin"]
    assert (tmp_path / "out" / "mine.md").read_text() == "notes"


def test_a_folder_with_other_things_is_not_touched(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("x")
    with pytest.raises(InputError, match="out: the folder is not empty and is not a corpus"):
        prepare(tokenizer, out, texts, documents="file")
    with pytest.raises(InputError, match=r"mine\.txt: exists and is not a folder"):
        prepare(tokenizer, out / "mine.txt", texts, documents="file")
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_the_output_may_not_lie_in_the_input(tokenizer: Tokenizer, texts: Path) -> None:
    with pytest.raises(InputError, match=r"out: the folder lies inside the input .*texts; choose another --out"):
        prepare(tokenizer, texts / "out", texts, documents="file")
    assert not (texts / "out").exists()


def test_an_unknown_language_is_told_before_anything_is_written(
    tokenizer: Tokenizer, texts: Path, tmp_path: Path
) -> None:
    with pytest.raises(SpanlabError, match="no sentence rules for the language 'xx'"):
        prepare(tokenizer, tmp_path / "out", texts, language="xx")
    assert not (tmp_path / "out").exists()


def test_two_preparations_do_not_share_a_folder(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    def run_second(_: Progress) -> None:
        with pytest.raises(InputError, match="another preparation is writing to this folder"):
            prepare(tokenizer, tmp_path / "out", texts, documents="file", **SMALL)
        raise Stop

    with pytest.raises(Stop):
        prepare(tokenizer, tmp_path / "out", texts, documents="file", on_progress=run_second, **SMALL)
