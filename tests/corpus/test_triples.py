"""Facts as text: every format, templates, and lines that are no facts."""

from pathlib import Path

import pytest

from spanlab.corpus.triples import Fact, read_facts, read_templates, relation_words, verbalise
from spanlab.errors import InputError
from spanlab.inference.writers import write_triples_csv, write_triples_nt
from spanlab.tasks.ner.data import Entity
from spanlab.tasks.relation.data import RelationResult, ScoredRelation
from tests.cli.run import run_here

ADA = Fact(subject="Ada Lovelace", relation="bornIn", object="London")
KNOWS = Fact(subject="Ada Lovelace", relation="knows", object='Charles "C\\B" Babbage')


def test_tables_and_graphs_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(
        'Ada Lovelace\tbornIn\tLondon\n\nAda Lovelace\tknows\tCharles "C\\B" Babbage\nAda Lovelace\tbornIn\tLondon\n'
    )
    (tmp_path / "a.csv").write_text(
        'score,subject,relation,object\n1,Ada Lovelace,bornIn,London\n2,Ada Lovelace,knows,"Charles ""C\\B"" Babbage"\n'
    )
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    (tmp_path / "a.nt").write_text(
        "# people\n"
        f'<http://x/ada> {label} "Ada Lovelace"@en .\n'
        f'<http://x/london> {label} "Lond\\u006Fn" .\n'
        f'_:b1 {label} "Charles \\"C\\\\B\\" Babbage" .\n'
        "<http://x/ada> <http://x/terms#bornIn> <http://x/london> .\n"
        '<http://x/ada> <http://x/terms#year> "1815"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
        "<http://x/ada> <http://x/terms#nameless> <http://x/unnamed> .\n"
        "<http://x/ada> <http://x/terms/knows> _:b1 .\n"
    )
    for name in ("a.tsv", "a.csv", "a.nt"):
        assert read_facts(tmp_path / name) == [ADA, KNOWS], name


def test_what_predict_writes_is_read_back(tmp_path: Path) -> None:
    entities = tuple(
        Entity(start=at, end=at + 4, label="PER", text=text, score=1.0) for at, text in ((0, "=Ada"), (9, 'B"\\b'))
    )
    relations = (ScoredRelation(head=0, tail=1, label="works for", score=0.5),)
    result = RelationResult(id="d", entities=entities, relations=relations, source='=Ada and B"\\b')
    (tmp_path / "a.csv").write_text("".join(write_triples_csv([result])))
    (tmp_path / "a.nt").write_text("".join(write_triples_nt([result])))
    expected = [Fact(subject="=Ada", relation="works for", object='B"\\b')]
    assert read_facts(tmp_path / "a.csv") == read_facts(tmp_path / "a.nt") == expected


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        ("bornIn", "born in"),
        ("per:city_of_birth", "city of birth"),
        ("place-of-birth", "place of birth"),
        ("CEO", "CEO"),
        ("出生于", "出生于"),
    ],
)
def test_relations_become_words(relation: str, words: str) -> None:
    assert relation_words(relation) == words


def test_facts_become_sentences_by_subject() -> None:
    other = Fact(subject="{object}", relation="near", object="Rome")
    templates = {"knows": "{object} was a friend of {subject}."}
    assert list(verbalise([ADA, other, KNOWS], templates)) == [
        ["Ada Lovelace born in London.", 'Charles "C\\B" Babbage was a friend of Ada Lovelace.'],
        ["{object} near Rome."],
    ]


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("Ada\tbornIn\tLondon\nBob\tknows\tAda\n")
    (tmp_path / "templates.tsv").write_text("bornIn\t{subject} was born in {object}.\n")
    out = tmp_path / "facts.txt"
    done = run_here(
        *("data", "verbalise", str(tmp_path / "facts.tsv"), "--out", str(out)),
        *("--templates", str(tmp_path / "templates.tsv")),
    )
    assert done.returncode == 0, done.stderr
    assert out.read_text() == "Ada was born in London.\n\nBob knows Ada.\n"
    assert "2 facts about 2 subjects" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "Ada\tbornIn\n", "a.tsv:1: 2 columns, of which 2 hold text"),
        ("a.tsv", "Ada\t\tLondon\n", "3 columns, of which 2 hold text"),
        ("a.tsv", "\n", "no triples"),
        ("a.csv", "subject,relation\nAda,knows\n", "no column 'object'"),
        ("a.csv", "subject,relation,object\nAda,,Bob\n", "a.csv:2: an empty subject, relation or object"),
        ("a.nt", "<a> <b> .\n", "a.nt:1: not a statement of N-Triples"),
        ("a.nt", "<a> <b> <c> .\n", "no triples; entities of N-Triples need an rdfs:label"),
        ("a.json", "{}", "not a file of triples by its name; name it .tsv, .csv, .nt"),
    ],
)
def test_what_is_no_fact_is_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as refused:
        read_facts(tmp_path / name)
    assert message in str(refused.value)


def test_templates_need_both_places(tmp_path: Path) -> None:
    path = tmp_path / "templates.tsv"
    for text, message in (("knows {subject} {object}\n", "no tab"), ("knows\t{subject} knows\n", "without {subject}")):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            read_templates(path)
