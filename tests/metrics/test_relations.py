"""Relations by the rules of TACRED, of SemEval-2010 task 8, and of joint extraction."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from spanlab.errors import InputError
from spanlab.metrics.relations import (
    EntityRelations,
    relation_label_table,
    relation_table,
    score_given_relations,
    score_joint_relations,
    score_relations,
    score_semeval_2010_task_8,
)

LABELS = st.sampled_from(["no_relation", "born", "works", "owns"])
DIRECTED = st.sampled_from(["Other", *(f"{name}({way})" for name in ("Cause-Effect", "Entity-Origin", "Message-Topic")
                                       for way in ("e1,e2", "e2,e1"))])  # fmt: skip


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=30))
def test_micro_scores_leave_no_relation_out(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = (list(column) for column in zip(*pairs, strict=True))
    relations = sorted({*gold, *predicted} - {"no_relation"})
    ours = score_relations(gold, predicted)
    if not relations:
        assert set(ours.values()) == {0.0}
        return
    micro = precision_recall_fscore_support(gold, predicted, labels=relations, average="micro", zero_division=0)
    macro = precision_recall_fscore_support(gold, predicted, labels=relations, average="macro", zero_division=0)
    expected = [100 * score for score in (*micro[:3], macro[2])]
    assert [ours[name] for name in ("precision", "recall", "f1", "macro_f1")] == pytest.approx(expected)
    assert list(relation_table(gold, predicted)) == relations


def official_macro_f1(gold: list[str], predicted: list[str]) -> float:
    """The official scorer's steps: a confusion matrix by name, in which a wrong direction is a column of its own."""
    names = [re.sub(r"\(e[12],e[12]\)$", "", label) for label in gold]
    guesses = [re.sub(r"\(e[12],e[12]\)$", "", label) for label in predicted]
    columns = [
        "WRONG_DIR" if name == guess and label != answer else guess
        for name, guess, label, answer in zip(names, guesses, predicted, gold, strict=True)
    ]
    f1s = []
    for relation in sorted(set(names) - {"Other"}):
        right = sum(name == column == relation for name, column in zip(names, columns, strict=True))
        turned = sum(name == relation and column == "WRONG_DIR" for name, column in zip(names, columns, strict=True))
        proposed = columns.count(relation)
        precision = 100 * right / (proposed + turned) if proposed else 0
        recall = 100 * right / names.count(relation)
        f1s.append(2 * precision * recall / (precision + recall) if precision + recall else 0)
    return sum(f1s) / len(f1s) if f1s else 0.0


@given(st.lists(st.tuples(DIRECTED, DIRECTED), min_size=1, max_size=30))
def test_semeval_scores_are_those_of_the_official_steps(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = (list(column) for column in zip(*pairs, strict=True))
    assert score_semeval_2010_task_8(gold, predicted)["macro_f1"] == pytest.approx(official_macro_f1(gold, predicted))


def test_semeval_by_hand() -> None:
    gold = ["Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)", "Entity-Origin(e1,e2)", "Other", "Other"]
    predicted = ["Cause-Effect(e1,e2)", "Cause-Effect(e1,e2)", "Other", "Cause-Effect(e2,e1)", "Message-Topic(e1,e2)"]
    # Cause-Effect: 1 of 3 proposed, 1 of 2 there. Entity-Origin: nothing. Message-Topic is not in the key.
    scores = score_semeval_2010_task_8(gold, predicted)
    assert scores["macro_f1"] == pytest.approx(40 / 2)
    assert [scores["precision"], scores["recall"]] == pytest.approx([100 / 3, 100 / 3])


def text(entities: list[tuple[int, int, str]], relations: list[tuple[int, int, str]]) -> EntityRelations:
    return EntityRelations(entities=tuple(entities), relations=tuple(relations))


def test_joint_relations_strict_and_by_boundaries() -> None:
    gold = [text([(0, 3, "PER"), (5, 9, "ORG"), (11, 14, "LOC")], [(0, 1, "works"), (1, 2, "based")])]
    predicted = [
        text([(5, 9, "ORG"), (0, 3, "PER"), (11, 14, "ORG")], [(1, 0, "works"), (0, 2, "based"), (2, 0, "based")])
    ]
    scores = score_joint_relations(gold, predicted)
    assert {name: scores[name] for name in ("precision", "recall")} == pytest.approx(
        {"precision": 100 / 3, "recall": 50}
    )
    assert scores["macro_f1"] == pytest.approx((100 + 0) / 2)
    assert [scores["boundary_precision"], scores["boundary_recall"], scores["boundary_f1"]] == pytest.approx(
        [200 / 3, 100, 80]
    )
    assert scores["entity_f1"] == pytest.approx(200 / 3)


def test_the_order_of_entities_does_not_matter_and_that_of_head_and_tail_does() -> None:
    gold = text([(0, 1, "A"), (2, 3, "B")], [(0, 1, "r")])
    assert score_joint_relations([gold], [text([(2, 3, "B"), (0, 1, "A")], [(1, 0, "r")])])["f1"] == 100.0
    assert score_joint_relations([gold], [text([(0, 1, "A"), (2, 3, "B")], [(1, 0, "r")])])["boundary_f1"] == 0.0


def test_refusals() -> None:
    with pytest.raises(InputError, match="the relation 'r' links entities 0 and 2, but there are 2"):
        text([(0, 1, "A"), (2, 3, "B")], [(0, 2, "r")])
    with pytest.raises(InputError, match="1 gold texts and 2 predicted"):
        score_relations(["a"], ["a", "b"])


def test_given_entities_count_by_boundaries_and_macro_f1_by_the_relations_of_the_key() -> None:
    def text(kind: str, *relations: tuple[int, int, str]) -> EntityRelations:
        return EntityRelations(entities=((0, 4, kind), (9, 12, kind)), relations=relations)

    gold = [text("PER", (0, 1, "owns")), text("PER", (1, 0, "owns")), text("PER")]
    found = [text("ORG", (0, 1, "owns")), text("PER", (0, 1, "owns")), text("PER", (0, 1, "born"))]
    scores = score_given_relations(gold, found)
    assert scores["precision"] == pytest.approx(100 / 3)
    assert scores["recall"] == 50.0
    assert scores["macro_f1"] == 50.0  # "born" is not in the key
    assert relation_label_table(gold, found, typed=False)["owns"].f1 == 50.0
    assert relation_label_table(gold, found, typed=True)["owns"].f1 == 0.0
