"""A server around transformers as one writes it in an afternoon: FastAPI, one request at a time.

    python -m benchmarks.serve_plain --port N [--qa FOLDER] [--ner FOLDER] [--embed FOLDER]

Long texts are cut into windows as the question answering example of transformers does; answers have offsets.
"""

import argparse
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

LENGTH, STRIDE, LONGEST_ANSWER = 384, 192, 30


class Peer:
    """Models of transformers by what they answer."""

    def __init__(self, qa: Path | None, ner: Path | None, embed: Path | None) -> None:
        import transformers as hf

        classes = {
            "qa": hf.AutoModelForQuestionAnswering,
            "ner": hf.AutoModelForTokenClassification,
            "embed": hf.AutoModel,
        }
        folders = {"qa": qa, "ner": ner, "embed": embed}
        self.models = {
            kind: (hf.AutoTokenizer.from_pretrained(folder), classes[kind].from_pretrained(folder).eval())
            for kind, folder in folders.items()
            if folder is not None
        }

    def answer(self, requests: Sequence[dict[str, Any]]) -> list[Any]:
        """The answers of requests, each with its `kind`; those of one kind are computed in one padded batch."""
        answers: list[Any] = [None] * len(requests)
        for kind in self.models:
            chosen = [index for index, request in enumerate(requests) if request["kind"] == kind]
            if chosen:
                computed = getattr(self, f"_{kind}")([requests[index] for index in chosen])
                for index, answer in zip(chosen, computed, strict=True):
                    answers[index] = answer
        return answers

    def _encode(self, kind: str, first: list[str], second: list[str] | None) -> tuple[Any, Any]:
        tokenizer, model = self.models[kind]
        encoded = tokenizer(
            first,
            second,
            truncation="only_second" if second else True,
            max_length=min(LENGTH, model.config.max_position_embeddings),
            stride=min(STRIDE, model.config.max_position_embeddings // 4),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=True,
            return_tensors="pt",
        )
        names = ("input_ids", "attention_mask", "token_type_ids")
        inputs = {name: encoded[name] for name in names if name in encoded}
        with torch.inference_mode():
            return encoded, model(**inputs)

    def _qa(self, requests: Sequence[dict[str, Any]]) -> list[Any]:
        questions, contexts = [r["question"] for r in requests], [r["context"] for r in requests]
        encoded, output = self._encode("qa", questions, contexts)
        best: list[dict[str, Any]] = [{"score": float("-inf")} for _ in requests]
        for window, index in enumerate(encoded["overflow_to_sample_mapping"].tolist()):
            inside = torch.tensor([part == 1 for part in encoded.sequence_ids(window)])
            start, end, score = _best_span(output.start_logits[window], output.end_logits[window], inside)
            if score > best[index]["score"]:
                offsets = encoded["offset_mapping"][window]
                first, last = int(offsets[start][0]), int(offsets[end][1])
                text = contexts[index][first:last]
                best[index] = {"answer": text, "start": first, "end": last, "score": score}
        return best

    def _ner(self, requests: Sequence[dict[str, Any]]) -> list[Any]:
        texts = [request["text"] for request in requests]
        encoded, output = self._encode("ner", texts, None)
        labels = self.models["ner"][1].config.id2label
        found: list[list[dict[str, Any]]] = [[] for _ in requests]
        scores, tags = output.logits.softmax(-1).max(-1)
        for window, index in enumerate(encoded["overflow_to_sample_mapping"].tolist()):
            for token, (start, end) in enumerate(encoded["offset_mapping"][window].tolist()):
                label = labels[int(tags[window, token])]
                if start < end and label != "O":
                    score = float(scores[window, token])
                    found[index].append({"start": start, "end": end, "label": label, "score": score})
        return found

    def _embed(self, requests: Sequence[dict[str, Any]]) -> list[Any]:
        texts = [request["text"] for request in requests]
        encoded, output = self._encode("embed", texts, None)
        mask = encoded["attention_mask"].unsqueeze(-1)
        sums = (output.last_hidden_state * mask).sum(1)
        totals = torch.zeros(len(texts), sums.shape[1]).index_add_(0, encoded["overflow_to_sample_mapping"], sums)
        vectors: list[Any] = torch.nn.functional.normalize(totals, dim=-1).tolist()
        return vectors


def _best_span(start_T: Tensor, end_T: Tensor, inside_T: Tensor) -> tuple[int, int, float]:
    """The best pair of a start and an end at most `LONGEST_ANSWER` tokens later."""
    outside = torch.where(inside_T, 0.0, float("-inf"))
    sums_TT = (start_T + outside)[:, None] + (end_T + outside)[None, :]
    allowed = torch.ones_like(sums_TT).triu().tril(LONGEST_ANSWER - 1).bool()
    index = int(sums_TT.masked_fill(~allowed, float("-inf")).argmax())
    return index // len(end_T), index % len(end_T), float(sums_TT.flatten()[index])


def serve_plain(peer: Peer, port: int) -> None:
    """FastAPI, one request at a time."""
    import uvicorn
    from fastapi import FastAPI

    app, lock = FastAPI(), threading.Lock()

    @app.post("/predict")
    def predict(request: dict[str, Any]) -> Any:  # noqa: ANN401
        with lock:
            return peer.answer([request])[0]

    uvicorn.run(app, port=port, log_level="warning")


def read_options(description: str | None) -> argparse.Namespace:
    """The options of both peers."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    for kind in ("qa", "ner", "embed"):
        parser.add_argument(f"--{kind}", type=Path)
    return parser.parse_args()


def main() -> None:
    """Serve until the process is ended."""
    options = read_options(__doc__)
    serve_plain(Peer(options.qa, options.ner, options.embed), options.port)


if __name__ == "__main__":
    main()
