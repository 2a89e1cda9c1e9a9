"""The peer of `spanlab benchmark`: an encoder as a plain loop over transformers runs it. Needs the `hf` extra.

Batches of 32 in the order of the input, padded to the longest and truncated to the positions of the model; mean
pooling, no head.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from spanlab.encoder import Encoder
from spanlab.encoder.pretrained import save_model
from spanlab.encoder.transformers_encoder import TransformersEncoder, quiet_transformers
from spanlab.errors import InputError
from spanlab.text import Tokenizer

_BATCH = 32


def transformers_loop(
    encoder: Encoder, tokenizer: Tokenizer, scratch: Path
) -> Callable[[Sequence[tuple[str, ...]]], None]:
    """A function that encodes texts, or pairs of texts, by `AutoModel`; `scratch` is a folder to write the model to."""
    from transformers import AutoModel, AutoTokenizer

    save_model(scratch, encoder)
    tokenizer.save(scratch)
    try:
        with quiet_transformers():
            if isinstance(encoder, TransformersEncoder):
                peer = encoder.model
            else:
                peer = AutoModel.from_pretrained(scratch, trust_remote_code=False)
            tokenise = AutoTokenizer.from_pretrained(scratch, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"transformers cannot load this encoder ({reason[:100]})") from None
    peer.eval()
    longest = encoder.config.max_positions

    def run(texts: Sequence[tuple[str, ...]]) -> None:
        for first in range(0, len(texts), _BATCH):
            parts = [list(part) for part in zip(*texts[first : first + _BATCH], strict=True)]
            inputs = tokenise(*parts, padding=True, truncation=True, max_length=longest, return_tensors="pt")
            with torch.inference_mode():
                hidden_BTD = peer(**inputs).last_hidden_state
                mask_BT1 = inputs["attention_mask"][:, :, None]
                (hidden_BTD * mask_BT1).sum(dim=1) / mask_BT1.sum(dim=1)

    return run
