"""Relations: from rows to relations and back, marked or by spans, given entities or found ones, in windows too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.metrics.relations import score_semeval_2010_task_8
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.relation.config import RelationConfig
from spanlab.tasks.relation.data import RelationExample, RelationResult, ScoredRelation
from spanlab.tasks.relation.decode import PredictedEntities, ScoredPairs
from spanlab.tasks.relation.method import all_pairs
from spanlab.tasks.relation.task import Relations
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.text import Tokenizer
from tests.tasks.making import BPE, TOKENIZER, decode_all, predict, read, tiny_encoder, train_head, windower

TEXT = "Anna met Captain O'Neill on the island before dawn. Mr. Brown ordered coffee in the café."
ENTITIES = [
    {"start": 80, "end": 88, "label": "LOC"},
    {"start": 0, "end": 4, "label": "PER"},
    {"start": 17, "end": 24, "label": "PER"},
    {"start": 28, "end": 38, "label": "LOC"},
    {"start": 52, "end": 61, "label": "PER"},
]
ROWS: list[dict[str, Any]] = [
    {
        "text": TEXT,
        "entities": ENTITIES,
        "relations": [
            {"head": 1, "tail": 2, "label": "met"},
            {"head": 2, "tail": 3, "label": "was in"},
            {"head": 1, "tail": 3, "label": "was in"},
            {"head": 4, "tail": 0, "label": "was in"},
            {"head": 0, "tail": 4, "label": "held"},
        ],
    },
    {"text": "Nobody on the quay waved.", "entities": [{"start": 10, "end": 18, "label": "LOC"}], "relations": []},
    {"text": "It was a warning.", "entities": [], "relations": []},
]
# One relation a pair at most, which is what markers can tell.
SINGLE = [{**ROWS[0], "relations": ROWS[0]["relations"][:4]}, *ROWS[1:]]


def fit(rows: list[dict[str, Any]], **changes: Any) -> tuple[Relations, list[Any]]:
    examples = read(Relations, rows)
    return Relations.fit(RelationConfig(**changes), examples), examples


def oracle(task: Relations, sample: Sample) -> Any:
    """What a head that knows the targets would say."""
    if task.config.head == "markers":
        return np.eye(99, dtype=np.float32)[sample.targets["label"][0]] * 9
    scores = sample.targets["relations"].astype(np.float32) * 0.9
    if task.config.head == "pairs":
        heads, tails = (sample.features[name].astype(np.int64) for name in ("heads", "tails"))
        return ScoredPairs(heads=heads, tails=tails, scores=scores)
    labels = sample.targets["labels"].astype(np.int64)
    spans = np.flatnonzero(labels)
    entities = PredictedEntities(spans=spans, labels=labels[spans], scores=np.ones(len(spans), np.float32))
    heads, tails = (sample.targets[name].astype(np.int64) for name in ("heads", "tails"))
    assert (heads.tolist(), tails.tolist()) == tuple(spans[each].tolist() for each in all_pairs(len(spans)))
    return ScoredPairs(heads=heads, tails=tails, scores=scores, entities=entities)


def told(result: RelationResult) -> set[tuple[str, str, str]]:
    names = [one.text for one in result.entities]
    return {(names[one.head], one.label, names[one.tail]) for one in result.relations}


def gold(row: dict[str, Any]) -> set[tuple[str, str, str]]:
    names = [row["text"][one["start"] : one["end"]] for one in row["entities"]]
    return {(names[one["head"]], one["label"], names[one["tail"]]) for one in row["relations"]}


@pytest.mark.parametrize("tokenizer", [TOKENIZER, BPE], ids=["wordpiece", "bpe"])
@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        (SINGLE, {"head": "markers", "markers": "text"}),
        (SINGLE, {"head": "markers", "markers": "type"}),
        (SINGLE, {"head": "markers", "markers": "both"}),
        (ROWS, {"head": "markers", "direction": "marker"}),
        (ROWS, {"head": "pairs"}),
        (ROWS, {"head": "joint"}),
        (ROWS, {"head": "joint", "units": "character"}),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_what_is_encoded_is_decoded(rows: list[dict[str, Any]], changes: dict[str, Any], tokenizer: Tokenizer) -> None:
    task, examples = fit(rows, **changes)
    samples = task.encode(examples, windower(400, None, tokenizer), labelled=True)
    results = decode_all(task, examples, samples, [oracle(task, sample) for sample in samples])
    assert [told(result) for result in results] == [gold(row) for row in rows]
    metrics = task.score(examples, results).metrics
    assert metrics["f1"] == metrics["macro_f1"] == 100.0
    if task.config.head == "joint":
        assert metrics["entity_f1"] == metrics["boundary_f1"] == 100.0
    else:
        assert [(one.start, one.end, one.label) for one in results[0].entities] == [
            (one["start"], one["end"], one["label"]) for one in ENTITIES
        ]
    assert all(task.mistake(*pair) is None for pair in zip(examples, results, strict=True))


@pytest.mark.parametrize("head", ["pairs", "joint"])
def test_relations_of_a_long_text_are_found_in_its_windows(head: str) -> None:
    apart = " and then the coffee and the dawn and the quay and the café" * 3
    text = f"Anna met Brown.{apart} Anna met Brown.{apart} Anna met Brown."
    places = [place for place in range(len(text)) if text.startswith(("Anna", "Brown"), place)]
    entities = [{"start": place, "end": place + (4 if text[place] == "A" else 5), "label": "PER"} for place in places]
    near = [{"head": n, "tail": n + 1, "label": "met"} for n in (0, 2, 4)]
    row = {"text": text, "entities": entities, "relations": near}
    task, examples = fit([row], head=head)
    samples = task.encode(examples, windower(48), labelled=True)
    (result,) = decode_all(task, examples, samples, [oracle(task, sample) for sample in samples])
    assert result.windows == len(samples) > 3
    assert [(one.head, one.tail) for one in result.relations] == [(0, 1), (2, 3), (4, 5)]
    assert len(result.entities) == 6


def test_a_marked_pair_is_seen_in_the_window_around_it() -> None:
    text = "the quay " * 60 + "Anna met Brown" + " the café" * 60 + " Mr. O'Neill"
    start = text.index("Anna")
    entities = [
        {"start": start, "end": start + 4, "label": "PER"},
        {"start": start + 9, "end": start + 14, "label": "PER"},
        {"start": text.index("O'Neill"), "end": len(text), "label": "PER"},
    ]
    row = {"text": text, "entities": entities, "relations": [{"head": 0, "tail": 1, "label": "met"}]}
    task, examples = fit([row], head="markers", markers="text")
    frame = windower(40)
    (sample,) = task.encode(examples, frame, labelled=True)  # the third entity is out of reach of the others
    assert len(sample.sequences[0]) == 40
    assert sample.features["pair"].tolist() == [[0, 1]]
    words = TOKENIZER.decode(sample.sequences[0].ids)
    assert "anna" in words
    assert "brown" in words
    assert not sample.truncated
    frame.length, frame.stride, frame.long_text = 40, None, "truncate"
    assert not task.encode(examples, frame, labelled=True)
    frame.length, frame.stride, frame.long_text = 40, None, "error"
    with pytest.raises(InputError, match="long_text"):
        task.encode(examples, frame, labelled=True)


@pytest.mark.parametrize(
    ("rows", "changes", "steps"),
    [
        (SINGLE, {"head": "markers"}, 40),
        (ROWS, {"head": "pairs"}, 80),
        (ROWS, {"head": "joint"}, 150),
    ],
    ids=["markers", "pairs", "joint"],
)
def test_it_learns(rows: list[dict[str, Any]], changes: dict[str, Any], steps: int) -> None:
    task, examples = fit(rows, **changes)
    encoder, head = train_head(task, examples, windower(), steps=steps)
    results = predict(task, encoder, head, examples, windower())
    assert task.score(examples, results).metrics["f1"] == 100.0


def test_a_batch_scores_a_pair_as_the_pair_alone() -> None:
    """Rows of spans and pairs are counted over the whole batch; each text alone must give the same."""
    task, examples = fit(ROWS, head="pairs")
    torch.manual_seed(1)
    encoder = tiny_encoder().eval()
    head = task.head(encoder).eval()
    several = [examples[1], examples[0], examples[2], examples[0]]
    samples = task.encode(several, windower(), labelled=False)

    def scores(chosen: list[Sample]) -> list[ScoredPairs]:
        batch = pack_samples(SampleBatch(task="relation", samples=tuple(chosen)))
        with torch.no_grad():
            return head.split(MultiTaskNetwork(encoder, {"relation": head})(batch, return_logits=True), batch)  # type: ignore[arg-type]

    together = scores(samples)
    for sample, output in zip(samples, together, strict=True):
        (alone,) = scores([sample])
        assert alone.heads.tolist() == output.heads.tolist()
        np.testing.assert_allclose(alone.scores, output.scores, atol=1e-5)
    assert [len(output.heads) for output in together] == [0, 20, 0, 20]


def test_a_batch_without_a_pair_has_a_gradient_for_every_weight() -> None:
    task, examples = fit(ROWS, head="joint")
    encoder = tiny_encoder()
    head = task.head(encoder)
    criterion = MultiTaskNetwork(encoder, {"relation": head})
    batch = SampleBatch(task="relation", samples=tuple(task.encode(examples[1:2], windower(), labelled=True)))
    criterion(pack_samples(batch), criterion.counts(batch)).value.backward()
    assert all(weight.grad is not None for weight in head.parameters())


def test_the_data_decide_the_head() -> None:
    pair = {"text": TEXT, "entities": ENTITIES[1:3], "relations": [{"head": 1, "tail": 0, "label": "met"}]}
    assert fit([pair])[0].config.head == "markers"
    assert fit([pair, ROWS[1]])[0].config.head == "joint"
    nested = {**pair, "entities": [*ENTITIES[1:3], {"start": 9, "end": 24, "label": "PER"}]}
    assert fit([nested])[0].config.nested is True
    assert fit([ROWS[0]])[0].config.nested is False
    assert fit([ROWS[0]])[0].config.max_width == 3  # O'Neill, parted at its mark
    assert fit([ROWS[0]], units="character")[0].config.max_width == 10
    with pytest.raises(InputError, match="no relation"):
        fit(ROWS[1:])


def test_an_entity_wider_than_asked_for_is_refused_or_left_out() -> None:
    task, examples = fit(ROWS, head="joint", max_width=1)
    with pytest.raises(InputError, match=r"units wide, but max_width is 1.*use max_width="):
        task.encode(examples, windower(), labelled=True)
    task, examples = fit(ROWS, head="joint", max_width=1, data=type(task.config.data)(bad_rows="drop"))
    samples = task.encode(examples, windower(), labelled=True)
    assert sum(int((sample.targets["labels"] > 0).sum()) for sample in samples) == 1


def test_the_label_of_a_marked_pair_has_its_direction() -> None:
    task, examples = fit(SINGLE, head="markers")
    labels = task.head(tiny_encoder()).standard
    assert labels is not None
    assert labels.labels == ("no_relation", "met(e1,e2)", "met(e2,e1)", "was in(e1,e2)", "was in(e2,e1)")
    samples = task.encode(examples, windower(), labelled=True)
    assert len(samples) == 10
    named = {tuple(sample.features["pair"][0].tolist()): int(sample.targets["label"][0]) for sample in samples}
    assert {pair: number for pair, number in named.items() if number} == {(1, 2): 1, (2, 3): 3, (1, 3): 3, (4, 0): 3}
    turned = [{**SINGLE[0], "relations": [{"head": 2, "tail": 1, "label": "met"}]}]
    task, examples = fit(turned, head="markers")
    assert max(int(s.targets["label"][0]) for s in task.encode(examples, windower(), labelled=True)) == 2


def test_two_relations_of_a_marked_pair_are_refused_or_the_first_is_learnt() -> None:
    task, examples = fit(ROWS, head="markers")
    with pytest.raises(InputError, match=r"two relations.*head=pairs"):
        task.encode(examples, windower(), labelled=True)
    config = RelationConfig(head="markers")
    task, examples = fit(ROWS, head="markers", data=type(config.data)(bad_rows="drop"))
    samples = task.encode(examples, windower(), labelled=True)
    assert sum(int(sample.targets["label"][0]) > 0 for sample in samples) == 4


def test_entities_must_be_given_where_they_are_not_found() -> None:
    for head in ("markers", "pairs"):
        task, _ = fit(SINGLE, head=head)
        example = Relations.read(Row(values={"text": TEXT}, path="texts.txt", line=3), labelled=False)
        with pytest.raises(InputError, match=r"texts\.txt:3: .*head=joint"):
            task.encode([example], windower(), labelled=False)
    other = {"text": TEXT, "entities": [*ENTITIES[:2], {"start": 17, "end": 24, "label": "PERS"}]}
    for head in ("markers", "pairs"):
        task, _ = fit(SINGLE, head=head)
        with pytest.raises(InputError, match="did you mean 'PER'"):
            task.encode(read(Relations, [other], labelled=False), windower(), labelled=False)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"entities": [], "relations": []}, "missing field"),
        ({"text": " ", "entities": [], "relations": []}, "empty text"),
        ({"text": "Anna left", "relations": []}, "no entities"),
        ({"text": "Anna left", "entities": []}, "no relations"),
        ({"text": "Anna left", "entities": [{"start": 0, "end": 40, "label": "PER"}], "relations": []}, "span outside"),
        ({"relations": [{"head": 0, "tail": 2, "label": "x"}]}, "relation to a missing entity"),
        ({"relations": [{"head": -1, "tail": 1, "label": "x"}]}, "relation to a missing entity"),
        ({"relations": [{"head": "0", "tail": 1, "label": "x"}]}, "index is not a number"),
        ({"relations": [{"head": 0, "label": "x"}]}, "incomplete relation"),
        ({"relations": [{"head": 0, "tail": 1, "label": ""}]}, "empty label"),
        ({"relations": [{"head": 1, "tail": 1, "label": "x"}]}, "relation of an entity with itself"),
        ({"relations": {"head": 0}}, "no relations"),
    ],
)
def test_problems_are_told_with_their_line(values: dict[str, Any], kind: str) -> None:
    right = {"text": "Anna left Oslo", "entities": [ENTITIES[1], {"start": 10, "end": 14, "label": "LOC"}]}
    row = Row(
        values=values if "entities" in values or "text" in values else {**right, **values}, path="x.jsonl", line=7
    )
    problems = list(Relations.problems(row))
    assert len(problems) == 1
    assert problems[0].kind.startswith(kind)
    assert problems[0].serious
    with pytest.raises(InputError, match=r"^x\.jsonl:7: "):
        Relations.read(row, labelled=True)


def test_a_relation_told_twice_is_one_and_no_relation_is_none() -> None:
    twice = [{"head": 1, "tail": 2, "label": "met"}] * 2 + [{"head": 0, "tail": 1, "label": "no_relation"}]
    row = Row(values={"text": TEXT, "entities": ENTITIES, "relations": twice})
    assert [(problem.kind, problem.serious) for problem in Relations.problems(row)] == [("duplicate relation", False)]
    assert len(Relations.read(row, labelled=True).relations) == 1


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12))
@settings(max_examples=50)
def test_macro_f1_of_pairs_is_the_official_score(pairs: list[tuple[int, int]]) -> None:
    names = ["Other", "A(e1,e2)", "A(e2,e1)", "B(e1,e2)", "B(e2,e1)"]

    def relations(number: int) -> list[dict[str, Any]]:
        head, tail = (0, 1) if number % 2 else (1, 0)
        return [{"head": head, "tail": tail, "label": names[number][0]}] if number else []

    row = {"text": TEXT, "entities": ENTITIES[1:3]}
    task, _ = fit([{**row, "relations": relations(1)}])
    examples = read(Relations, [{**row, "relations": relations(wanted)} for wanted, _ in pairs])
    results = [
        task.read_result(Row(values={"relations": relations(found)}), number, example)
        for number, ((_, found), example) in enumerate(zip(pairs, examples, strict=True))
    ]
    official = score_semeval_2010_task_8([names[a] for a, _ in pairs], [names[b] for _, b in pairs])
    assert task.score(examples, results).metrics["macro_f1"] == pytest.approx(official["macro_f1"])


def test_the_threshold_is_the_one_that_is_best_on_dev() -> None:
    task, examples = fit(ROWS, head="pairs")
    samples = task.encode(examples, windower(), labelled=True)
    outputs = []
    for sample in samples:
        sure = oracle(task, sample)
        noise = np.where(sample.targets["relations"] > 0, 0.42, 0.28).astype(np.float32)
        outputs.append(ScoredPairs(heads=sure.heads, tails=sure.tails, scores=noise))
    tuned = task.tune(examples, [[sample] for sample in samples], [[output] for output in outputs])
    assert tuned.fitted.thresholds == {"relation": 0.4}
    results = decode_all(tuned, examples, samples, outputs)
    assert tuned.score(examples, results).metrics["f1"] == 100.0
    assert task.score(examples, decode_all(task, examples, samples, outputs)).metrics["f1"] == 0.0


def test_predictions_of_other_systems_are_read_and_mistakes_are_told() -> None:
    task, examples = fit(ROWS, head="joint")
    right = task.read_result(Row(values=ROWS[0]), 0, examples[0])
    assert task.mistake(examples[0], right) is None
    wrong = RelationResult(
        id="0",
        entities=right.entities,
        relations=(ScoredRelation(head=1, tail=2, label="held", score=0.75),),
        source=TEXT,
    )
    mistake = task.mistake(examples[0], wrong)
    assert mistake is not None
    assert mistake.badness == pytest.approx(5.75)
    assert mistake.predicted == "Anna held O'Neill"
    assert "<b>held</b>" in mistake.shown
    with pytest.raises(InputError, match="there are 5 entities"):
        task.read_result(Row(values={"relations": [{"head": 0, "tail": 9, "label": "x"}]}), 0, examples[0])


@pytest.mark.parametrize(
    ("file", "head", "rows", "relations"),
    [
        ("semeval2010_task8.train", "markers", 8000, 6590),
        ("conll04.dev", "joint", 243, 353),
        ("scierc_joint_er_dev.json", "joint", 275, 455),
    ],
)
def test_real_files_from_file_to_score(real_data: Path, file: str, head: str, rows: int, relations: int) -> None:
    found = list(read_rows(str(real_data / "relation" / file), Relations.shape))
    examples: list[RelationExample] = [Relations.read(row, labelled=True) for row in found if isinstance(row, Row)]
    assert (len(examples), sum(len(one.relations) for one in examples)) == (rows, relations)
    task = Relations.fit(RelationConfig(), examples)
    assert task.config.head == head
    few = examples[:150]
    frame = windower(256, None, Tokenizer.load(real_data / "tokenizers" / "bert-base-uncased"))
    samples = task.encode(few, frame, labelled=True)
    results = decode_all(task, few, samples, [oracle(task, sample) for sample in samples])
    assert task.score(few, results).metrics["f1"] == 100.0
