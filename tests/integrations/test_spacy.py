"""The component in real pipelines of spaCy: what it writes, how it is saved, and that spaCy finds it by its entry."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

spacy = pytest.importorskip("spacy")

from spacy.tokens import Doc  # noqa: E402

import spanlab.integrations.spacy as component  # noqa: E402
from spanlab.errors import InputError  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TEXT = "Ada Lovelace was born in London. She worked with Charles Babbage, who admired her."


def make_pipeline(model: str | Path, **config: Any) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("spanlab", config={"model": str(model), **config})
    return nlp


@pytest.fixture(scope="module")
def reader(minilm: Path) -> Any:
    return make_pipeline("reader", tasks=["entities", "coref", "relations", "sentiment", "topic", "summary"])


def entities_of(doc: Any) -> list[tuple[str, str]]:
    return [(span.text, span.label_) for span in doc.ents]


def test_every_task_writes_where_the_table_says(reader: Any) -> None:
    doc = reader(TEXT)
    assert entities_of(doc) == [("Ada Lovelace", "PER"), ("London", "LOC"), ("Charles Babbage", "PER")]
    assert [span.text for span in doc.spans["sc"]] == [span.text for span in doc.ents]
    assert len(doc.spans["sc"].attrs["scores"]) == 3
    assert [span.text for span in doc.spans["coref_1"]] == ["Ada Lovelace", "She", "her"]
    assert doc._.clusters[0] == list(doc.spans["coref_1"])
    assert doc._.resolved.startswith("Ada Lovelace was born in London. Ada Lovelace worked with")
    (triple,) = (triple for triple in doc._.triples if triple["relation"] == "born_in")
    assert (triple["subject"], triple["object"]) == ("Ada Lovelace", "London")
    assert TEXT[triple["object_start"] : triple["object_end"]] == "London"
    assert {"negative", "positive", "science"} <= set(doc.cats)
    assert doc.cats["negative"] + doc.cats["positive"] == pytest.approx(1)
    assert doc._.summary in TEXT
    assert doc.spans["summary"][0].text in doc._.summary


def test_a_document_answers_questions(reader: Any) -> None:
    doc = reader(TEXT)
    answer = doc._.ask("Where was Ada born?")
    assert (answer.answer, doc.char_span(answer.start, answer.end).text) == ("London", "London")
    with pytest.raises(InputError, match="no spanlab component that is here has read this document"):
        spacy.blank("en")("No component has read this.")._.ask("Who?")


def test_results_are_those_of_the_predictor_one_by_one_and_in_a_stream(entity_model: Path) -> None:
    import spanlab

    texts = [f"ada lived in {place} ." for place in ("paris", "delft", "paris", "boston")] * 3
    expected = [
        [(span.text, span.label) for span in result.spans] for result in spanlab.load(entity_model).predict(texts)
    ]
    nlp = make_pipeline(entity_model)
    assert [entities_of(doc) for doc in nlp.pipe(texts, batch_size=5)] == expected
    assert [entities_of(nlp(text)) for text in texts] == expected
    pairs = list(nlp.pipe([(text, index) for index, text in enumerate(texts)], as_tuples=True))
    assert [index for _, index in pairs] == list(range(len(texts)))
    assert nlp.get_pipe("spanlab").labels == ("LOC", "PER")


def test_empty_texts_and_the_pipelines_error_handler(entity_model: Path) -> None:
    nlp = make_pipeline(entity_model)
    assert [entities_of(doc) for doc in nlp.pipe(["", "   "])] == [[], []]
    failed: list[str] = []
    nlp.set_error_handler(lambda name, proc, docs, error: failed.extend(doc.text for doc in docs))
    texts = ["ada lived in paris .", "half a pair \ud83d", "alan lived in delft ."]
    docs = [nlp.make_doc(text) for text in (texts[0], texts[2])]
    broken = Doc(nlp.vocab, words=["fine"])
    proc = nlp.get_pipe("spanlab")
    original = proc._annotate
    proc._annotate = lambda batch: original(batch) if broken not in batch else _refuse()
    kept = list(proc.pipe([docs[0], broken, docs[1]], batch_size=1))
    assert kept == docs
    assert failed == ["fine "]


def _refuse() -> None:
    raise InputError("damaged")


@pytest.mark.parametrize(("alignment", "expected"), [("expand", ["paris."]), ("contract", []), ("strict", [])])
def test_spans_inside_a_token_of_spacy(alignment: str, expected: list[str], entity_model: Path) -> None:
    from spanlab.tasks.ner.data import Entity, NerResult

    nlp = make_pipeline(entity_model, alignment=alignment)
    doc = Doc(nlp.vocab, words=["in", "paris."], spaces=[True, False])
    entity = Entity(start=3, end=8, label="LOC", text="paris", score=1.0)
    nlp.get_pipe("spanlab")._write_entities(doc, NerResult(id="0", spans=(entity,), source=doc.text))
    assert [span.text for span in doc.ents] == expected


def test_nested_entities_are_all_kept_and_the_outermost_are_ents(entity_model: Path) -> None:
    from spanlab.tasks.ner.data import Entity, NerResult

    nlp = make_pipeline(entity_model, spans_key="entities")
    doc = nlp.make_doc("the bank of england failed")
    spans = tuple(
        Entity(start=start, end=end, label=label, text=doc.text[start:end], score=score)
        for start, end, label, score in ((4, 19, "ORG", 0.9), (12, 19, "LOC", 0.8))
    )
    nlp.get_pipe("spanlab")._write_entities(doc, NerResult(id="0", spans=spans, source=doc.text))
    assert entities_of(doc) == [("bank of england", "ORG")]
    assert [(span.text, span.label_) for span in doc.spans["entities"]] == [
        ("bank of england", "ORG"),
        ("england", "LOC"),
    ]
    assert doc.spans["entities"].attrs["scores"] == [0.9, 0.8]


def test_a_pipeline_is_saved_with_its_model_and_works_where_the_model_is_gone(
    entity_model: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "run"
    shutil.copytree(entity_model, moved)
    nlp = make_pipeline(moved)
    before = entities_of(nlp("ada lived in paris ."))
    assert before
    nlp.to_disk(tmp_path / "pipeline")
    data, config = nlp.to_bytes(), nlp.config
    shutil.rmtree(moved)
    shutil.move(tmp_path / "pipeline", tmp_path / "elsewhere")
    loaded = spacy.load(tmp_path / "elsewhere")
    assert entities_of(loaded("ada lived in paris .")) == before
    from_bytes = spacy.blank("en").from_config(config).from_bytes(data)
    assert entities_of(from_bytes("ada lived in paris .")) == before
    assert from_bytes.to_bytes() == data


def test_a_model_in_the_box_is_saved_by_its_name(minilm: Path, tmp_path: Path) -> None:
    nlp = make_pipeline("reader", tasks=["entities"])
    nlp.to_disk(tmp_path / "pipeline")
    assert sorted(path.name for path in (tmp_path / "pipeline" / "spanlab").iterdir()) == ["spanlab.json"]
    assert entities_of(spacy.load(tmp_path / "pipeline")("Marie Curie lived in Paris.")) == [
        ("Marie Curie", "PER"),
        ("Paris", "LOC"),
    ]


def test_a_document_keeps_its_results_when_it_is_saved(reader: Any) -> None:
    doc = reader(TEXT)
    again = Doc(reader.vocab).from_bytes(doc.to_bytes())
    assert again._.triples == doc._.triples
    assert [[span.text for span in cluster] for cluster in again._.clusters] == [
        [span.text for span in cluster] for cluster in doc._.clusters
    ]
    assert again._.ask("Where was Ada born?").answer == "London"


def test_bytes_that_name_a_file_outside_are_refused(entity_model: Path, tmp_path: Path) -> None:
    import srsly

    proc = make_pipeline(entity_model).get_pipe("spanlab")
    data = srsly.msgpack_dumps({"model": None, "files": {"../../outside": b"x"}})
    with pytest.raises(InputError, match="outside its model"):
        proc.from_bytes(data)


def test_tasks_that_take_more_than_a_text_and_tasks_that_are_not_there(minilm: Path) -> None:
    with pytest.raises(InputError, match=r"'qa' takes question and context, and a Doc is one text; .*doc\._\.ask"):
        make_pipeline("reader", tasks=["qa"])("A text.")
    with pytest.raises(InputError, match=r"no task 'entity' .did you mean 'entities'"):
        make_pipeline("reader", tasks=["entity"])("A text.")
    with pytest.raises(InputError, match="the model answers no questions"):
        make_pipeline("spanbert-mini-en").get_pipe("spanlab").ask(spacy.blank("en")("A text."), "Who?")


def test_labels_that_two_tasks_share_carry_the_tasks_name() -> None:
    assert component._shared_labels([("a", "b"), ("b", "c")]) == {"b"}


def test_spacy_evaluates_the_pipeline_as_any_other(entity_model: Path) -> None:
    from spacy.training import Example

    from tests.integrations.models import entity_rows

    nlp = make_pipeline(entity_model)
    examples = []
    for row in entity_rows()[:4]:
        spans = [(span["start"], span["end"], span["label"]) for span in row["spans"]]
        examples.append(Example.from_dict(nlp.make_doc(row["text"]), {"entities": spans}))
    assert nlp.evaluate(examples)["ents_f"] == 1.0


def test_the_entry_point_is_enough(minilm: Path, tmp_path: Path) -> None:
    """As in an environment where SpanLab is installed, in a process that imports nothing of it."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    metadata = tmp_path / "spanlab-0.0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: spanlab\nVersion: 0.0.0\n")
    lines = [f"{name} = {target}" for name, target in declared["spacy_factories"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[spacy_factories]", *lines]) + "\n")
    code = """
import json, spacy
nlp = spacy.blank("en")
nlp.add_pipe("spanlab", config={"model": "reader", "tasks": ["entities"]})
print(json.dumps([span.text for span in nlp("Marie Curie lived in Paris.").ents]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}", "OMP_NUM_THREADS": "1", "PATH": "", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert json.loads(done.stdout) == ["Marie Curie", "Paris"]
