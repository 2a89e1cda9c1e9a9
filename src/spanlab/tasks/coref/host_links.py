"""What the head of coreference does on the host: which candidates are kept, how mentions are spelt, and the links.

Where torch computes the layers, `CorefHead` calls what is here; where an exported model does, `document_links` runs its
graphs a block of rows at a time, so that memory does not grow with the square of a document's length.

Shapes: N tokens of a document, C candidates, M kept mentions, K antecedents, R rows of a block, F features of a vector.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers, concatenated_ranges, offsets
from spanlab.tasks.coref.config import CorefLayers
from spanlab.tasks.coref.links import Links
from spanlab.tasks.host_head import Array, EncodedSample, HostHead, Layers
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.pruning import without_conflicts

TOKENS, MENTIONS, VECTORS, COARSE, FINE, REFINE = "tokens", "mentions", "vectors", "coarse", "fine", "refine"
"""The graphs: hidden states of overlapping segments; scores and vectors of spans; antecedents, their scores, rounds."""
_CANDIDATE_ROWS, _MENTION_ROWS = 2048, 128
Scores = NDArray[np.float32]


def keep_mentions(layers: CorefLayers, sample: Sample, scores: Scores) -> Integers:
    """(M,) the indices of the best candidates, none crossing a better one, and of all that were given."""
    first, last = (sample.features[name].astype(np.int64) for name in ("first", "last"))
    given = sample.features["given"].astype(bool)
    tokens = len(sample.features["positions"])
    edges = np.searchsorted(first, np.arange(0, tokens, layers.stretch))
    kept = []
    for index, (start, end) in enumerate(zip(edges, [*edges[1:], len(first)], strict=True)):
        part = slice(int(start), int(end))
        length = min(layers.stretch, tokens - index * layers.stretch)
        raised = np.where(given[part], np.inf, scores[part])
        keep = max(layers.kept(length), int(given[part].sum()))
        best = without_conflicts(first[part], last[part], raised, conflict="crossing", keep=keep)
        kept.append(np.union1d(best, np.flatnonzero(given[part])) + int(start))
    return np.concatenate(kept).astype(np.int64) if kept else np.zeros(0, dtype=np.int64)


def spelling_keys(ids_N: Integers, first_S: Integers, last_S: Integers) -> Integers:
    """(S, 2) the last token of each span, and a hash of all its tokens."""
    counts_S = last_S - first_S + 1
    ids_G = ids_N[concatenated_ranges(first_S, counts_S)]
    position_G = np.arange(len(ids_G)) - np.repeat(offsets(counts_S), counts_S)
    # Products of 64-bit integers wrap around, which mixes their bits; the position makes the order count.
    mixed_G = (ids_G + 1) * 0x9E3779B97F4A7C1 * (2 * position_G + 3)
    mixed_G = (mixed_G ^ (mixed_G >> 29)) * 0xBF58476D1CE4E5B
    whole_S = np.zeros(len(first_S), np.int64)
    np.add.at(whole_S, np.repeat(np.arange(len(first_S)), counts_S), mixed_G)
    return np.stack([ids_N[last_S], whole_S], axis=1)


def document_ids(sample: Sample) -> Integers:
    """(N,) the ids of a document's tokens, each once however many segments have it."""
    ids = np.concatenate([sequence.ids for sequence in sample.sequences])
    return ids[sample.features["positions"].astype(np.int64)]


def make_links(kept: Integers, candidate_C: Scores, index_MK: Integers, score_MK: Scores) -> Links:
    """The best antecedent of each kept mention."""
    none = np.full(len(kept), -1)
    links = Links(
        kept=kept,
        mention_scores=candidate_C[kept],
        antecedents=none,
        link_scores=np.ones(len(kept), np.float32),
        index=index_MK,
        scores=score_MK,
    )
    return links.best()


def document_links(config: CorefLayers, *, overlap: bool) -> HostHead:
    """The head of one document; `overlap`: tokens of two segments have two states, which a graph joins."""

    def output(layers: Layers, encoded: EncodedSample) -> Links:
        inputs = encoded.inputs
        (hidden_ND,) = layers(TOKENS, inputs) if overlap else (encoded.hidden_TD[inputs["positions"]],)
        first_C, last_C = inputs["first"], inputs["last"]
        candidate_C = _over_spans(_CANDIDATE_ROWS, first_C, last_C, hidden_ND, partial(layers, MENTIONS))[0]
        kept = keep_mentions(config, encoded.sample, candidate_C)
        if not len(kept):
            none_MK = np.zeros((0, config.antecedents))
            return make_links(kept, candidate_C, none_MK.astype(np.int64), none_MK.astype(np.float32))
        given_M = encoded.sample.features["given"].astype(bool)[kept]
        # Mentions given by the user count as mentions whatever their score.
        mention_M = np.where(given_M, np.maximum(candidate_C[kept], 0), candidate_C[kept])
        mentions = first_C[kept], last_C[kept]
        vectors_MF, source_MF = _over_spans(_MENTION_ROWS, *mentions, hidden_ND, partial(layers, VECTORS))
        properties = _mention_properties(encoded, *mentions)
        known = {"vectors": vectors_MF, "source": source_MF, "mention": mention_M, **properties}
        index_MK, score_MK = _antecedents(config, layers, known)
        return make_links(kept, candidate_C, index_MK, score_MK)

    return output


def _mention_properties(encoded: EncodedSample, first_M: Integers, last_M: Integers) -> dict[str, Array]:
    """What is known of each mention beside its vector."""
    inputs = encoded.inputs
    properties: dict[str, Array] = {"spelling": spelling_keys(document_ids(encoded.sample), first_M, last_M)}
    for name in ("segments", "speakers"):
        if name in inputs:
            properties[name] = inputs[name][first_M]
    return properties | ({"genre": inputs["genre"]} if "genre" in inputs else {})


def _antecedents(config: CorefLayers, layers: Layers, known: dict[str, Array]) -> tuple[Integers, Scores]:
    """(M, K) and (M, K) the antecedents of each mention and their final scores."""
    blocks = list(_blocks(len(known["mention"]), config.max_mentions))
    found = [layers(COARSE, _block(known, block)) for block in blocks]
    for (_, columns), part in zip(blocks, found, strict=True):
        part[0] = np.where(part[1] > -np.inf, part[0] + columns.start, 0)
    index_MK, coarse_MK = (np.concatenate([part[place] for part in found]) for place in (0, 1))

    def over_blocks(graph: str, scores_MK: Scores) -> Array:
        return np.concatenate(
            [layers(graph, _block(known, block, index_MK=index_MK, scores_MK=scores_MK))[0] for block in blocks]
        )

    score_MK = coarse_MK + over_blocks(FINE, coarse_MK)
    for _ in range(config.rounds):
        known = {**known, "vectors": over_blocks(REFINE, score_MK)}
        score_MK = coarse_MK + over_blocks(FINE, coarse_MK)
    return index_MK, score_MK


def _blocks(mentions: int, reach: int) -> Iterator[tuple[slice, slice]]:
    """The rows of each block, and the columns that hold their antecedents and themselves."""
    for start in range(0, mentions, _MENTION_ROWS):
        end = min(start + _MENTION_ROWS, mentions)
        yield slice(start, end), slice(max(0, start - reach), end)


def _block(
    known: dict[str, Array],
    block: tuple[slice, slice],
    *,
    index_MK: Integers | None = None,
    scores_MK: Scores | None = None,
) -> dict[str, Array]:
    """The inputs of a block's graphs: arrays of its columns, and under `NAME_rows` those of its rows."""
    rows, columns = block
    inputs: dict[str, Array] = {"shift": np.array([rows.start - columns.start])}
    for name, array in known.items():
        if name == "genre":
            inputs[name] = array
        else:
            inputs[name], inputs[f"{name}_rows"] = array[columns], array[rows]
    if index_MK is not None and scores_MK is not None:
        index_RK = index_MK[rows]
        positions_R1 = np.arange(rows.start, rows.stop)[:, None]
        # Where there is no antecedent, the index is 0, which may be before the columns; its score is minus infinity.
        inputs |= {"index": np.maximum(index_RK - columns.start, 0), "scores": scores_MK[rows]}
        inputs["distance"] = positions_R1 - index_RK
    return inputs


def _over_spans(
    rows: int, first_S: Integers, last_S: Integers, hidden_ND: Scores, run: Callable[[dict[str, Array]], list[Array]]
) -> list[Array]:
    """The outputs of a graph for spans in the order of the text; a block needs only the tokens around it."""
    found = []
    for start in range(0, len(first_S), rows):
        first_R, last_R = (ends[start : start + rows] for ends in (first_S, last_S))
        lowest, highest = int(first_R[0]), int(last_R.max()) + 1
        spans = {"first": first_R - lowest, "last": last_R - lowest, "widths": last_R - first_R + 1}
        found.append(run({"hidden": hidden_ND[lowest:highest], **spans}))
    return [np.concatenate(parts) for parts in zip(*found, strict=True)] or [np.zeros(0, np.float32)]
