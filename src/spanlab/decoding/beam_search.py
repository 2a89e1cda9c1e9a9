"""Beam search on token ids: the few likeliest prefixes of a text are extended side by side.

At every step the continuations of all beams compete, and the best `beams` that do not end are kept. Those among the
best that end with a stop token are finished texts, scored by their log-probability over their length to the power of
the length penalty. A prompt is done when it has `beams` finished texts and its best open beam, at its present length,
scores no better than the worst of them. Beams of all prompts are read in one batch.

Shapes: R rows (beams of all open prompts), W beams of a prompt, V vocabulary.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from spanlab.decoding.config import Decoded, DecodingConfig, Ending
from spanlab.decoding.continuation import Continuation


@dataclass(frozen=True)
class _Candidate:
    """A beam with one more token."""

    row: int
    token: int
    log_probability: float


@dataclass
class _Prompt:
    """The search from one prompt."""

    length: int
    """Tokens of the prompt itself."""
    beams: list[float]
    """The log-probability of each open beam, the best first."""
    finished: list[tuple[float, Decoded]] = field(default_factory=list)
    """Scores and texts, the best first."""

    def finish(self, decoded: Decoded, penalty: float, limit: int) -> None:
        """Add a finished text and keep the best `limit`."""
        length = len(decoded.ids) + (decoded.ended == "stop")
        self.finished.append((decoded.log_probability / length**penalty, decoded))
        self.finished = sorted(self.finished, key=lambda scored: -scored[0])[:limit]

    def is_done(self, new_tokens: int, penalty: float, limit: int) -> bool:
        """Whether no open beam can be better than the `limit` finished texts."""
        if not self.beams:
            return True
        if len(self.finished) < limit:
            return False
        best_open: float = self.beams[0] / new_tokens**penalty
        return best_open <= self.finished[-1][0]


def search_beams(continuation: Continuation, config: DecodingConfig) -> list[Decoded]:
    """The best continuation found for each of the prompts."""
    prompts = [_Prompt(len(ids), [0.0]) for ids in continuation.sequences]
    open_prompts = prompts
    for new_tokens in range(1, config.max_new_tokens + 1):
        candidates = _candidates(continuation.logits(), open_prompts, config)
        rows: list[int] = []
        tokens: list[int] = []
        for prompt, prompt_candidates in zip(open_prompts, candidates, strict=True):
            kept = _finish_and_keep(continuation, prompt, prompt_candidates, new_tokens, config)
            prompt.beams = [candidate.log_probability for candidate in kept]
            if prompt.is_done(new_tokens, config.length_penalty, config.beams):
                prompt.beams = []
                continue
            rows += [candidate.row for candidate in kept]
            tokens += [candidate.token for candidate in kept]
        open_prompts = [prompt for prompt in open_prompts if prompt.beams]
        if not open_prompts:
            break
        continuation.select(rows)
        continuation.append(tokens)
    return [prompt.finished[0][1] for prompt in prompts]


def _candidates(logits_RV: Tensor, prompts: list[_Prompt], config: DecodingConfig) -> list[list[_Candidate]]:
    """The likeliest continuations of each prompt, best first: enough that at least `beams` of them do not end."""
    count = config.beams * (1 + max(1, len(config.stop_ids)))
    log_probabilities_RV = logits_RV.log_softmax(dim=-1)
    vocabulary, first, candidates = logits_RV.shape[1], 0, []
    for prompt in prompts:
        scores_W = torch.tensor(prompt.beams, device=logits_RV.device)
        scores_WV = log_probabilities_RV[first : first + len(prompt.beams)] + scores_W[:, None]
        best = scores_WV.flatten().topk(min(count, scores_WV.numel()))
        candidates.append(
            [
                _Candidate(first + index // vocabulary, index % vocabulary, score)
                for index, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ]
        )
        first += len(prompt.beams)
    return candidates


def _finish_and_keep(
    continuation: Continuation, prompt: _Prompt, candidates: list[_Candidate], new_tokens: int, config: DecodingConfig
) -> list[_Candidate]:
    """Add the candidates that end to the finished texts; return those that are kept as beams."""
    kept = []
    for rank, candidate in enumerate(candidates):
        ended: Ending | None = "stop" if candidate.token in config.stop_ids else None
        ids = continuation.sequences[candidate.row][prompt.length :]
        if ended is None:
            ids = [*ids, candidate.token]
            if new_tokens == config.max_new_tokens:
                ended = "length"
            elif prompt.length + new_tokens > continuation.max_positions:
                ended = "positions"
        if ended is None:
            kept.append(candidate)
        elif rank < config.beams:
            # Candidates further down are there to fill the beams; if they end, they are dropped.
            decoded = Decoded(ids=tuple(ids), ended=ended, log_probability=candidate.log_probability)
            prompt.finish(decoded, config.length_penalty, config.beams)
    return kept[: config.beams]
