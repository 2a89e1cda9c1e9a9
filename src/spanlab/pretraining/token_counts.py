"""How often each token occurs in the text that is trained on, the marks that examples have between texts included."""

import numpy as np

from spanlab.arrays import Numbers
from spanlab.pretraining.blocks import document_end
from spanlab.pretraining.examples import Examples


def token_counts(examples: Examples, held_out_starts: Numbers, held_out_stops: Numbers) -> Numbers:
    """(V,) the tokens of the corpus outside of the stretches that are held out."""
    corpus, recipe = examples.corpus, examples.recipe
    counts: Numbers = corpus.token_counts.astype(np.int64)
    sentences = corpus.counts.sentences
    for start, stop in zip(held_out_starts, held_out_stops, strict=True):
        text = corpus.read([start], [stop])
        counts -= np.bincount(text.ids, minlength=len(counts))
        sentences -= int(text.sentence_starts.sum())
    tokenizer, marks = corpus.tokenizer, []
    if recipe.weighs("bilm"):
        marks = [(tokenizer.cls_id, sentences), (tokenizer.sep_id, sentences)]
    elif recipe.weighs("clm") and recipe.columns:
        marks = [(document_end(tokenizer), corpus.counts.documents)]
    for token, count in marks:
        if token is not None:
            counts[token] += count
    return counts
