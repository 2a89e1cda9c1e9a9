"""First steps: the packaged MiniLM, loaded by SpanLab, finds which sentence answers a question.

    python examples/first_steps.py

Needs the `minilm` extra (a real pre-trained BERT of 6 layers, from the package index) and no network.
"""

import torch

import spanlab
from spanlab.text import Tokenizer

QUESTION = "Who draws the border of a span?"
SENTENCES = [
    "A span is marked by the two words at its edges.",
    "The harbour was full of boats on Sunday.",
    "SpanBERT guesses masked words from the tokens just outside them.",
    "Bread needs flour, water, salt and time.",
]


def embed(encoder: spanlab.Encoder, tokenizer: Tokenizer, texts: list[str]) -> torch.Tensor:
    """(B, D) one unit vector per text: the mean over its tokens, all texts packed in one row without padding."""
    tokens = tokenizer.encode_batch(texts)
    encodings = [[tokenizer.cls_id, *part.ids.tolist(), tokenizer.sep_id] for part in tokens]
    lengths = torch.tensor([len(ids) for ids in encodings])
    packed_ids = torch.tensor([token for ids in encodings for token in ids])
    with torch.inference_mode():
        hidden = encoder(packed_ids, lengths=lengths).hidden
    means = torch.stack([part.mean(dim=0) for part in torch.split(hidden, lengths.tolist())])
    return torch.nn.functional.normalize(means, dim=-1)


def main() -> None:
    """Rank the sentences by their similarity to the question."""
    encoder = spanlab.Encoder.from_pretrained("minilm").eval()
    tokenizer = Tokenizer.load("minilm")
    parameters = sum(parameter.numel() for parameter in encoder.parameters())
    print(f"MiniLM: {encoder.config.layers} layers x {encoder.config.width}, {parameters:,} parameters\n")
    question, *vectors = embed(encoder, tokenizer, [QUESTION, *SENTENCES])
    print(QUESTION)
    scored = sorted(((float(question @ vector), text) for vector, text in zip(vectors, SENTENCES, strict=True)))
    for score, text in reversed(scored):
        print(f"  {score:5.2f}  {text}")


if __name__ == "__main__":
    main()
