"""What text generation is asked for, and what it gives: settings and token ids, without torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from spanlab.config import Above, AtLeast, AtMost, Bounded, Seed
from spanlab.errors import ConfigError

Ending = Literal["stop", "length", "positions"]


@dataclass(frozen=True, kw_only=True)
class DecodingConfig(Bounded):
    """Settings of text generation."""

    max_new_tokens: Annotated[int, AtLeast(1), AtMost(1_000_000)] = 50
    temperature: Annotated[float, AtLeast(0), AtMost(1_000_000)] = 1.0
    """Divisor of the logits before a token is drawn; 0 chooses the likeliest token (greedy search)."""
    top_k: Annotated[int, AtLeast(1)] | None = None
    """Draw among the k likeliest tokens only."""
    top_p: Annotated[float, Above(0), AtMost(1)] | None = None
    """Draw among the likeliest tokens whose probabilities add up to at least this (nucleus sampling)."""
    seed: Seed = 0
    beams: Annotated[int, AtLeast(1), AtMost(1000)] = 1
    """More than 1: beam search, which needs temperature 0."""
    length_penalty: Annotated[float, AtLeast(-100), AtMost(100)] = 1.0
    """Beam search: a sequence's log-probability is divided by its length to this power; above 0 favours long ones."""
    stop_ids: tuple[int, ...] = ()
    """Tokens that end a text; they are not part of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature == 0.0 and (self.top_k is not None or self.top_p is not None):
            cause = "top_k and top_p are for sampling, and temperature 0 is greedy search"
            raise ConfigError(cause, fix="leave them out, or set a temperature above 0")
        if self.beams > 1 and self.temperature != 0.0:
            raise ConfigError("beam search does not sample", fix="set temperature to 0")


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """The tokens generated for one prompt."""

    ids: tuple[int, ...]
    """Without the prompt and without a stop token."""
    ended: Ending
    """Why the text ended: a stop token, `max_new_tokens`, or the last position of the model."""
    log_probability: float
    """Log-probability of the ids and the stop token under the model itself (temperature 1, all tokens)."""
