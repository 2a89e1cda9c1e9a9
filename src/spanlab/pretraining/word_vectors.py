"""Word vectors from co-occurrence: the text of a run in, initial word embeddings out.

What stands next to a token says much of what a masked language model must learn about it, and is counted in seconds.
The vectors factorise the positive pointwise mutual information of tokens and their neighbours (Levy and Goldberg
2014).
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.corpus import PreparedCorpus
from spanlab.pretraining.batches import held_out_ranges

OFFSETS = (-2, -1, 1, 2)
"""Which neighbours of a token are counted, each place apart from the others."""
CONTEXTS = 1024
"""The most frequent tokens, which are told apart as neighbours."""
SMOOTHING = 0.75
"""The exponent on the frequencies of neighbours, without which rare ones dominate."""
_READ = 1 << 24
"""Tokens of a corpus that are counted at most; more change the vectors little."""
_LARGEST = 1 << 27
"""Entries of the matrix that is factorised, at most; large vocabularies get fewer neighbours."""

Matrix = NDArray[np.float32]


def cooccurrence_vectors(
    corpora: Sequence[PreparedCorpus], weights: Sequence[float], *, held_out: float, width: int, seed: int
) -> Matrix:
    """(V, width) a vector for each token, of standard deviation 1; zeros for tokens that do not occur.

    Corpora count in proportion to their `weights`; their held-out text does not count.
    """
    counts_V = np.sum([corpus.token_counts for corpus in corpora], axis=0)
    size = len(counts_V)
    contexts = min(CONTEXTS, size, _LARGEST // (len(OFFSETS) * size))
    context_V = np.full(size, contexts)  # the last column collects all other tokens
    context_V[np.argsort(-counts_V, kind="stable")[:contexts]] = np.arange(contexts)
    pairs_OVC = np.zeros((len(OFFSETS), size, contexts + 1), np.float32)
    for corpus, weight in zip(corpora, weights, strict=True):
        ids_N = _training_text(corpus, held_out)
        for place, offset in enumerate(OFFSETS):
            pairs_OVC[place] += weight / len(ids_N) * _count_pairs(ids_N, context_V, offset, contexts + 1)
    information = np.concatenate([_mutual_information(pairs_VC) for pairs_VC in pairs_OVC], axis=1)
    occurs_V = pairs_OVC.any(axis=(0, 2))
    return _factorise(torch.from_numpy(information), torch.from_numpy(occurs_V), width, seed).numpy()


def _training_text(corpus: PreparedCorpus, held_out: float) -> Integers:
    """(N,) the token ids between the held-out ranges; of a large corpus, the beginning of each stretch between them."""
    held_out_starts, held_out_stops = held_out_ranges(corpus.counts.tokens, held_out)
    starts = np.concatenate(([0], held_out_stops[:-1]))
    return corpus.read(starts, np.minimum(held_out_starts, starts + _READ // len(starts))).ids


def _count_pairs(ids_N: Integers, context_V: Integers, offset: int, contexts: int) -> NDArray[np.int64]:
    """(V, C) how often each token has each context `offset` tokens further on."""
    tokens, neighbours = (ids_N[:-offset], ids_N[offset:]) if offset > 0 else (ids_N[-offset:], ids_N[:offset])
    size = len(context_V)
    pairs: NDArray[np.int64] = np.bincount(tokens * contexts + context_V[neighbours], minlength=size * contexts)
    return pairs.reshape(size, contexts)


def _mutual_information(counts_VC: Matrix) -> Matrix:
    """(V, C - 1) the positive pointwise mutual information, without the column of all other tokens."""
    token_V1 = counts_VC.sum(axis=1, keepdims=True)
    context_C = counts_VC.sum(axis=0) ** SMOOTHING
    with np.errstate(divide="ignore", invalid="ignore"):
        information_VC = np.log(counts_VC / (token_V1 * (context_C / context_C.sum())))
    positive: Matrix = np.where(counts_VC > 0, np.maximum(information_VC, 0), 0)[:, :-1].astype(np.float32)
    return positive


def _factorise(information_VC: torch.Tensor, occurs_V: torch.Tensor, width: int, seed: int) -> torch.Tensor:
    """(V, width) the leading singular vectors, each weighted with the root of its singular value."""
    rank = min(width, *information_VC.shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        left_VR, values_R, _ = torch.svd_lowrank(information_VC, q=min(rank + 16, *information_VC.shape), niter=2)
        rotation_WW, _ = torch.linalg.qr(torch.randn(width, width))
    # Rotated, every dimension carries the same variance, as those of random embeddings do.
    vectors_VW = (left_VR * values_R.sqrt())[:, :rank] @ rotation_WW[:rank]
    vectors_VW = vectors_VW - vectors_VW[occurs_V].mean(dim=0)
    lengths_V1 = vectors_VW.norm(dim=1, keepdim=True).clamp_min(1e-6)
    return torch.where(occurs_V[:, None], vectors_VW / lengths_V1 * width**0.5, 0.0)
