"""Filling masks: candidates for every mask by the MLM and by the span boundary head, and the best filling of a run.

What enters is a model folder and texts with `[MASK]` in them; what leaves is a `FillResult`. Candidates are those of
the text as it stands, with every mask unfilled; `joint_filling` says how a run is filled as a whole, each run while the
others stay masked. Probabilities are those of the whole vocabulary; special tokens are not offered.

Shapes: T tokens of a row, D width, K places of a run, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from spanlab.encoder import Model, load_model
from spanlab.encoder.pretrained.save import TOKENIZER_FILES
from spanlab.errors import ConfigError, InputError
from spanlab.inference.fill_result import Candidate, FillResult, Law, Place, Run
from spanlab.inference.mask_scores import MaskScores
from spanlab.inference.masked_text import MaskedText, MaskRun, read_masked_text
from spanlab.inference.span_beam import NextToken, TokenFilling, fill_jointly
from spanlab.inference.token_text import Spelling, tokens_of_text
from spanlab.text import Tokenizer
from spanlab.training.config import Device
from spanlab.training.distributed import current_process

_LEAST_WIDTH = 8
"""Of the beam, however few fillings are asked for."""


class Filler:
    """A model that fills masks."""

    def __init__(self, folder_or_id: str | Path, *, device: Device = "auto", revision: str | None = None) -> None:
        """Load a model folder, a run folder or a hub id; of ELECTRA's folder, its generator."""
        model, notes = _load(folder_or_id, revision)
        self._take(model, Tokenizer.load(_tokenizer_folder(model)), _find_device(device), notes)

    @classmethod
    def from_model(cls, model: Model, tokenizer: Tokenizer) -> "Filler":
        """One that uses a model in memory, on the device where it is; its weights may change between texts."""
        filler = cls.__new__(cls)
        filler._take(model, tokenizer, model.encoder.word_table.device, ())
        return filler

    def _take(self, model: Model, tokenizer: Tokenizer, device: torch.device, notes: tuple[str, ...]) -> None:
        self._scores, self._config = MaskScores(model), model.encoder.config
        if tokenizer.vocab_size > self._config.vocab_size:
            cause = (
                f"the tokenizer has {tokenizer.vocab_size} tokens and the model's vocabulary {self._config.vocab_size}"
            )
            raise InputError(cause, path=model.folder, fix="use the tokenizer the model was trained with")
        self._modules = nn.ModuleList([model.encoder, *model.heads.values()]).to(device)
        self._tokenizer, self._device = tokenizer, device
        self._allowed_V = tokens_of_text(tokenizer, self._config.vocab_size).to(device)
        alone = () if self._scores.sbo is not None else ("no sbo head: masks are filled by the mlm head alone",)
        self._notes = (*notes, *alone)

    def fill(self, text: str, *, top: int = 5) -> FillResult:
        """Fill the masks of a text; `top` candidates a mask and head, and as many fillings a run."""
        if top < 1:
            raise InputError(f"top is {top}; it must be at least 1")
        masked = read_masked_text(text, self._tokenizer)
        self._check_length(masked)
        spelling = Spelling(self._tokenizer, masked)
        row_T = torch.tensor(masked.ids, device=self._device)
        runs, best = [], []
        with torch.inference_mode(), _evaluating(self._modules):
            hidden_TD = self._scores.encode(row_T[None])[0]
            for run in masked.runs:
                joint = self._fill_jointly(run, row_T, top)
                places = self._places(run, hidden_TD, spelling, top)
                runs.append(self._run(run, places, joint, spelling))
                best.append(joint["mlm+sbo" if "mlm+sbo" in joint else "mlm"][0])
        return FillResult(text=text, filled=spelling.filled(best), runs=tuple(runs), notes=self._notes)

    def _check_length(self, masked: MaskedText) -> None:
        limit = self._config.max_positions
        if self._config.positions != "rotary" and len(masked.ids) > limit:
            cause = f"the text has {len(masked.ids)} tokens, special ones included, and the model takes {limit}"
            raise InputError(cause, fix="leave out what is far from the masks")

    def _fill_jointly(self, run: MaskRun, row_T: Tensor, top: int) -> dict[Law, list[TokenFilling]]:
        """The best fillings of a run by each law that the heads allow."""
        laws: dict[Law, NextToken] = {"mlm": self._scores.next_by_mlm}
        if self._scores.known_places(run.span, len(row_T)):
            laws["mlm+sbo"] = self._scores.next_by_both
        width = max(top, _LEAST_WIDTH)
        return {
            law: fill_jointly(row_T, run.span, next_token, self._allowed_V, width=width)[:top]
            for law, next_token in laws.items()
        }

    def _places(self, run: MaskRun, hidden_TD: Tensor, spelling: Spelling, top: int) -> tuple[Place, ...]:
        """The candidates of every mask of a run."""
        span, known = run.span, self._scores.known_places(run.span, len(hidden_TD))
        by_mlm_KV = self._offered(self._scores.by_mlm(hidden_TD[span.first : span.last + 1]))
        by_mlm = [spelling.candidates(logs_V, place, top) for logs_V, place in zip(by_mlm_KV, run.places, strict=True)]
        by_sbo: list[tuple[Candidate, ...] | None] = [None] * len(span)
        if known:
            offset_K = torch.arange(known, device=self._device)
            by_sbo_KV = self._offered(self._scores.by_sbo(hidden_TD[None], span, offset_K))
            for number, logs_V in enumerate(by_sbo_KV):
                by_sbo[number] = spelling.candidates(logs_V, run.places[number], top)
        return tuple(
            Place(start=start, end=end, mlm=mlm, sbo=sbo)
            for (start, end), mlm, sbo in zip(run.places, by_mlm, by_sbo, strict=True)
        )

    def _offered(self, logs_KV: Tensor) -> Tensor:
        return logs_KV.masked_fill(~self._allowed_V, float("-inf"))

    def _run(
        self, run: MaskRun, places: tuple[Place, ...], joint: dict[Law, list[TokenFilling]], spelling: Spelling
    ) -> Run:
        fillings = {law: tuple(spelling.filling(run, one) for one in found) for law, found in joint.items()}
        return Run(start=run.start, end=run.end, places=places, fillings=fillings, notes=self._boundary_notes(places))

    def _boundary_notes(self, places: tuple[Place, ...]) -> tuple[str, ...]:
        """What the span boundary head could not be asked."""
        known = sum(place.sbo is not None for place in places)
        if self._scores.sbo is None or known == len(places):
            return ()
        if known == 0:
            return ("the sbo head needs a token on each side of the run, and one is missing",)
        return (f"the sbo head knows {known} places in a span: the last {len(places) - known} of this run have none",)


def _load(folder_or_id: str | Path, revision: str | None) -> tuple[Model, tuple[str, ...]]:
    model = load_model(folder_or_id, revision=revision)
    assert model.folder is not None
    generator = model.folder / "generator"
    if "mlm" in model.heads or not generator.is_dir():
        return model, ()
    return load_model(generator), ("masks are filled by the generator beside the discriminator",)


def _tokenizer_folder(model: Model) -> Path:
    """The model's own folder; a generator may use the tokenizer of the discriminator around it."""
    assert model.folder is not None
    has_own = any((model.folder / name).is_file() for name in TOKENIZER_FILES)
    return model.folder if has_own or model.folder.name != "generator" else model.folder.parent


def _find_device(name: Device) -> torch.device:
    try:
        return current_process(name, "fp32").device
    except ConfigError:
        raise InputError(f"there is no {name} device here", fix="take --device auto") from None


@contextmanager
def _evaluating(modules: nn.Module) -> Iterator[None]:
    """Without dropout; what was in training goes on with it afterwards."""
    training = [module for module in modules.modules() if module.training]
    modules.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
