"""Coreference scores: the reference scorer's cases, LEA's published ones, the definitions written out naively; GAP."""

from itertools import combinations, permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.metrics.coref import score_clusters, score_gap
from spanlab.text.conll_coref import read_conll_coref
from tests.metrics.coref_cases import CASES, Case

Clusters = list[frozenset[int]]
NAMES = ("muc", "b3", "ceafe", "lea", "mention")


@st.composite
def partitions(draw: st.DrawFn) -> Clusters:
    """Some of eight mentions in clusters."""
    homes = draw(st.lists(st.none() | st.integers(0, 4), min_size=8, max_size=8))
    grouped = [frozenset(mention for mention, home in enumerate(homes) if home == number) for number in range(5)]
    return [cluster for cluster in grouped if cluster]


def check(scores: dict[str, float], case: Case) -> None:
    for name, (recall, precision) in case.expected.items():
        f1 = 2 * recall * precision / (recall + precision) if recall + precision else 0
        found = scores[f"{name}_recall"], scores[f"{name}_precision"], scores[f"{name}_f1"]
        assert found == pytest.approx((100 * recall, 100 * precision, 100 * f1)), name
    assert scores["conll_f1"] == pytest.approx((scores["muc_f1"] + scores["b3_f1"] + scores["ceafe_f1"]) / 3)


@pytest.mark.parametrize("name", CASES)
def test_cases_in_letters(name: str) -> None:
    case = CASES[name]
    check(score_clusters([case.key.split()], [case.response.split()]), case)


@pytest.mark.parametrize("name", CASES)
def test_cases_in_the_scorers_own_files(name: str, real_data: Path) -> None:
    folder = real_data / "coref" / "conll_scorer_cases" / "DataFiles"
    if not folder.is_dir():
        pytest.skip("the reference scorer's cases are not there")
    key, response = read_conll_coref(folder / f"{name[:4]}.key"), read_conll_coref(folder / f"{name}.response")
    assert [document.id for document in key] == [document.id for document in response]
    scores = score_clusters([document.clusters for document in key], [document.clusters for document in response])
    check(scores, CASES[name])


@pytest.mark.parametrize("response", ["a bcxb dy z", "a bcx dy bz", "a bcx dy bbbbbbbbbbz"])
def test_a_repeated_mention_counts_once_in_its_first_cluster(response: str) -> None:
    check(score_clusters([["a", "bc", "def"]], [response.split()]), CASES["TC-A-8"])


def test_the_example_that_introduces_lea() -> None:
    """Moosavi and Strube 2016: entities {a, b, c}, {d, e, f, g} against {a, b}, {c, d}, {f, g, h, i}."""
    scores = score_clusters([["abc", "defg"]], [["ab", "cd", "fghi"]])
    assert scores["lea_recall"] == pytest.approx(100 * (3 * 1 / 3 + 4 * 1 / 6) / 7)
    assert scores["lea_precision"] == pytest.approx(100 * (2 * 1 + 2 * 0 + 4 * 1 / 6) / 8)
    assert [round(scores[f"lea_{part}"]) for part in ("recall", "precision", "f1")] == [24, 33, 28]


def naive_muc(clusters: Clusters, others: Clusters) -> tuple[float, float]:
    """Vilain et al.: a cluster less the parts that the other side cuts it into, missing mentions being parts."""
    right = 0
    for cluster in clusters:
        parts = {frozenset(cluster & other) for other in others} - {frozenset()}
        parts |= {frozenset([mention]) for mention in cluster if not any(mention in other for other in others)}
        right += len(cluster) - len(parts)
    return right, sum(len(cluster) - 1 for cluster in clusters)


def naive_b_cubed(clusters: Clusters, others: Clusters) -> tuple[float, float]:
    """Bagga and Baldwin: mention by mention."""
    right = 0.0
    for cluster in clusters:
        for mention in cluster:
            other = next((other for other in others if mention in other), frozenset())
            right += len(cluster & other) / len(cluster)
    return right, sum(map(len, clusters))


def naive_lea(clusters: Clusters, others: Clusters) -> tuple[float, float]:
    """Moosavi and Strube: links counted one by one, a lone mention linked to itself."""

    def links(cluster: frozenset[int]) -> set[tuple[int, ...]]:
        return (
            {(mention, mention) for mention in cluster} if len(cluster) == 1 else set(combinations(sorted(cluster), 2))
        )

    known = {link for other in others for link in links(other)}
    return sum(len(cluster) * len(links(cluster) & known) / len(links(cluster)) for cluster in clusters), sum(
        map(len, clusters)
    )


def naive_ceafe(clusters: Clusters, others: Clusters) -> tuple[float, float]:
    """Luo: the best of all one-to-one alignments."""
    few, many = sorted([clusters, others], key=len)
    best = max(
        sum(2 * len(one & other) / (len(one) + len(other)) for one, other in zip(few, chosen, strict=True))
        for chosen in permutations(many, len(few))
    )
    return best, len(clusters)


def naive_mention(clusters: Clusters, others: Clusters) -> tuple[float, float]:
    mentions = frozenset[int]().union(*clusters)
    return len(mentions & frozenset[int]().union(*others)), len(mentions)


NAIVE = {"muc": naive_muc, "b3": naive_b_cubed, "ceafe": naive_ceafe, "lea": naive_lea, "mention": naive_mention}


@given(st.lists(st.tuples(partitions(), partitions()), min_size=1, max_size=3), st.booleans())
def test_scores_are_what_the_papers_define(documents: list[tuple[Clusters, Clusters]], singletons: bool) -> None:
    gold, predicted = (list(column) for column in zip(*documents, strict=True))
    scores = score_clusters(gold, predicted, singletons=singletons)
    least = 1 if singletons else 2
    kept = [[[cluster for cluster in side if len(cluster) >= least] for side in pair] for pair in documents]
    for name, naive in NAIVE.items():
        for part, counts in (
            ("recall", [naive(key, response) for key, response in kept]),
            ("precision", [naive(response, key) for key, response in kept]),
        ):
            right, whole = (sum(column) for column in zip(*counts, strict=True))
            assert scores[f"{name}_{part}"] == pytest.approx(100 * right / whole if whole else 0.0), (name, part)


@given(partitions(), partitions())
def test_the_other_way_round_precision_is_recall(gold: Clusters, predicted: Clusters) -> None:
    there, back = score_clusters([gold], [predicted]), score_clusters([predicted], [gold])
    for name in NAMES:
        assert there[f"{name}_precision"] == pytest.approx(back[f"{name}_recall"])
        assert there[f"{name}_f1"] == pytest.approx(back[f"{name}_f1"])


def test_counts_are_added_up_over_documents_before_dividing() -> None:
    scores = score_clusters([["ab"], ["cdefg"]], [["ab"], []])
    assert scores["muc_recall"] == pytest.approx(100 * 1 / 5)
    assert scores["b3_recall"] == pytest.approx(100 * 2 / 7)
    assert scores["ceafe_recall"] == pytest.approx(100 * 1 / 2)
    assert scores["mention_precision"] == 100.0


def test_a_mention_belongs_to_its_document() -> None:
    assert score_clusters([["ab"], ["cd"]], [["cd"], ["ab"]])["mention_f1"] == 0.0


def test_singletons_count_or_do_not() -> None:
    with_them = score_clusters([["ab", "c", "d"]], [["ab", "c"]])
    without = score_clusters([["ab", "c", "d"]], [["ab", "c"]], singletons=False)
    assert with_them["mention_recall"] == pytest.approx(75.0)
    assert without["conll_f1"] == without["lea_f1"] == without["mention_f1"] == 100.0


def test_names_and_refusals() -> None:
    names = {f"{name}_{part}" for name in NAMES for part in ("precision", "recall", "f1")} | {"conll_f1"}
    assert set(score_clusters([[]], [[]])) == names
    with pytest.raises(InputError, match="1 gold documents and 0 predicted"):
        score_clusters([[]], [])


def test_gap_counted_by_hand() -> None:
    gold = [(True, False), (True, False), (False, True), (False, False), (False, True), (True, False)]
    predicted = [(True, False), (False, True), (False, True), (True, False), (False, False), (True, True)]
    genders = ["masculine"] * 3 + ["feminine"] * 3
    scores = score_gap(gold, predicted, genders)
    # right: questions 0, 2 and 5; said: 6; wanted: 5
    assert scores["precision"] == pytest.approx(100 * 3 / 6)
    assert scores["recall"] == pytest.approx(100 * 3 / 5)
    assert scores["f1"] == pytest.approx(100 * 6 / 11)
    assert scores["masculine_f1"] == pytest.approx(100 * 2 / 3)  # 2 right of 3 said and 3 wanted
    assert scores["feminine_f1"] == pytest.approx(100 * 2 / 5)  # 1 right of 3 said and 2 wanted
    assert scores["bias"] == pytest.approx(3 / 5)


def test_gap_without_a_positive_answer() -> None:
    scores = score_gap([(True, False)], [(False, False)], ["feminine"])
    assert set(scores.values()) == {0.0}
