"""What continued pre-training changed: held-out losses and filled spans, before and after.

The model in the box and the one that was trained on enter, with the corpus; a `Continuation` leaves. Both are measured
alike, on the same masks of the text that the run held out. The masked spans are chosen by their places alone.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from spanlab.atomic_io import write_json
from spanlab.config import Source, from_mapping, to_mapping
from spanlab.corpus import PreparedCorpus
from spanlab.inference.fill import Filler
from spanlab.pretraining.batches import held_out_ranges
from spanlab.pretraining.build import build_training_spec
from spanlab.quickstart import plan
from spanlab.quickstart.results import Continuation, FilledSpan
from spanlab.quickstart.runs import Continuing, evaluate
from spanlab.report.run_history import read_run
from spanlab.strict_parsing import read_json
from spanlab.workflows.pretrain import open_corpora

FILLED = 2
"""Sentences with a masked span."""
_WORDS = 2
"""In a span."""
_SENTENCE_TOKENS = range(10, 41)
"""Sentences that give enough context, and fit on a few lines."""


def compare(planned: Continuing) -> Continuation:
    """The losses and fillings before and after a finished run."""
    folder = planned.folder
    path, run = folder.path / plan.CONTINUATION, folder.path / plan.CONTINUED
    if path.is_file():
        continuation = from_mapping(Continuation, read_json(path), Source(path=str(path)))
    else:
        with folder.timed(plan.CONTINUATION):
            continuation = _compare(planned, run)
            write_json(path, to_mapping(continuation))
    folder.events.continued(continuation)
    return continuation


def _compare(planned: Continuing, run: Path) -> Continuation:
    last = read_run(run).records[-1]
    before = _held_out_losses(planned, planned.model)
    if last["step"] < plan.FEWEST_STEPS:
        problem = f"its {last['step']:,} steps were too few: the loss says something from {plan.FEWEST_STEPS} on"
        return Continuation(
            steps=last["step"], epochs=last["epoch"], before=before, after={}, filled=(), problem=problem
        )
    fillers = tuple(Filler(folder) for folder in (planned.model, run))
    corpus = PreparedCorpus.open(planned.corpus)
    return Continuation(
        steps=last["step"],
        epochs=last["epoch"],
        before=before,
        after=_held_out_losses(planned, run),
        filled=tuple(
            FilledSpan(
                left=left, gold=gold, right=right, before=_fill(fillers[0], masked), after=_fill(fillers[1], masked)
            )
            for left, gold, right, masked in masked_spans(corpus, planned.recipe(1).data.held_out)
        ),
    )


def _held_out_losses(planned: Continuing, model: Path) -> dict[str, float]:
    recipe = planned.recipe(1)
    spec, _ = build_training_spec(recipe, open_corpora([planned.corpus]), str(model))
    scores = evaluate(spec, recipe.training)
    return {name: scores[f"loss.{name}"] for name in recipe.active_objectives}


def _fill(filler: Filler, text: str) -> str:
    (run,) = filler.fill(text, top=1).runs
    return run.fillings.get("mlm+sbo", run.fillings["mlm"])[0].text


def masked_spans(corpus: PreparedCorpus, share: float) -> Iterator[tuple[str, str, str, str]]:
    """(text before, span, text after, whole with masks) of `FILLED` held-out sentences, evenly spaced in the corpus.

    The span is the `_WORDS` words after the middle of the first sentence of a range that fits.
    """
    starts, stops = held_out_ranges(corpus.counts.tokens, share)
    found = [span for start, stop in zip(starts, stops, strict=True) if (span := _masked_span(corpus, start, stop))]
    for index in range(min(FILLED, len(found))):
        yield found[len(found) * (2 * index + 1) // (2 * FILLED)]


def _masked_span(corpus: PreparedCorpus, start: int, stop: int) -> tuple[str, str, str, str] | None:
    tokenizer = corpus.tokenizer
    assert tokenizer.mask_id is not None
    text = corpus.read([start], [stop])
    for first, last in pairwise(np.flatnonzero(text.sentence_starts).tolist()):
        ids, words = text.ids[first:last], np.flatnonzero(text.word_starts[first:last])
        middle = int(np.searchsorted(words, len(ids) // 2))
        if len(ids) not in _SENTENCE_TOKENS or middle == 0 or middle + _WORDS >= len(words):
            continue
        begin, end = words[middle], words[middle + _WORDS]
        masked = ids.copy()
        masked[begin:end] = tokenizer.mask_id
        parts = (ids[:begin], ids[begin:end], ids[end:], masked)
        left, gold, right, whole = (tokenizer.decode(part.tolist()) for part in parts)
        return left, gold, right, whole
    return None
