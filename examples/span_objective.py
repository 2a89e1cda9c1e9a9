"""SpanBERT's objective in a plain PyTorch loop, on a transformers model.

    python examples/span_objective.py

`SpanMasking` is the collator, `SpanBoundaryHead` the extra head; the model, the optimiser and the loop are your own.
Needs the `hf` extra, and no network: the tokenizer is trained on the text below, and the model is new.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForMaskedLM

import spanlab
from spanlab.text.train import TokenizerConfig, train_tokenizer

TEXT = [
    "A span has two ends, and what lies between them can often be guessed from the words outside.",
    "The harbour master wrote the names of seventeen ships in a notebook before breakfast.",
    "Whoever masks whole words in a row teaches a model to think in phrases, not in pieces.",
    "Bread needs flour, water, salt and time, and most of all it needs to be left alone.",
] * 8


def main(steps: int = 40) -> tuple[float, float]:
    """Train for a few steps; returns the sum of both losses at the first and the last step."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer(TEXT, TokenizerConfig(kind="wordpiece", vocab_size=300))
    features = [
        {"input_ids": [tokenizer.cls_id, *tokenizer.encode(text).ids.tolist(), tokenizer.sep_id], "index": number}
        for number, text in enumerate(TEXT)
    ]
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
    )
    model = BertForMaskedLM(config)
    head = spanlab.SpanBoundaryHead(64, tokenizer.vocab_size)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=2e-3)
    masking = spanlab.SpanMasking(tokenizer, seed=0)
    loader: DataLoader[Any] = DataLoader(features, batch_size=16, collate_fn=masking)  # type: ignore[arg-type]

    losses: list[float] = []
    while len(losses) < steps:
        for batch in loader:
            output = model(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                labels=batch["labels"],
                output_hidden_states=True,
            )
            hidden = output.hidden_states[-1].flatten(0, 1)
            # Tokens beyond the head's position table have no span boundary target.
            near = batch["span_offset"] < head.config.max_span
            logits = head(
                hidden[batch["span_left"][near]],
                hidden[batch["span_right"][near]],
                batch["span_offset"][near],
                model.get_input_embeddings().weight,
            )
            loss = output.loss + F.cross_entropy(logits, batch["span_target"][near])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        masking.epoch += 1  # new masks for the next pass over the text
    print(f"MLM + SBO loss: {losses[0]:.3f} at the first step, {losses[-1]:.3f} after {len(losses)}")
    return losses[0], losses[-1]


if __name__ == "__main__":
    main()
