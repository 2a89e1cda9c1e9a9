"""Pre-training methods: which examples, which model and which criterion belong to a set of objectives.

| method | objectives | examples | model |
|---|---|---|---|
| masked | mlm, sbo, nsp, sop | masked by a law | one encoder |
| replaced-token | rtd, mlm (generator) | masked by a law, with uniforms for sampling | ELECTRA: two encoders |
| permutation | plm | orders of prediction over streams | XLNet with two-stream attention |
| causal | clm | next tokens | one causal encoder |
| bidirectional | bilm | next tokens in both directions | ELMo |

Everything else in this package asks a recipe for its `method` instead of looking at its objectives.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

PAIR_BLOCKS = {"nsp": "next-sentence", "sop": "sentence-order"}
"""The objectives on the pooled vector of a sentence pair, and the `data.blocks` they need."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """What follows from the objectives of a recipe."""

    name: str
    corrupts: bool = True
    """Whether the masking section decides what is predicted; if not, every token predicts its neighbour."""
    permutes: bool = False
    """Whether `masking.law` must be the permutation law."""
    directions: int = 1
    """2: text is read forwards and backwards."""
    marks_sentences: bool = False
    """Whether begin and end tokens are inserted between the sentences of a stream."""
    recurrent: bool = False
    """Whether a step over continuous streams starts from the state that the previous step left."""
    generator: bool = False
    """Whether a generator is trained with the encoder; examples then have `sampling_uniforms`."""
    pipeline_tag: str = "feature-extraction"
    """The pipeline tag of the model card."""

    @property
    def layer(self) -> "type[nn.Module]":
        """The class of the encoder's layers, each of which is one FSDP unit."""
        from spanlab.encoder.block import Block
        from spanlab.encoder.xlnet.block import TwoStreamBlock

        return TwoStreamBlock if self.permutes else Block


MASKED = Method(name="masked", pipeline_tag="fill-mask")
REPLACED_TOKEN = Method(name="replaced-token", generator=True)
PERMUTATION = Method(name="permutation", permutes=True, recurrent=True)
CAUSAL = Method(name="causal", corrupts=False, pipeline_tag="text-generation")
BIDIRECTIONAL = Method(name="bidirectional", corrupts=False, directions=2, marks_sentences=True, recurrent=True)

_BY_OBJECTIVE = {"bilm": BIDIRECTIONAL, "clm": CAUSAL, "plm": PERMUTATION, "rtd": REPLACED_TOKEN}


def method_of(objectives: Collection[str]) -> Method:
    """The method of a set of objectives; combinations that cannot be trained are refused by `build_criterion`."""
    return next((method for name, method in _BY_OBJECTIVE.items() if name in objectives), MASKED)
