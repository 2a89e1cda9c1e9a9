"""Coreference columns: read, written, read again, and refused with the line."""

import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.text.conll_coref import (
    CorefDocument,
    WordSpan,
    chain_cells,
    format_conll_coref,
    read_conll_coref,
)

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n ")
WORDS = st.text(LETTERS, min_size=1, max_size=4)
NAMES = st.text(st.one_of(LETTERS, st.just(" ")), max_size=6)

WHOLE = """#begin document (bc/cctv/00/cctv_0000); part 002
bc/cctv 2  0  Ann   NNP  (TOP*  -  -  -  Speaker#1  (PERSON)  *   (12)|(3
bc/cctv 2  1  's    POS  *      -  -  -  Speaker#1  *         *   -
bc/cctv 2  2  dog   NN   *)     -  -  -  Speaker#1  *         *   3)

bc/cctv 2  0  Hers  PRP  (TOP*) -  -  -  -          *         *   (12)
#end document
"""


def crosses(span: WordSpan, other: WordSpan) -> bool:
    (start, end), (first, last) = sorted([span, other])
    return start < first < end < last


@st.composite
def documents(draw: st.DrawFn) -> CorefDocument:
    sentences = draw(st.lists(st.lists(WORDS, min_size=1, max_size=5), max_size=4))
    count = sum(map(len, sentences))
    clusters: list[tuple[WordSpan, ...]] = []
    spans = st.tuples(st.integers(0, max(count - 1, 0)), st.integers(1, 4)).map(lambda span: (span[0], sum(span)))
    for drawn in draw(st.lists(st.lists(spans, min_size=1, max_size=5), max_size=4)):
        chain: list[WordSpan] = []
        for span in drawn:
            if span[1] <= count and not any(crosses(span, other) for other in chain):
                chain.append(span)
        clusters += [tuple(sorted(chain))] if chain else []
    speakers = draw(st.one_of(st.just([]), st.lists(st.none() | WORDS, min_size=count, max_size=count)))
    return CorefDocument(
        id=draw(NAMES),
        part=draw(st.none() | st.integers(0, 1500)),
        sentences=tuple(map(tuple, sentences)),
        speakers=tuple(None if speaker in {"-", "_"} else speaker for speaker in speakers),
        clusters=tuple(clusters),
    )


def unordered(document: CorefDocument) -> tuple[object, ...]:
    speakers = document.speakers if any(document.speakers) else ()
    return document.id, document.part, document.sentences, speakers, sorted(document.clusters)


@given(st.lists(documents(), min_size=1, max_size=3, unique_by=lambda document: (document.id, document.part)))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, written: list[CorefDocument]) -> None:
    path = tmp_path_factory.mktemp("conll") / "documents.conll"
    path.write_text("".join(map(format_conll_coref, written)), encoding="utf-8", newline="\n")
    assert list(map(unordered, read_conll_coref(path))) == list(map(unordered, written))


def read(text: str, folder: Path) -> list[CorefDocument]:
    path = folder / "documents.conll"
    path.write_bytes(text.encode())
    return read_conll_coref(path)


@pytest.mark.parametrize("text", [WHOLE, WHOLE.replace("\n", "\r\n"), "\ufeff" + WHOLE, WHOLE.removesuffix("\n")])
def test_all_columns(text: str, tmp_path: Path) -> None:
    (document,) = read(text, tmp_path)
    assert document == CorefDocument(
        id="bc/cctv/00/cctv_0000",
        part=2,
        sentences=(("Ann", "'s", "dog"), ("Hers",)),
        speakers=("Speaker#1", "Speaker#1", "Speaker#1", None),
        clusters=(((0, 1), (3, 4)), ((0, 3),)),
    )
    assert document.words == ("Ann", "'s", "dog", "Hers")


def test_a_document_as_it_is_written() -> None:
    document = CorefDocument(
        id="my tale",
        sentences=(("Ann", "saw"), ("her",)),
        speakers=(None, "Old Joe", None),
        clusters=(((0, 1), (2, 3)), ((0, 2),)),
    )
    assert format_conll_coref(document).split("\n") == [
        "#begin document (my tale);",
        "my_tale\t0\t0\tAnn\t-\t*\t-\t-\t-\t-\t*\t(1|(0)",
        "my_tale\t0\t1\tsaw\t-\t*\t-\t-\t-\tOld_Joe\t*\t1)",
        "",
        "my_tale\t0\t0\ther\t-\t*\t-\t-\t-\t-\t*\t(0)",
        "",
        "#end document",
        "",
    ]


def test_columns_of_a_name_and_chains_alone(tmp_path: Path) -> None:
    text = "#begin document (x); part 000\nx (1\nx 1)(2)\n\nx -\n#end document\n"
    first, second = read(text + "#begin document (x); part 001\n#end document\n", tmp_path)
    assert (first.sentences, first.clusters) == ((("", ""), ("",)), (((0, 2),), ((1, 2),)))
    assert (second.part, second.sentences, second.clusters) == (1, (), ())


GUM = """# begin document{name}
0\tAnn\t(1)
1\tkept\t_
2\ther\t(2(1)
3\tbees\t2)
{blank}{four}\tBut\t_
{five}\tmost\t(person-3
{six}\tof\t_
{seven}\tthem\tperson-3)(2)
# end document
"""


@pytest.mark.parametrize("name", ["", " ", " GUM_bio_bees"])
@pytest.mark.parametrize("blank", ["", "\n"])
@pytest.mark.parametrize("restart", [None, 0, 1])
def test_three_columns_of_gum(tmp_path: Path, name: str, blank: str, restart: int | None) -> None:
    """With and without a name, blank lines between sentences, and counting from the start of each."""
    first = 4 if restart is None or not blank else restart
    counted = {word: first + index for index, word in enumerate(("four", "five", "six", "seven"))}
    (document,) = read(GUM.format(name=name, blank=blank, **counted), tmp_path)
    assert document.id == name.strip()
    assert document.words == ("Ann", "kept", "her", "bees", "But", "most", "of", "them")
    assert len(document.sentences) == (2 if blank else 1)
    assert document.is_split is bool(blank)
    assert document.clusters == (((0, 1), (2, 3)), ((2, 4), (7, 8)), ((5, 8),))


def test_documents_without_names_may_follow_each_other(tmp_path: Path) -> None:
    text = "# begin document\n0\tAnn\t(1)\n# end document\n"
    assert [document.words for document in read(text * 2, tmp_path)] == [("Ann",), ("Ann",)]
    with pytest.raises(InputError, match=r"the document of line 1 does not end"):
        read(text.replace("# end document\n", ""), tmp_path)


def test_three_columns_that_do_not_count_words(tmp_path: Path) -> None:
    """A scorer's file with a name, another column and the chains."""
    text = "#begin document (0);\n0\t0\t(1\n0\t1\t1)\n#end document\n"
    (document,) = read(text, tmp_path)
    assert document.words == ("", "")


def test_mentions_of_one_chain_nest_and_repeat(tmp_path: Path) -> None:
    text = "#begin document x\nx (1(1(1\nx (1)\nx 1)1)\nx 1)\n#end document\n"
    (document,) = read(text, tmp_path)
    assert document.id == "x"
    assert document.clusters == (((0, 3), (0, 3), (0, 4), (1, 2)),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x (1)\n", r":1: a word outside any document; begin with"),
        ("#begin document (x);\nx (1)\n", r"conll: the document 'x' does not end"),
        ("#begin document (x);\n#begin document (y);\n", r":2: a document begins before 'x' ends"),
        ("#begin document (x);\nx (1\nx 2)\n#end document\n", r":3: '2\)' closes a mention that was not opened"),
        ("#begin document (x);\nx -\nx (1\nx -\n#end document\n", r":5: the mention .* opens at word 2 of 'x' never"),
        ("#begin document (x);\nx 1|(2\n#end document\n", r":2: '1\|\(2' is not a list of chains; write \(7"),
        ("#begin document (x);\nx ()\n#end document\n", r":2: '\(\)' is not a list of chains"),
        ("#begin document (x);\nx\n#end document\n", r":2: 'x' is a single column"),
        ("#begin document (x);\n#end document\n" * 2, r":4: the document 'x' occurs twice; number its parts"),
        ("# nothing\n\n", r"has no '#begin document'"),
        ("", r"is empty"),
    ],
)  # fmt: skip
def test_flaws_are_named_with_their_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read(text, tmp_path)


def test_a_missing_file_and_a_wrong_encoding(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_conll_coref(tmp_path / "none.conll")
    (tmp_path / "latin.conll").write_bytes(b"#begin document (caf\xe9);\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_conll_coref(tmp_path / "latin.conll")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sentences": (("a b",),)}, "the word 'a b' of 'x' is empty or contains a space"),
        ({"sentences": (("",),)}, "the word '' of 'x' is empty"),
        ({"clusters": (((0, 3),),)}, "the mention 0 to 3 of 'x' is outside its 2 words"),
        ({"speakers": ("A",)}, "'x' has 2 words and 1 speakers"),
        ({"id": "x\ny"}, "a line break or tab in the name"),
        ({"sentences": (("a", "b", "c"),), "clusters": (((0, 2), (1, 3)),)}, "two mentions of chain 0 cross at word 2"),
    ],
)
def test_documents_that_columns_cannot_hold(changes: dict[str, object], message: str) -> None:
    whole: dict[str, object] = {"id": "x", "sentences": (("a", "b"),), "clusters": ()}
    with pytest.raises(InputError, match=message):
        format_conll_coref(CorefDocument(**(whole | changes)))  # type: ignore[arg-type]


def test_cells_open_outer_first_and_close_inner_first() -> None:
    assert chain_cells([(1, 2, 5), (0, 3, 1), (0, 2, 2), (2, 3, 4)], 4) == ["(1|(2", "(5)|2)", "(4)|1)", "-"]
    assert chain_cells([(0, 3, 1), (1, 3, 2)], 3) == ["(1", "(2", "2)|1)"]


def test_litbank(real_data: Path, tmp_path: Path) -> None:
    with tarfile.open(real_data / "coref" / "litbank_conll.tar.xz") as archive:
        members = [member for member in archive.getmembers() if member.name.endswith(".conll")]
        archive.extractall(tmp_path, members, filter="data")
    read_documents = [document for member in members for document in read_conll_coref(tmp_path / member.name)]
    assert len(read_documents) == 100
    assert sum(len(chain) for document in read_documents for chain in document.clusters) == 29103
    assert sum(len(document.words) for document in read_documents) == 210532
    for document in read_documents[:5]:
        (tmp_path / "again.conll").write_text(format_conll_coref(document), encoding="utf-8", newline="\n")
        assert unordered(read_conll_coref(tmp_path / "again.conll")[0]) == unordered(document)
