"""What a model makes of a few masked stretches of real text, before a run and after it."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Literal

import numpy as np
from torch import nn

from spanlab.atomic_io import write_json
from spanlab.corpus import PreparedCorpus
from spanlab.encoder import Model
from spanlab.errors import InputError
from spanlab.inference.fill import Filler
from spanlab.objectives import Mixture, ReplacedToken

FILLINGS = "fillings.json"
_STRETCHES, _AROUND, _MASKED = 4, 24, 3


class SampleFillings:
    """The same masked texts of a corpus, filled by a model whenever asked."""

    def __init__(self, corpus: PreparedCorpus, length: int) -> None:
        """`length`: how many tokens the model reads at most."""
        self._tokenizer, self._texts = corpus.tokenizer, masked_texts(corpus, min(_AROUND, length // 4))

    def note(self, criterion: nn.Module, folder: Path, moment: Literal["before", "after"]) -> None:
        """Fill the texts now and keep what came out in the run folder; "before" is kept from a run's first session."""
        path, model = folder / FILLINGS, _model_of(criterion)
        kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if model is None or (moment == "before" and moment in kept):
            return
        filler = Filler.from_model(model, self._tokenizer)
        kept[moment] = []
        for text in self._texts:
            # Where it was cut, a text may be split into more tokens than it had: no run fails for that.
            with suppress(InputError):
                kept[moment].append(filler.fill(text, top=3).to_dict())
        write_json(path, kept)


def _model_of(criterion: nn.Module) -> Model | None:
    if isinstance(criterion, ReplacedToken):
        return Model(criterion.pair.generator, {"mlm": criterion.pair.generator_head})
    if isinstance(criterion, Mixture) and "mlm" in criterion.heads:
        heads = {name: head for name, head in criterion.heads.items() if name in {"mlm", "sbo"}}
        return Model(criterion.encoder, heads)
    return None


def masked_texts(corpus: PreparedCorpus, around: int) -> list[str]:
    """A few stretches of the corpus, evenly spread, each with a run of masks and `around` tokens on either side."""
    tokenizer, tokens = corpus.tokenizer, corpus.counts.tokens
    if tokenizer.mask_id is None:
        return []
    texts = []
    for number in range(_STRETCHES):
        middle = tokens * (2 * number + 1) // (2 * _STRETCHES)
        start, stop = max(0, middle - around), min(tokens, middle + around)
        stretch = corpus.read([start], [stop])
        word = _a_word_near(stretch.word_starts, middle - start)
        ids = stretch.ids.copy()
        ids[word : word + _MASKED] = tokenizer.mask_id
        texts.append(tokenizer.decode(ids.tolist()))
    return texts


def _a_word_near(word_starts: "np.ndarray", place: int) -> int:
    starts = np.flatnonzero(word_starts)
    return int(starts[np.argmin(np.abs(starts - place))]) if len(starts) else place
