"""Filling masks: candidates for every mask by the MLM and by the span boundary head, and the best filling of a run.

What enters is a model folder and texts with `[MASK]` in them; what leaves is a `FillResult`. Candidates are predicted
with every mask unfilled. The best filling of a run is not the best token of each mask: its positions are filled from
left to right, and the text is encoded again after each, so that every token is predicted given those before it. By
the chain rule a filling then has one log probability, the sum over its tokens; a beam search keeps the best few. Each
run is filled while the others stay masked. Probabilities are over the whole vocabulary; special tokens are never
candidates.

Shapes: B rows (fillings in the beam), T tokens of a row, D width, K positions of a run, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spanlab.encoder import MaskedLMHead, Model, SpanBoundaryHead, load_model
from spanlab.encoder.layers import evaluating
from spanlab.encoder.pretrained.save import TOKENIZER_FILES
from spanlab.errors import ConfigError, InputError
from spanlab.inference.fill_result import Candidate, FillMethod, FillResult, MaskPosition, MaskRun
from spanlab.inference.finite_results import overflow
from spanlab.inference.masked_text import (
    FillDecoder,
    MaskedSpan,
    MaskedText,
    TokenSpan,
    read_masked_text,
    text_token_mask,
)
from spanlab.tasks.unknown_tokens import UnknownTokens
from spanlab.text import Tokenizer
from spanlab.training.config import Device
from spanlab.training.distributed import current_process

NextToken = Callable[[Tensor, TokenSpan], Tensor]
"""(B, V) log probabilities at the first position of a masked span, given rows (B, T)."""


@dataclass(frozen=True, kw_only=True)
class TokenFilling:
    """Token ids for a run, each with its log probability given those before it."""

    ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]

    @property
    def score(self) -> float:
        """The mean log probability of a token."""
        return sum(self.log_probabilities) / len(self.log_probabilities)


def fill_jointly(
    row_T: Tensor, span: TokenSpan, next_token: NextToken, allowed_V: Tensor, *, width: int
) -> list[TokenFilling]:
    """Beam search over the fillings of a masked span: at most `width`, the best first, of `allowed_V` tokens only."""
    rows_BT, logs_BK = row_T[None], torch.zeros(1, 0, device=row_T.device)
    for position in range(span.first, span.last + 1):
        logs_BV = next_token(rows_BT, TokenSpan(first=position, last=span.last)).masked_fill(~allowed_V, float("-inf"))
        totals = (logs_BK.sum(dim=1, keepdim=True) + logs_BV).flatten()
        best = totals.topk(min(width, int(totals.isfinite().sum()))).indices
        parent_B, token_B = best // logs_BV.shape[1], best % logs_BV.shape[1]
        rows_BT = rows_BT[parent_B]
        rows_BT[:, position] = token_B
        logs_BK = torch.cat([logs_BK[parent_B], logs_BV[parent_B, token_B][:, None]], dim=1)
    return [
        TokenFilling(ids=tuple(row[span.first : span.last + 1]), log_probabilities=tuple(logs))
        for row, logs in zip(rows_BT.tolist(), logs_BK.tolist(), strict=True)
    ]


class MaskScores:
    """Log probabilities of tokens at masks, by the MLM head and by the span boundary head if the model has one."""

    def __init__(self, model: Model) -> None:
        mlm, sbo = model.head("mlm"), model.heads.get("sbo")
        assert isinstance(mlm, MaskedLMHead)
        assert sbo is None or isinstance(sbo, SpanBoundaryHead)
        self.encoder, self.mlm, self.sbo = model.encoder, mlm, sbo

    def encode(self, rows_BT: Tensor) -> Tensor:
        """(B, T, D) hidden states."""
        return self.encoder(rows_BT).hidden  # type: ignore[no-any-return]

    def by_mlm(self, hidden_KD: Tensor) -> Tensor:
        """(K, V) from the hidden states at the masked positions themselves."""
        return _checked(F.log_softmax(self.mlm(hidden_KD, self.encoder.word_table), dim=-1))

    def sbo_length(self, span: TokenSpan, length: int) -> int:
        """How many positions of a span, from its first, the SBO head can predict in a row of `length` tokens."""
        if self.sbo is None:
            return 0
        config = self.sbo.config
        if config.boundaries == "external" and (span.first == 0 or span.last == length - 1):
            return 0
        return len(span) if config.span_limit is None else min(len(span), config.span_limit)

    def by_sbo(self, hidden_BTD: Tensor, span: TokenSpan, offset_K: Tensor) -> Tensor:
        """(B * K, V) for the positions `offset_K` of a span, row by row, from the boundaries that the head uses."""
        assert self.sbo is not None
        outside = int(self.sbo.config.boundaries == "external")
        left_KD = hidden_BTD[:, span.first - outside].repeat_interleave(len(offset_K), dim=0)
        right_KD = hidden_BTD[:, span.last + outside].repeat_interleave(len(offset_K), dim=0)
        offsets = offset_K.repeat(len(hidden_BTD))
        return _checked(F.log_softmax(self.sbo(left_KD, right_KD, offsets, self.encoder.word_table), dim=-1))

    def next_by_mlm(self, rows_BT: Tensor, span: TokenSpan) -> Tensor:
        """(B, V) for the first position of a masked span."""
        return self.by_mlm(self.encode(rows_BT)[:, span.first])

    def next_by_both(self, rows_BT: Tensor, span: TokenSpan) -> Tensor:
        """(B, V) for the first position of a masked span: the geometric mean of both heads, normalised.

        Training adds the two losses, so it maximises the product of the two probabilities.
        """
        hidden_BTD = self.encode(rows_BT)
        by_mlm_BV = self.by_mlm(hidden_BTD[:, span.first])
        by_sbo_BV = self.by_sbo(hidden_BTD, span, torch.zeros(1, dtype=torch.long, device=rows_BT.device))
        return F.log_softmax((by_mlm_BV + by_sbo_BV) / 2, dim=-1)


def _checked(logs_KV: Tensor) -> Tensor:
    if not logs_KV.isfinite().all():
        raise overflow("the text")
    return logs_KV


_MIN_BEAM_WIDTH = 8
"""However few fillings are asked for."""


class Filler:
    """A model that fills masks; one from a folder may be used by many threads at once."""

    def __init__(self, folder_or_id: str | Path, *, device: Device = "auto", revision: str | None = None) -> None:
        """Load a model folder, a run, a name in `spanlab models` or a Hugging Face id; of an ELECTRA, the generator."""
        model, notes = _load(folder_or_id, revision)
        self._set_up(model, Tokenizer.load(_tokenizer_folder(model)), _find_device(device), notes)
        self._modules.eval()

    @classmethod
    def from_model(cls, model: Model, tokenizer: Tokenizer) -> "Filler":
        """A filler for a model in memory, on its device; its weights may change between texts."""
        filler = cls.__new__(cls)
        filler._set_up(model, tokenizer, model.encoder.word_table.device, ())
        return filler

    def _set_up(self, model: Model, tokenizer: Tokenizer, device: torch.device, notes: tuple[str, ...]) -> None:
        self._scores, self._config = MaskScores(model), model.encoder.config
        if tokenizer.vocab_size > self._config.vocab_size:
            cause = (
                f"the tokenizer has {tokenizer.vocab_size} tokens and the model's vocabulary {self._config.vocab_size}"
            )
            raise InputError(cause, path=model.folder, fix="use the tokenizer the model was trained with")
        self._modules = nn.ModuleList([model.encoder, *model.heads.values()]).to(device)
        self._tokenizer, self._device = tokenizer, device
        self._allowed_V = text_token_mask(tokenizer, self._config.vocab_size).to(device)
        if not self._allowed_V.any():
            raise InputError("the vocabulary has only special tokens, and none to fill masks with", path=model.folder)
        if self._scores.sbo is None:
            notes = (*notes, "no sbo head: masks are filled by the mlm head alone")
        self._notes = notes

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's."""
        return self._tokenizer

    def fill(self, text: str, *, top: int = 5) -> FillResult:
        """Fill the masks of a text; `top` candidates per mask and head, and as many fillings per run."""
        if top < 1:
            raise InputError(f"top is {top}; it must be at least 1")
        masked, decoder, row_T = self._read(text)
        runs, best = [], []
        with torch.inference_mode(), evaluating(self._modules):
            hidden_TD = self._scores.encode(row_T[None])[0]
            for run in masked.runs:
                joint = self._fill_jointly(run, row_T, top)
                masks = self._masks(run, hidden_TD, decoder, top)
                runs.append(self._run(run, masks, joint, decoder))
                best.append(joint["mlm+sbo" if "mlm+sbo" in joint else "mlm"][0].ids)
        unknown = UnknownTokens(self._tokenizer)
        unknown.add(text, [np.array(masked.ids)])
        notes = (*self._notes, *unknown.remarks)
        return FillResult(text=text, filled=decoder.filled(best), runs=tuple(runs), notes=notes)

    def candidates(self, text: str, *, top: int = 5) -> tuple[MaskPosition, ...]:
        """The candidates of every mask of a text, in order, each mask by itself."""
        masked, decoder, row_T = self._read(text)
        with torch.inference_mode(), evaluating(self._modules):
            hidden_TD = self._scores.encode(row_T[None])[0]
            return tuple(mask for run in masked.runs for mask in self._masks(run, hidden_TD, decoder, top))

    def _read(self, text: str) -> tuple[MaskedText, FillDecoder, Tensor]:
        """The text with its masks found, what turns ids for them into text, and its ids (T,)."""
        masked = read_masked_text(text, self._tokenizer)
        self._check_length(masked)
        decoder = FillDecoder(self._tokenizer, masked)
        return masked, decoder, torch.tensor(masked.ids, device=self._device)

    def _check_length(self, masked: MaskedText) -> None:
        limit = self._config.max_positions
        if self._config.positions != "rotary" and len(masked.ids) > limit:
            cause = f"the text has {len(masked.ids)} tokens, special ones included, and the model takes {limit}"
            raise InputError(cause, fix="shorten the text; keep what is near the masks")

    def _fill_jointly(self, run: MaskedSpan, row_T: Tensor, top: int) -> dict[FillMethod, list[TokenFilling]]:
        """The best fillings of a run, by the MLM head and, if it applies, by both heads."""
        methods: dict[FillMethod, NextToken] = {"mlm": self._scores.next_by_mlm}
        if self._scores.sbo_length(run.span, len(row_T)):
            methods["mlm+sbo"] = self._scores.next_by_both
        width = max(top, _MIN_BEAM_WIDTH)
        return {
            method: fill_jointly(row_T, run.span, next_token, self._allowed_V, width=width)[:top]
            for method, next_token in methods.items()
        }

    def _masks(self, run: MaskedSpan, hidden_TD: Tensor, decoder: FillDecoder, top: int) -> tuple[MaskPosition, ...]:
        """The candidates of every mask of a run."""
        span, sbo_length = run.span, self._scores.sbo_length(run.span, len(hidden_TD))
        by_mlm_KV = self._only_allowed(self._scores.by_mlm(hidden_TD[span.first : span.last + 1]))
        by_mlm = [
            decoder.candidates(logs_V, char_span, top)
            for logs_V, char_span in zip(by_mlm_KV, run.char_spans, strict=True)
        ]
        by_sbo: list[tuple[Candidate, ...] | None] = [None] * len(span)
        if sbo_length:
            offset_K = torch.arange(sbo_length, device=self._device)
            by_sbo_KV = self._only_allowed(self._scores.by_sbo(hidden_TD[None], span, offset_K))
            for index, logs_V in enumerate(by_sbo_KV):
                by_sbo[index] = decoder.candidates(logs_V, run.char_spans[index], top)
        return tuple(
            MaskPosition(start=start, end=end, mlm=mlm, sbo=sbo)
            for (start, end), mlm, sbo in zip(run.char_spans, by_mlm, by_sbo, strict=True)
        )

    def _only_allowed(self, logs_KV: Tensor) -> Tensor:
        return logs_KV.masked_fill(~self._allowed_V, float("-inf"))

    def _run(
        self,
        run: MaskedSpan,
        masks: tuple[MaskPosition, ...],
        joint: dict[FillMethod, list[TokenFilling]],
        decoder: FillDecoder,
    ) -> MaskRun:
        fillings = {
            method: tuple(decoder.filling(run, filling.ids, filling.score) for filling in best)
            for method, best in joint.items()
        }
        return MaskRun(start=run.start, end=run.end, places=masks, fillings=fillings, notes=self._sbo_notes(masks))

    def _sbo_notes(self, masks: tuple[MaskPosition, ...]) -> tuple[str, ...]:
        """Why the span boundary head has no candidates for some masks of a run."""
        filled = sum(mask.sbo is not None for mask in masks)
        if self._scores.sbo is None or filled == len(masks):
            return ()
        if filled == 0:
            return ("the sbo head needs a token on each side of the run, and one is missing",)
        rest = len(masks) - filled
        return (f"the sbo head takes spans of up to {filled} tokens; it has no candidates for the last {rest}",)


def fill(model: str | Path, text: str, *, top: int = 5, device: Device = "auto") -> FillResult:
    """Fill the `[MASK]`s of one text, as `spanlab fill` does; for several texts, load a `Filler` once.

    Args:
        model: a model folder, a run folder, a name in `spanlab models` or a Hugging Face id.
        text: a text with [MASK] for every token to be predicted.
        top: candidates for each mask and head, and as many fillings of a run of masks.
        device: the device to run on.
    """
    return Filler(model, device=device).fill(text, top=top)


def _load(folder_or_id: str | Path, revision: str | None) -> tuple[Model, tuple[str, ...]]:
    model = load_model(folder_or_id, revision=revision)
    assert model.folder is not None
    generator = model.folder / "generator"
    if "mlm" in model.heads or not generator.is_dir():
        return model, ()
    return load_model(generator), ("masks are filled by the generator beside the discriminator",)


def _tokenizer_folder(model: Model) -> Path:
    """The folder of the model; a generator without tokenizer files uses those of its discriminator."""
    assert model.folder is not None
    has_tokenizer = any((model.folder / name).is_file() for name in TOKENIZER_FILES)
    return model.folder if has_tokenizer or model.folder.name != "generator" else model.folder.parent


def _find_device(name: Device) -> torch.device:
    try:
        return current_process(name, "fp32").device
    except ConfigError:
        raise InputError(f"no {name} device is available", fix="use --device auto") from None
