"""Coreference: from documents to clusters and back, whatever the segments and the order, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.encoder import Encoder
from spanlab.errors import ConfigError, InputError
from spanlab.finetuning.batches import TaskBatches
from spanlab.finetuning.config import resolve_config
from spanlab.tasks.coref.config import SMALL, CorefConfig, CorefLayers
from spanlab.tasks.coref.decode import follow_links
from spanlab.tasks.coref.heads import CorefHead, plan_rows
from spanlab.tasks.coref.host_links import keep_mentions, spelling_keys
from spanlab.tasks.coref.links import Links
from spanlab.tasks.coref.task import Coreference
from spanlab.tasks.formats.row import Row
from spanlab.tasks.network import encode_samples
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.spans.config import SpanConfig
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer
from tests.tasks.making import BPE, TOKENIZER, decode_all, predict, read, run_head, tiny_encoder, train_head, windower

TEXT = "Anna met Captain O'Neill on the island before dawn. She gave him the map. It was old, and Anna knew it."
LAYERS = CorefLayers(
    inner_width=32,
    span=SpanConfig(max_width=14),
    antecedents=8,
    rounds=1,
    mention_ratio=0.6,
    dropout=0.0,
    max_segments=0,
)


def spans_of(*words: tuple[str, int]) -> list[list[int]]:
    """The nth occurrence of each word in the text."""
    found = []
    for word, number in words:
        place = -1
        for _ in range(number + 1):
            place = TEXT.index(word, place + 1)
        found.append([place, place + len(word)])
    return found


CLUSTERS = [
    spans_of(("Anna", 0), ("She", 0), ("Anna", 1)),
    spans_of(("Captain O'Neill", 0), ("him", 0)),
    spans_of(("the map", 0), ("It", 0), ("it", 0)),
    spans_of(("the island", 0)),
]
ROWS: list[dict[str, Any]] = [
    {"id": "one", "text": TEXT, "clusters": CLUSTERS},
    {"text": "Mr. Brown ordered coffee. He drank it.", "clusters": [[[0, 9], [26, 28]], [[18, 24], [35, 37]]]},
    {"text": "Nobody waved.", "clusters": []},
]


def fit(rows: Sequence[dict[str, Any]] = ROWS, **changes: Any) -> tuple[Coreference, list[Any]]:
    examples = read(Coreference, rows)
    return Coreference.fit(CorefConfig(**({"layers": LAYERS} | changes)), examples), examples


def gold_links(sample: Sample) -> Links:
    """What a head that knows the targets would say."""
    clusters = sample.targets["clusters"].astype(np.int64)
    kept = np.flatnonzero(clusters)
    last: dict[int, int] = {}
    antecedents = []
    for number, cluster in enumerate(clusters[kept].tolist()):
        antecedents.append(last.get(cluster, -1))
        last[cluster] = number
    sure = np.full(len(kept), 2.0, dtype=np.float32)
    index = np.array(antecedents, np.int64)
    scores = np.where(index >= 0, 4.0, -np.inf).astype(np.float32)[:, None]
    return Links(
        kept=kept,
        mention_scores=sure,
        antecedents=index,
        link_scores=sure / 4,
        index=index.clip(min=0)[:, None],
        scores=scores,
    )


@pytest.mark.parametrize("tokenizer", [TOKENIZER, BPE], ids=["wordpiece", "bpe"])
@pytest.mark.parametrize("segments", ["independent", "overlap"])
@pytest.mark.parametrize("length", [12, 24, 128])
@pytest.mark.parametrize("units", ["word", "piece", "character"])
def test_what_is_encoded_is_decoded(tokenizer: Tokenizer, segments: str, length: int, units: str) -> None:
    layers = replace(LAYERS, span=SpanConfig(max_width=30))
    task, examples = fit(segments=segments, units=units, layers=layers)
    samples = task.encode(examples, windower(length, tokenizer=tokenizer), labelled=True)
    results = decode_all(task, examples, samples, [gold_links(sample) for sample in samples])
    for row, result in zip(ROWS, results, strict=True):
        assert [[list(span) for span in cluster] for cluster in result.clusters] == sorted(row["clusters"])
        assert [(m.start, m.end) for m in result.mentions] == sorted((a, b) for c in row["clusters"] for a, b in c)
        assert all(row["text"][m.start : m.end] == m.text for m in result.mentions)
        assert all(list(result.clusters[m.cluster]).count((m.start, m.end)) == 1 for m in result.mentions)
    assert task.score(examples, results).metrics["conll_f1"] == pytest.approx(100.0)
    assert results[0].id == "one"
    assert results[1].id == "1"
    assert results[0].windows == len(samples[0].sequences) > (1 if length < 24 else 0)


def test_a_document_is_learnt_by_heart() -> None:
    task, examples = fit()
    torch.manual_seed(0)
    encoder, head = train_head(task, examples, windower(), steps=60)
    results = predict(task, encoder.eval(), head.eval(), examples, windower())
    assert task.score(examples, results).metrics["conll_f1"] > 95.0


def a_head(task: Coreference, *, scale: float = 8.0) -> tuple[Encoder, CorefHead]:
    """New layers whose scores differ clearly from each other."""
    torch.manual_seed(1)
    encoder = tiny_encoder()
    head = task.head(encoder)
    for parameter in head.parameters():
        parameter.data *= scale
    torch.nn.init.constant_(head.mentions.outer.bias, 0.5)
    return encoder.eval(), head.eval()


@pytest.mark.parametrize("segments", ["independent", "overlap"])
def test_permuting_the_documents_permutes_the_results(segments: str) -> None:
    task, _ = fit(segments=segments)
    encoder, head = a_head(task)
    rows = [{"text": " ".join([TEXT] * (1 + number % 3)), "id": str(number)} for number in range(7)]
    examples = read(Coreference, rows, labelled=False)
    first = predict(task, encoder, head, examples, windower(32))
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    again = predict(task, encoder, head, [examples[place] for place in order], windower(32))
    assert any(result.clusters for result in first)
    for place, result in zip(order, again, strict=True):
        assert result.id == first[place].id
        assert result.clusters == first[place].clusters
        assert result.cluster_scores == pytest.approx(first[place].cluster_scores, abs=1e-5)
        assert [m.score for m in result.mentions] == pytest.approx([m.score for m in first[place].mentions], abs=1e-5)


def plain_keep(first: list[int], last: list[int], scores: list[float], most: int) -> list[int]:
    """The pruning of the paper as a walk over all that was taken before."""
    taken: list[int] = []
    for number in sorted(range(len(first)), key=lambda n: -scores[n]):
        a, b = first[number], last[number]
        crosses = any(first[t] < a <= last[t] < b or a < first[t] <= b < last[t] for t in taken)
        if not crosses and len(taken) < most:
            taken.append(number)
    return sorted(taken)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([3, 7, 3900]))
def test_pruning_is_a_plain_walk_stretch_by_stretch(tokens: int, seed: int, most: int) -> None:
    layers = replace(LAYERS, max_mentions=most, mention_ratio=0.5)
    task, _ = fit(layers=layers)
    head = task.head(tiny_encoder())
    spans = [(a, b) for a in range(tokens) for b in range(a, min(tokens, a + 4))]
    scores = np.random.default_rng(seed).standard_normal(len(spans)).astype(np.float32)
    first, last = (np.array(column) for column in zip(*spans, strict=True))
    given = np.zeros(len(spans), dtype=bool)
    features = {"first": first, "last": last, "given": given, "positions": np.arange(tokens)}
    kept = keep_mentions(head.layers, Sample(example=0, sequences=(), features=features), scores)
    expected: list[int] = []
    for start in range(0, tokens, layers.stretch):
        here = [n for n in range(len(spans)) if start <= spans[n][0] < start + layers.stretch]
        count = layers.kept(min(layers.stretch, tokens - start))
        chosen = plain_keep([spans[n][0] for n in here], [spans[n][1] for n in here], [scores[n] for n in here], count)
        expected += [here[n] for n in chosen]
    assert kept.tolist() == expected


def test_blocks_of_rows_change_nothing() -> None:
    task, _ = fit(layers=replace(LAYERS, memory_gb=1.0))
    encoder, head = a_head(task)
    examples = read(Coreference, [{"text": " ".join([TEXT] * 4)}], labelled=False)
    whole = predict(task, encoder, head, examples, windower(64))[0]
    sizes = head._plan(200, 1000)
    assert sizes.fine > 100
    head.layers = replace(head.layers, memory_gb=4e-3)
    assert min(vars(head._plan(120, 700)).values()) < 40
    cut = predict(task, encoder, head, examples, windower(64))[0]
    assert cut.clusters == whole.clusters
    assert cut.cluster_scores == pytest.approx(whole.cluster_scores, abs=1e-5)


def test_a_document_that_does_not_fit_is_refused_before_anything_is_made() -> None:
    layers = CorefLayers(memory_gb=4.0)
    with pytest.raises(InputError, match=r"10,000,000 tokens needs .* GB"):
        plan_rows(layers, tokens=10**7, candidates=10**8, width=768, features=2324)
    assert plan_rows(layers, tokens=10**4, candidates=10**5, width=768, features=2324).coarse > 100


def test_scores_are_in_full_precision_whatever_the_encoder_is_in() -> None:
    task, examples = fit()
    encoder, head = a_head(task)
    batch = pack_samples(SampleBatch(task="coref", samples=tuple(task.encode(examples, windower(), labelled=True))))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = head(encode_samples(encoder, batch))
        loss = head.loss(scores, batch)
    assert all(document.score_MK.dtype == document.candidate_C.dtype == torch.float32 for document in scores)
    assert torch.isfinite(loss.total)
    assert 0 <= int(loss.tallies["correct"]) <= loss.count == head.count(batch.batch)


def test_far_mentions_are_out_of_reach() -> None:
    task, _ = fit(layers=replace(LAYERS, max_mentions=5, mention_ratio=0.2, antecedents=3))
    encoder, head = a_head(task)
    examples = read(Coreference, [{"text": " ".join([TEXT] * 5)}], labelled=False)
    (sample,) = task.encode(examples, windower(64), labelled=False)
    (links,) = run_head(task, encoder, head, [sample], batch_tokens=10_000)
    assert len(links.kept) > 15
    back = np.arange(len(links.kept)) - links.antecedents
    assert back[links.antecedents >= 0].max() <= 5
    assert (links.antecedents >= 0).any()


def test_given_mentions_are_the_only_ones() -> None:
    task, _ = fit()
    encoder, head = a_head(task)
    mentions = spans_of(("Anna", 0), ("aptain", 0), ("She", 0))  # one of them cuts a word
    given = read(Coreference, [{"text": TEXT, "mentions": mentions}, {"text": TEXT, "mentions": []}], labelled=False)
    with_three, with_none = predict(task, encoder, head, given, windower())
    assert [[m.start, m.end] for m in with_three.mentions] == sorted(mentions)
    assert with_none.clusters == with_none.mentions == ()


def test_singletons_follow_the_training_data_or_the_flag() -> None:
    linked = [{**ROWS[0], "clusters": CLUSTERS[:3]}]
    assert fit()[0].config.singletons is True
    assert fit(linked)[0].config.singletons is False
    assert fit(singletons=False)[0].config.singletons is False
    task, examples = fit(singletons=False)
    samples = task.encode(examples, windower(), labelled=True)
    results = decode_all(task, examples, samples, [gold_links(sample) for sample in samples])
    assert len(results[0].clusters) == 3
    assert len(results[0].mentions) == 8
    assert task.head(tiny_encoder()).mention_loss == 0.0


def test_a_lone_mention_that_does_not_look_like_one_is_left_out() -> None:
    task, examples = fit()
    (sample, *_) = task.encode(examples, windower(), labelled=True)
    links = gold_links(sample)
    told = task.decode(0, examples[0], [sample], [replace(links, mention_scores=-links.mention_scores)])
    assert [len(cluster) for cluster in told.clusters] == [3, 2, 3]


def test_speakers_and_genres_become_properties_where_the_data_has_them() -> None:
    assert set(fit()[0].head(tiny_encoder()).fine.properties) == {"distance", "segment_distance"}
    spoken = {**ROWS[0], "speakers": [[0, 51, "A"], [52, 73, "B"]], "genre": "bc"}
    task, examples = fit([spoken, {**ROWS[1], "genre": "nw"}])
    assert {"speaker", "genre"} <= set(task.head(tiny_encoder()).fine.properties)
    assert task.fitted.entity_labels == ("bc", "nw")
    unknown = task.read(Row(values={**ROWS[1], "genre": "tc"}), labelled=False)
    samples = task.encode([*examples, unknown], windower(), labelled=False)
    assert [int(sample.features["genre"][0]) for sample in samples] == [1, 2, 0]
    tokens = windower().tokenize([TEXT])[0]
    expected = [1 if end <= 51 else 2 if end <= 73 else 0 for end in tokens.ends.tolist()]
    assert samples[0].features["speakers"].tolist() == expected


def test_training_draws_windows_of_segments() -> None:
    task, examples = fit(layers=replace(LAYERS, max_segments=2))
    whole = task.encode(examples[:1], windower(14), labelled=False)[0]
    samples = task.encode(examples[:1], windower(14), labelled=True)
    assert len(whole.sequences) > 3
    assert whole.draw is None
    data = TaskBatches(samples, task="coref", batch_size=1, batch_tokens=1000, seed=3)
    drawn = [data.step(step, rank=0, world_size=1)[0].samples[0] for step in range(30)]
    again = [data.step(step, rank=0, world_size=1)[0].samples[0] for step in range(30)]
    begins = [sample.sequences[0].ids.tolist() for sample in drawn]
    assert begins == [sample.sequences[0].ids.tolist() for sample in again]
    assert len({tuple(ids) for ids in begins}) == len(whole.sequences) - 1
    for sample in drawn:
        assert len(sample.sequences) == 2
        assert sample.features["last"].max() < len(sample.features["positions"])
        ids = np.concatenate([sequence.ids for sequence in sample.sequences])[sample.features["positions"]]
        text = TOKENIZER.encode_batch([TEXT[int(sample.features["starts"][0]) :]])[0]
        assert text.ids[: len(ids)].tolist() == ids.tolist()


def test_spelling_keys_tell_tokens_apart() -> None:
    ids = np.array([5, 6, 7, 5, 6, 6, 5, 7])
    last, whole = spelling_keys(ids, np.array([0, 3, 5, 2, 7, 1]), np.array([1, 4, 6, 2, 7, 2])).T
    assert last.tolist() == [6, 6, 5, 7, 7, 7]
    assert whole[0] == whole[1]
    assert whole[3] == whole[4]
    assert len({whole[place].item() for place in (0, 2, 3, 5)}) == 4


@given(st.lists(st.integers(-1, 20), max_size=20))
def test_links_are_followed_to_the_first_mention(raw: list[int]) -> None:
    antecedents = [min(value, number - 1) for number, value in enumerate(raw)]
    roots = follow_links(np.array(antecedents, dtype=np.int64)).tolist()
    for number in range(len(raw)):
        place = number
        while antecedents[place] >= 0:
            place = antecedents[place]
        assert roots[number] == place


def test_long_text_is_cut_or_refused_on_request() -> None:
    task, examples = fit()
    short = Windower(TOKENIZER, length=16, long_text="truncate", segments=2)
    sample = task.encode(examples[:1], short, labelled=True)[0]
    assert sample.truncated
    assert len(sample.sequences) == 1
    assert sample.features["last"].max() < len(sample.features["positions"])
    with pytest.raises(InputError, match="a segment holds 14"):
        task.encode(examples[:1], Windower(TOKENIZER, length=16, long_text="error", segments=2), labelled=True)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "crossing spans": ({"text": TEXT, "clusters": [[[0, 8], [5, 16]]]}, "cross"),
    "span outside the text": ({"text": TEXT, "clusters": [[[0, 4], [500, 510]]]}, "is outside the text"),
    "empty text": ({"text": " ", "clusters": []}, "empty"),
    "no clusters": ({"text": TEXT}, "'clusters' is missing"),
    "empty cluster": ({"text": TEXT, "clusters": [[]]}, "cluster 0"),
    "empty span": ({"text": TEXT, "clusters": [[[4, 5]]]}, "no visible"),
    "span is not a pair of numbers": ({"text": TEXT, "clusters": [[["a", 4]]]}, "a span of cluster 0"),
    "mention in two clusters": ({"text": TEXT, "clusters": [[[0, 4]], [[0, 4], [5, 8]]]}, "0 and 1"),
    "space at a span's edge": ({"text": TEXT, "clusters": [[[0, 5]]]}, "begins or ends with space"),
    "speakers": ({"text": TEXT, "clusters": [], "speakers": ["Anna"]}, "speakers"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_is_told(kind: str) -> None:
    values, cause = BAD[kind]
    row = Row(values=values, path="x.jsonl", line=7)
    problems = [problem for problem in Coreference.problems(row) if problem.serious]
    assert [problem.kind for problem in problems] == [kind]
    with pytest.raises(InputError, match=cause) as caught:
        Coreference.read(row, labelled=True)
    assert caught.value.line == 7


def test_space_at_an_edge_is_mended() -> None:
    row = Row(values=BAD["space at a span's edge"][0])
    (problem,) = Coreference.problems(row)
    assert problem.repaired is not None
    assert problem.repaired["clusters"] == [[[0, 4]]]


def test_a_mention_inside_a_word_is_refused_or_dropped() -> None:
    task, _ = fit()
    (example,) = read(Coreference, [{"text": TEXT, "clusters": [[[1, 4], [52, 55]]]}])
    with pytest.raises(InputError, match="inside a unit"):
        task.encode([example], windower(), labelled=True)
    lenient = Coreference(replace(task.config, data=replace(task.config.data, bad_rows="drop")), task.fitted)
    (sample,) = lenient.encode([example], windower(), labelled=True)
    assert (sample.targets["clusters"] > 0).sum() == 1


def test_presets() -> None:
    published = resolve_config("coref", {})
    small = resolve_config("coref", {"coref": "small", "layers": {"rounds": 0}})
    assert isinstance(published, CorefConfig)
    assert isinstance(small, CorefConfig)
    layers = published.layers
    assert (layers.inner_width, layers.span.max_width, layers.antecedents, layers.rounds) == (3000, 30, 50, 2)
    assert (layers.mention_ratio, layers.max_mentions, layers.dropout) == (0.4, 3900, 0.3)
    assert (small.layers.inner_width, small.layers.span.max_width, small.layers.antecedents) == (256, 15, 20)
    assert SMALL.layers.rounds == 1
    assert small.layers.rounds == 0
    with pytest.raises(ConfigError):
        resolve_config("coref", {"coref": "tiny"})
