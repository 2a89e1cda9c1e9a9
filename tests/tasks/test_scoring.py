"""Predictions of other systems: matched by id, else by order."""

import json
from pathlib import Path

import pytest
from seqeval.metrics import f1_score

from spanlab.errors import InputError
from spanlab.tasks.scoring import score_files
from tests.cli.run import run_here

GOLD = [
    {"id": "a", "text": "one", "label": "x"},
    {"id": "b", "text": "two", "label": "y"},
    {"id": "c", "text": "three", "label": "y"},
]


def write(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_by_id_in_any_order(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", GOLD)
    rows = [{"id": "c", "label": "y"}, {"id": "a", "label": "x"}, {"id": "b", "label": "x"}]
    scores = score_files("classification", gold, write(tmp_path / "p.jsonl", rows))
    assert scores.metrics["accuracy"] == pytest.approx(200 / 3)
    assert scores.to_dict()["count"] == 3
    table = tmp_path / "p.tsv"
    table.write_text("id\tlabel\nc\ty\na\tx\nb\tx\n")
    assert score_files("classification", gold, str(table)) == scores
    with pytest.raises(InputError, match="no prediction for id 'b'"):
        score_files("classification", gold, write(tmp_path / "q.jsonl", [rows[0], rows[1], {"id": "z", "label": "x"}]))


def test_by_order_where_there_are_no_ids(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", [{k: v for k, v in row.items() if k != "id"} for row in GOLD])
    rows: list[dict[str, object]] = [{"label": "x"}, {"label": "y"}, {"label": "y"}]
    assert score_files("classification", gold, write(tmp_path / "p.jsonl", rows)).metrics["accuracy"] == 100
    with pytest.raises(InputError, match="2 predictions for 3 examples"):
        score_files("classification", gold, write(tmp_path / "q.jsonl", rows[:2]))
    with pytest.raises(InputError, match=r"r\.jsonl:1: the field 'label' is missing"):
        score_files("classification", gold, write(tmp_path / "r.jsonl", [{"text": "x"}, *rows[1:]]))


QUESTIONS: list[dict[str, object]] = [
    {"id": "a", "question": "Who?", "context": "Ann ran", "answers": [{"text": "Ann", "start": 0}]},
    {"id": "b", "question": "Why?", "context": "Ann ran", "answers": []},
    {"id": "c", "question": "Who?", "context": "Bob sat", "answers": [{"text": "Bob", "start": 0}]},
    {"id": "d", "question": "How?", "context": "Bob sat", "answers": []},
]


def test_missing_answers_are_wrong_as_in_the_official_script(tmp_path: Path) -> None:
    """Even those to questions without an answer, which an empty answer would get right."""
    gold, path = write(tmp_path / "gold.jsonl", QUESTIONS), tmp_path / "p.json"
    path.write_text(json.dumps({"a": "Ann", "b": ""}))
    scores = score_files("qa", gold, str(path))
    assert (scores.count, scores.metrics["exact_match"], scores.metrics["f1"]) == (4, 50.0, 50.0)
    assert (scores.metrics["has_answer_f1"], scores.metrics["no_answer_f1"]) == (50.0, 50.0)
    assert scores.remarks == (f"{path}: no prediction for id 'c' and 1 more of 4 examples: counted as wrong",)
    rows: list[dict[str, object]] = [{"id": "a", "answer": "Ann"}, {"id": "b", "answer": ""}]
    assert score_files("qa", gold, write(tmp_path / "p.jsonl", rows)).metrics == scores.metrics
    with pytest.raises(InputError, match=r"gold\.jsonl:3: no prediction for id 'c' and 1 more of 4 examples"):
        score_files("qa", gold, str(path), strict=True)


def test_predictions_for_unknown_ids_are_left_out(tmp_path: Path) -> None:
    gold, path = write(tmp_path / "gold.jsonl", QUESTIONS), tmp_path / "p.json"
    path.write_text(json.dumps({"a": "Ann", "b": "", "c": "Bob", "d": "", "y": "Eve", "z": ""}))
    scores = score_files("qa", gold, str(path))
    assert scores.metrics["f1"] == 100
    cause = "a prediction for id 'y' and for 1 more, which the gold file does not have"
    assert scores.remarks == (f"{path}: {cause}: left out",)
    with pytest.raises(InputError, match=cause):
        score_files("qa", gold, str(path), strict=True)


def test_the_command_warns_and_with_strict_refuses(tmp_path: Path) -> None:
    gold, path = write(tmp_path / "gold.jsonl", QUESTIONS), tmp_path / "p.json"
    path.write_text(json.dumps({"a": "Ann", "z": "Eve"}))
    command = ("score", "qa", "--gold", gold, "--predicted", str(path), "--json")
    done = run_here(*command)
    assert done.returncode == 0
    assert json.loads(done.stdout)["metrics"]["exact_match"] == 25
    missing, unknown = done.stderr.splitlines()
    assert "no prediction for id 'b' and 2 more of 4 examples: counted as wrong" in missing
    assert "a prediction for id 'z', which the gold file does not have: left out" in unknown
    refused = run_here(*command, "--strict")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "gold.jsonl:2: no prediction for id 'b'" in refused.stderr


def test_submissions_with_mixed_tags_score_as_seqeval_scores_them(tmp_path: Path) -> None:
    gold = [["B-person", "I-person", "O", "B-group"], ["O", "B-person", "B-person"]]
    tags = [["I-person", "I-person", "O", "B-group"], ["B-person", "I-person", "B-person"]]
    paths = {}
    for name, sentences in (("gold", gold), ("mixed", tags)):
        blocks = ["".join(f"w{i}\t{tag}\n" for i, tag in enumerate(sentence)) for sentence in sentences]
        paths[name] = tmp_path / f"{name}.conll"
        paths[name].write_text("\n".join(blocks))
    command = ("score", "ner", "--gold", str(paths["gold"]), "--predicted", str(paths["mixed"]), "--json")
    done = run_here(*command)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["f1"] == pytest.approx(100 * f1_score(gold, tags))
    assert f"{paths['mixed']}:1: the entity that begins with 'I-person' is not written as in IOB2" in done.stderr
    assert run_here(*command, "--tag-scheme", "iob2").stdout == done.stdout
    refused = run_here(*command, "--tag-scheme", "BMES")
    assert refused.returncode == 2
    assert f"{paths['gold']}:2: 'I-person' is not a tag of BMES" in refused.stderr


def columns(path: Path, *sentences: str) -> str:
    path.write_text("\n\n".join(sentence.replace(" ", "\n").replace("/", "\t") for sentence in sentences) + "\n")
    return str(path)


def test_entities_are_compared_word_by_word(tmp_path: Path) -> None:
    """Some systems normalise words: what counts is the line, as for conlleval."""
    gold = columns(tmp_path / "gold.conll", "see/O t.co.x/O Ada/B-PER Lovelace/I-PER", "Rome/B-LOC isn't/O")
    predicted = columns(tmp_path / "p.conll", "see/O url/O Ada/B-PER lovelace/I-PER", "Rome/B-LOC is_not/O")
    assert score_files("ner", gold, predicted).metrics["f1"] == 100
    predicted = columns(tmp_path / "p.conll", "see/O url/O Ada/B-PER lovelace/O", "Rome/B-LOC is_not/O")
    assert score_files("ner", gold, predicted).metrics["f1"] == 50
    cut = columns(tmp_path / "q.conll", "see/O url/O Ada/B-PER", "Rome/B-LOC isn't/O")
    with pytest.raises(InputError, match=r"q\.conll:1: 3 words, but the example in .*gold\.conll:1 has 4"):
        score_files("ner", gold, cut)


@pytest.mark.parametrize("row", ["x\t{2}", "{0}\t{1}\t{2}", "x\t0\t{0}\t_\t{2}"])
def test_mentions_are_compared_word_by_word(tmp_path: Path, row: str) -> None:
    """The columns that scorers take have no words, others a form of their own."""
    words = [("Ada", "(1)"), ("saw", "-"), ("her", "(2(1)"), ("bees", "2)"), ("It", "(2)")]
    gold, predicted = tmp_path / "gold.conll", tmp_path / "p.conll"
    for path, pattern in ((gold, "x\t0\t{0}\t{1}\t{2}"), (predicted, row)):
        forms = [(word if path is gold else word.lower(), cell) for word, cell in words]
        lines = [pattern.format(index, word, cell) for index, (word, cell) in enumerate(forms)]
        path.write_text("#begin document (x);\n" + "\n".join(lines) + "\n#end document\n")
    assert score_files("coref", str(gold), str(predicted)).metrics["conll_f1"] == 100


def test_offsets_in_another_text_are_refused(tmp_path: Path) -> None:
    spans = [{"start": 0, "end": 3, "label": "PER"}]
    gold = write(tmp_path / "gold.jsonl", [{"text": "Ada ran", "spans": spans}])
    rows: list[dict[str, object]] = [{"text": "Ada ran", "spans": spans}]
    assert score_files("ner", gold, write(tmp_path / "p.jsonl", rows)).metrics["f1"] == 100
    rows = [{"text": " Ada ran", "spans": spans}]
    with pytest.raises(InputError, match=r"p\.jsonl:1: the text is not that of the example in .*gold\.jsonl:1"):
        score_files("ner", gold, write(tmp_path / "p.jsonl", rows))


def test_an_unknown_task(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'classification'"):
        score_files("clasification", "a", "b")
