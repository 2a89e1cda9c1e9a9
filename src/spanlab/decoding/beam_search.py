"""Beam search on token ids: the likeliest few beginnings of a text are followed side by side.

At every step each beam's continuations compete, and the best `beams` that do not end go on. Those among the best that
end with a stop token are finished texts, scored by their log-probability over their length to the power of the length
penalty. A prompt is done when it has `beams` finished texts and its best open beam, as long as it is now, scores no
better than the worst of them. Beams of all prompts are read in one batch.

Shapes: R rows (beams of all open prompts), W beams of a prompt, V vocabulary.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from spanlab.decoding.continuation import Continuation
from spanlab.decoding.sampling import Decoded, DecodingConfig, Ending


@dataclass(frozen=True)
class _Candidate:
    """A beam with one more token."""

    row: int
    token: int
    log_probability: float


@dataclass
class _Prompt:
    """The search from one prompt."""

    number: int
    length: int
    """Tokens of the prompt itself."""
    beams: list[float]
    """The log-probability of each open beam, the best first."""
    finished: list[tuple[float, Decoded]] = field(default_factory=list)
    """Scores and texts, the best first."""

    def finish(self, decoded: Decoded, penalty: float, most: int) -> None:
        length = len(decoded.ids) + (decoded.ended == "stop")
        self.finished.append((decoded.log_probability / length**penalty, decoded))
        self.finished = sorted(self.finished, key=lambda scored: -scored[0])[:most]

    def is_done(self, new_tokens: int, penalty: float, most: int) -> bool:
        if not self.beams:
            return True
        if len(self.finished) < most:
            return False
        best_open: float = self.beams[0] / new_tokens**penalty
        return best_open <= self.finished[-1][0]


def search_beams(continuation: Continuation, config: DecodingConfig) -> list[Decoded]:
    """The best text found for each of the prompts."""
    found = [_Prompt(number, len(ids), [0.0]) for number, ids in enumerate(continuation.sequences)]
    open_prompts = found
    for new_tokens in range(1, config.max_new_tokens + 1):
        candidates = _candidates(continuation.logits(), open_prompts, config)
        rows: list[int] = []
        tokens: list[int] = []
        for prompt, mine in zip(open_prompts, candidates, strict=True):
            going_on = _take(continuation, prompt, mine, new_tokens, config)
            prompt.beams = [candidate.log_probability for candidate in going_on]
            if prompt.is_done(new_tokens, config.length_penalty, config.beams):
                prompt.beams = []
                continue
            rows += [candidate.row for candidate in going_on]
            tokens += [candidate.token for candidate in going_on]
        open_prompts = [prompt for prompt in open_prompts if prompt.beams]
        if not open_prompts:
            break
        continuation.select(rows)
        continuation.append(tokens)
    return [prompt.finished[0][1] for prompt in found]


def _candidates(logits_RV: Tensor, prompts: list[_Prompt], config: DecodingConfig) -> list[list[_Candidate]]:
    """For each prompt its likeliest continuations, the best first: enough that `beams` of them do not end."""
    wanted = config.beams * (1 + max(1, len(config.stop_ids)))
    log_probabilities_RV = logits_RV.log_softmax(dim=-1)
    vocabulary, first, candidates = logits_RV.shape[1], 0, []
    for prompt in prompts:
        so_far_W = torch.tensor(prompt.beams, device=logits_RV.device)
        scores_WV = log_probabilities_RV[first : first + len(prompt.beams)] + so_far_W[:, None]
        best = scores_WV.flatten().topk(min(wanted, scores_WV.numel()))
        candidates.append(
            [
                _Candidate(first + place // vocabulary, place % vocabulary, score)
                for place, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ]
        )
        first += len(prompt.beams)
    return candidates


def _take(
    continuation: Continuation, prompt: _Prompt, mine: list[_Candidate], new_tokens: int, config: DecodingConfig
) -> list[_Candidate]:
    """Put what ends among the finished texts; the candidates that go on."""
    going_on = []
    for rank, candidate in enumerate(mine):
        ended: Ending | None = "stop" if candidate.token in config.stop_ids else None
        ids = continuation.sequences[candidate.row][prompt.length :]
        if ended is None:
            ids = [*ids, candidate.token]
            if new_tokens == config.max_new_tokens:
                ended = "length"
            elif prompt.length + new_tokens > continuation.positions:
                ended = "positions"
        if ended is None:
            going_on.append(candidate)
        elif rank < config.beams:
            # What ends further down only made room for beams that go on.
            decoded = Decoded(ids=tuple(ids), ended=ended, log_probability=candidate.log_probability)
            prompt.finish(decoded, config.length_penalty, config.beams)
    return going_on[: config.beams]
