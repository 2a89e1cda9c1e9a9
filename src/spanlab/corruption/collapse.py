"""A span shown as one mask token, as simpler accounts of span masking describe it.

The examples get shorter: of each masked span its first token stays, as [MASK], and is the only one predicted there; the
span boundary targets are all of the span's tokens, between the same two neighbours.
"""

from dataclasses import replace

import numpy as np

from spanlab.corruption.examples import ExampleBatch


def collapse_spans(examples: ExampleBatch, mask_id: int) -> ExampleBatch:
    """The same examples with every masked span collapsed into one mask token."""
    count = len(examples.input_ids)
    masked = np.zeros(count, bool)
    masked[examples.positions] = True
    block_of = np.repeat(np.arange(len(examples.lengths)), examples.lengths)
    goes_on = np.zeros(count, bool)
    goes_on[1:] = masked[1:] & masked[:-1] & (block_of[1:] == block_of[:-1])
    kept = ~goes_on
    place = np.cumsum(kept) - 1
    leads = kept[examples.positions]
    input_ids = examples.input_ids.copy()
    input_ids[examples.positions] = mask_id
    return replace(
        examples,
        input_ids=input_ids[kept],
        original_ids=examples.original_ids[kept],
        lengths=np.bincount(block_of[kept], minlength=len(examples.lengths)),
        segment_ids=None if examples.segment_ids is None else examples.segment_ids[kept],
        positions=place[examples.positions[leads]],
        targets=examples.targets[leads],
        uniforms=examples.uniforms[leads] if len(examples.uniforms) else examples.uniforms,
        boundary_positions=place[examples.boundary_positions],
        left=place[examples.left],
        right=place[examples.right],
        first=place[examples.first],
        last=place[examples.last],
    )
