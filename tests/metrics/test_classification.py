"""Classes against scikit-learn."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn import metrics as oracle
from sklearn.preprocessing import MultiLabelBinarizer

from spanlab.errors import InputError
from spanlab.metrics.classification import (
    class_table,
    confusion_matrix,
    label_set_table,
    score_classes,
    score_label_sets,
)

PAIRS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcde")), min_size=1, max_size=30)
SETS = st.frozensets(st.sampled_from("abcd"))
SET_PAIRS = st.lists(st.tuples(SETS, SETS), min_size=1, max_size=20)


def matthews(gold: list[str], predicted: list[str]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(oracle.matthews_corrcoef(gold, predicted))


@given(PAIRS)
def test_classes_score_as_in_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = (list(column) for column in zip(*pairs, strict=True))
    assert score_classes(gold, predicted) == pytest.approx(
        {
            "accuracy": 100 * oracle.accuracy_score(gold, predicted),
            "macro_f1": 100 * oracle.f1_score(gold, predicted, average="macro", zero_division=0),
            "mcc": matthews(gold, predicted),
        }
    )


@pytest.mark.filterwarnings("ignore:A single label was found")
@given(PAIRS)
def test_tables_are_those_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = (list(column) for column in zip(*pairs, strict=True))
    matrix = confusion_matrix(gold, predicted)
    assert np.array_equal(matrix.counts, oracle.confusion_matrix(gold, predicted, labels=matrix.labels))
    columns = oracle.precision_recall_fscore_support(gold, predicted, labels=list(matrix.labels), zero_division=0)
    for index, (label, row) in enumerate(class_table(gold, predicted).items()):
        assert label == matrix.labels[index]
        expected = [100 * column[index] for column in columns[:3]]
        assert [row.precision, row.recall, row.f1] == pytest.approx(expected)
        assert row.support == columns[3][index]


@given(SET_PAIRS)
def test_label_sets_score_as_in_scikit_learn(pairs: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    gold, predicted = (list(column) for column in zip(*pairs, strict=True))
    seen = sorted(frozenset().union(*gold, *predicted))
    ours = score_label_sets(gold, predicted)
    assert ours["accuracy"] == pytest.approx(100 * np.mean([one == other for one, other in pairs]))
    if not seen:
        assert [ours["f1"], ours["macro_f1"]] == [0.0, 0.0]
        return
    assume(len(seen) > 1)  # scikit-learn takes a single column for classes 0 and 1
    binary = MultiLabelBinarizer(classes=seen)
    wanted, found = binary.fit_transform(gold), binary.fit_transform(predicted)
    assert ours["accuracy"] == pytest.approx(100 * oracle.accuracy_score(wanted, found))
    for name, average in (("f1", "micro"), ("macro_f1", "macro")):
        assert ours[name] == pytest.approx(100 * oracle.f1_score(wanted, found, average=average, zero_division=0))
    assert ours["precision"] == pytest.approx(
        100 * oracle.precision_score(wanted, found, average="micro", zero_division=0)
    )
    supports = {label: row.support for label, row in label_set_table(gold, predicted).items()}
    assert supports == dict(zip(seen, wanted.sum(axis=0), strict=True))


def test_a_large_file_does_not_overflow() -> None:
    gold = ["a", "b"] * 60_000
    predicted = ["a", "b"] * 30_000 + ["b", "a"] * 30_000
    assert score_classes(gold, predicted)["mcc"] == pytest.approx(0.0)
    assert score_classes(gold, gold) == {"accuracy": 100.0, "macro_f1": 100.0, "mcc": 1.0}


def test_by_hand() -> None:
    scores = score_classes(["yes", "yes", "no", "no"], ["yes", "no", "no", "no"])
    assert scores == pytest.approx({"accuracy": 75, "macro_f1": 100 * (2 / 3 + 4 / 5) / 2, "mcc": 2 / np.sqrt(12)})
    assert confusion_matrix(["x", "y"], ["z", "y"]).counts == ((0, 0, 1), (0, 1, 0), (0, 0, 0))


def test_refusals() -> None:
    with pytest.raises(InputError, match="2 gold labels and 1 predicted"):
        score_classes(["a", "b"], ["a"])
    with pytest.raises(InputError, match="no texts to score"):
        score_label_sets([], [])
