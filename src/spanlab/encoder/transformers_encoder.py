"""Any encoder of transformers as an `Encoder`, so that objectives and tasks can use it like any other.

Packed batches are padded on the way in and packed again on the way out. Needs the `hf` extra.

Shapes: B sequences, T padded length, N tokens, D width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from spanlab.config import from_mapping
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.model import Encoder, EncoderOutput
from spanlab.encoder.packing import pack, pack_lengths
from spanlab.encoder.pretrained.checked_weights import check_finite, check_missing
from spanlab.errors import ConfigError, InputError, MissingExtraError, WeightsError

_REQUIRED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
_MAX_LAYERS = 1_000
_MAX_PARAMETERS_PER_BYTE = 4
"""Two where weights are stored in four bits; a pooler that a file lacks adds a little."""


class TransformersEncoder(Encoder):
    """An `AutoModel` that takes and returns what every `Encoder` does."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 (any transformers model)
        super().__init__()
        self.model = model
        config = _encoder_config(model.config)
        self.config = replace(config, embedding_width=model.get_input_embeddings().weight.shape[1])

    @classmethod
    def load(cls, folder: Path) -> tuple["TransformersEncoder", tuple[str, ...]]:
        """From a folder in Hugging Face layout, with the names of the weights in it that were not used.

        Every weight must be there; code inside the folder is never run.
        """
        try:
            import transformers
        except ImportError:
            raise MissingExtraError(
                "hf", f"the model in {folder}, whose architecture SpanLab reads through transformers,"
            ) from None
        try:
            with quiet_transformers():
                config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
                _check_class(config, folder)
                _check_size(config, folder)
                model, found = transformers.AutoModel.from_pretrained(
                    folder, config=config, trust_remote_code=False, output_loading_info=True
                )
            missing = set(found["missing_keys"])
            without_pooler = {name for name in missing if not name.startswith("pooler.")}
            check_missing(sorted(without_pooler), folder)
            if missing and getattr(model, "pooler", None) is not None:
                model.pooler = None  # a head that the file does not have; a random one is no model
            for name, tensor in model.state_dict().items():
                check_finite(name, tensor, folder)
            return cls(model), tuple(sorted(found["unexpected_keys"]))
        except InputError as error:
            raise type(error)(error.cause, path=error.path or folder / "config.json", fix=error.fix) from None
        except Exception as error:  # what transformers raises on a folder that it cannot read may be anything
            reason = (str(error) or type(error).__name__).strip().splitlines()[0]
            raise InputError(f"transformers cannot load it ({reason})", path=folder) from None

    @property
    @override
    def word_table(self) -> Tensor:
        return self.model.get_input_embeddings().weight  # type: ignore[no-any-return]

    @property
    def pooler(self) -> nn.Module | None:  # type: ignore[override]
        """The model's own, where it has one."""
        return getattr(self.model, "pooler", None)

    @override
    def add_pooler(self) -> None:
        """Nothing: task heads on these encoders bring a dense layer of their own."""

    @override
    def replace_word_table(self, table_VE: Tensor, *, pad_id: int | None) -> None:
        size, width = table_VE.shape
        self.model.set_input_embeddings(nn.Embedding(size, width, _weight=table_VE))
        self.model.config.vocab_size, self.model.config.pad_token_id = size, pad_id
        self.config = replace(self.config, vocab_size=size, pad_id=pad_id)

    @override
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        lengths: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        prefix_lengths: Tensor | None = None,
    ) -> EncoderOutput:
        """Without `head_mask` and `prefix_lengths`, which transformers does not have."""
        for name, tensor in {"head_mask": head_mask, "prefix_lengths": prefix_lengths}.items():
            if tensor is not None:
                raise InputError(f"{name} is not available for encoders of transformers")
        inputs: dict[str, Tensor | None] = {
            "input_ids": input_ids,
            "token_type_ids": token_type_ids,
            "position_ids": position_ids,
            "inputs_embeds": inputs_embeds,
        }
        tensors = {name: tensor for name, tensor in inputs.items() if tensor is not None}
        if lengths is not None:
            tensors = {name: _pad(tensor, lengths) for name, tensor in tensors.items()}
            attention_mask = torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None]
        output = self.model(
            **tensors,
            attention_mask=None if attention_mask is None else attention_mask.long(),
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        restore = (lambda x: x) if attention_mask is None else _restorer(attention_mask, packed=lengths is not None)
        return EncoderOutput(
            hidden=restore(output.last_hidden_state),
            pooled=getattr(output, "pooler_output", None),
            hidden_states=tuple(restore(x) for x in output.hidden_states) if output_hidden_states else None,
            attentions=tuple(output.attentions) if output_attentions else None,
        )


def _encoder_config(theirs: Any) -> EncoderConfig:  # noqa: ANN401 (any transformers config)
    """What objectives and tasks ask an encoder's config for, from one of transformers."""
    missing = next((name for name in _REQUIRED if not hasattr(theirs, name)), None)
    if missing is not None:
        raise ConfigError(f"a model of type '{theirs.model_type}' is no encoder of text: it has no '{missing}'")
    return from_mapping(
        EncoderConfig,
        {
            "vocab_size": theirs.vocab_size,
            "width": theirs.hidden_size,
            "layers": theirs.num_hidden_layers,
            "heads": theirs.num_attention_heads,
            "inner_width": getattr(theirs, "intermediate_size", getattr(theirs, "hidden_dim", 4 * theirs.hidden_size)),
            "max_positions": getattr(theirs, "max_position_embeddings", 512),
            "segments": getattr(theirs, "type_vocab_size", 0) or 0,
            "pooler": False,  # theirs differ, so no head is put on them
            "pad_id": getattr(theirs, "pad_token_id", None),
        },
    )


def _check_class(config: Any, folder: Path) -> None:  # noqa: ANN401 (any transformers config)
    """Raise where the class that the folder was saved from belongs to another `model_type`."""
    import transformers

    saved = next(iter(config.architectures or ()), "")
    its_config = getattr(getattr(transformers, saved, None), "config_class", None)
    its_type = getattr(its_config, "model_type", config.model_type)
    if its_type != config.model_type:
        cause = (
            f"'model_type' is '{config.model_type}', but the model was saved as {saved}, which is of type '{its_type}'"
        )
        raise ConfigError(cause, path=folder / "config.json", fix=f"set model_type to '{its_type}'")


def _check_size(config: Any, folder: Path) -> None:  # noqa: ANN401 (any transformers config)
    """Raise where a config asks for more than the folder's weight files can hold, before anything is built from it."""
    from transformers import AutoModel

    _encoder_config(config)  # its bounds
    deep = {key: value for key, value in vars(config).items() if "layer" in key and type(value) is int}
    for key, value in deep.items():
        if value > _MAX_LAYERS:
            raise ConfigError(f"'{key}' is {value}; it must be at most {_MAX_LAYERS}", path=folder / "config.json")
    with torch.device("meta"):
        asked = sum(parameter.numel() for parameter in AutoModel.from_config(config).parameters())
    held = sum(path.stat().st_size for path in folder.iterdir() if path.suffix in {".safetensors", ".bin"})
    if asked > _MAX_PARAMETERS_PER_BYTE * held:
        cause = f"the config asks for {asked:,} parameters, and the weight files have {held:,} bytes"
        raise WeightsError(cause, path=folder)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and reports of transformers inside the context: a library does not print."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _pad(x: Tensor, lengths_B: Tensor) -> Tensor:
    """(N, …) → (B, T, …), zero at the end of short sequences."""
    pack_lengths(x.shape[0], lengths_B)  # raises on lengths that do not add up
    return nn.utils.rnn.pad_sequence(list(torch.split(x, lengths_B.tolist())), batch_first=True)


def _restorer(mask_BT: Tensor, *, packed: bool) -> Any:  # noqa: ANN401 (a function of one tensor)
    """A function from padded hidden states to the caller's layout: zeros at padding, or packed."""
    mask_BT = mask_BT != 0
    pack(mask_BT)  # raises on empty sequences

    def restore(hidden_BTD: Tensor) -> Tensor:
        return hidden_BTD[mask_BT] if packed else hidden_BTD * mask_BT.unsqueeze(-1)

    return restore
