"""The inputs of an encoder, checked and put on the flat token axis.

Everything that can be wrong with a batch is found here, before any arithmetic: missing or conflicting inputs, shapes
that disagree, ids outside a table, sequences longer than the position table.

Shapes: B sequences, T padded length, N tokens, E width of the embedding tables.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.packing import Packing, pack, pack_lengths
from spanlab.errors import InputError


@dataclass(frozen=True)
class Batch:
    """A batch on the flat axis."""

    packing: Packing
    input_ids_N: Tensor | None
    position_ids_N: Tensor
    segment_ids_N: Tensor | None
    embeds_NE: Tensor | None
    prefixes: tuple[int, ...] | None = None
    """The number of first tokens of each sequence, in the order of the flat axis, that all of its tokens see."""


def read_batch(
    config: EncoderConfig,
    *,
    input_ids: Tensor | None,
    attention_mask: Tensor | None,
    token_type_ids: Tensor | None,
    position_ids: Tensor | None,
    inputs_embeds: Tensor | None,
    lengths: Tensor | None,
    prefix_lengths: Tensor | None = None,
) -> Batch:
    """The caller's tensors as a `Batch`."""
    if (input_ids is None) == (inputs_embeds is None):
        raise InputError("an encoder takes either input_ids or inputs_embeds")
    if input_ids is not None:
        shape, device = tuple(input_ids.shape), input_ids.device
    else:
        assert inputs_embeds is not None
        shape, device = tuple(inputs_embeds.shape[:-1]), inputs_embeds.device
    packing = _pack(config, shape, attention_mask, lengths, device)
    if token_type_ids is not None and config.segments == 0:
        raise InputError(f"this {config.architecture} encoder has no segments", fix="leave out token_type_ids")
    for name, tensor in (("token_type_ids", token_type_ids), ("position_ids", position_ids)):
        if tensor is not None and tuple(tensor.shape) != shape:
            raise InputError(f"{name} has shape {tuple(tensor.shape)}; it must be {shape} like the input")
    position_ids_N = (
        packing.flatten(position_ids) if position_ids is not None else _positions(config, packing, input_ids, device)
    )
    batch = Batch(
        packing,
        None if input_ids is None else packing.flatten(input_ids),
        position_ids_N,
        None if token_type_ids is None else packing.flatten(token_type_ids),
        None if inputs_embeds is None else packing.flatten(inputs_embeds),
        None if prefix_lengths is None else _check_prefixes(config, packing, prefix_lengths),
    )
    _check_range("input_ids", batch.input_ids_N, config.vocab_size, "the vocabulary")
    _check_range("token_type_ids", batch.segment_ids_N, config.segments, "the segment table")
    if config.limits_length:
        rows = config.max_positions + config.position_offset
        _check_range("position_ids", batch.position_ids_N, rows, "the position table")
    return batch


def _check_prefixes(config: EncoderConfig, packing: Packing, prefix_lengths_B: Tensor) -> tuple[int, ...]:
    """The prefix of each sequence in the order of the flat axis."""
    if not config.causal:
        cause = f"prefix_lengths is for causal encoders, and this {config.architecture} is not causal"
        raise InputError(cause, fix="leave it out")
    lengths = packing.sequence_lengths
    if prefix_lengths_B.shape != (len(lengths),):
        raise InputError(f"prefix_lengths has shape {tuple(prefix_lengths_B.shape)}; it must be ({len(lengths)},)")
    ordered = prefix_lengths_B if packing.order_B is None else prefix_lengths_B[packing.order_B]
    prefixes = tuple(ordered.tolist())
    if any(not 0 <= prefix <= length for prefix, length in zip(prefixes, lengths, strict=True)):
        raise InputError("prefix_lengths has a prefix that is negative or longer than its sequence")
    return prefixes


def _pack(
    config: EncoderConfig,
    shape: tuple[int, ...],
    attention_mask: Tensor | None,
    lengths: Tensor | None,
    device: torch.device,
) -> Packing:
    if lengths is not None:
        if len(shape) != 1 or attention_mask is not None:
            raise InputError("a packed batch has one token axis, lengths, and no attention_mask")
        packing = pack_lengths(shape[0], lengths.to(device))
    else:
        if len(shape) != 2:
            raise InputError(
                f"the input has {len(shape)} token axes; it must have two, (batch, tokens), or one with lengths"
            )
        if attention_mask is not None and tuple(attention_mask.shape) != shape:
            raise InputError(f"attention_mask has shape {tuple(attention_mask.shape)}; it must be {shape}")
        mask_BT = torch.ones(shape, dtype=torch.bool, device=device) if attention_mask is None else attention_mask != 0
        packing = pack(mask_BT)
    longest = max(run.length for run in packing.runs)
    if longest > config.max_positions and config.limits_length:
        fix = "cut it into windows"
        raise InputError(
            f"a sequence has {longest} tokens, but the encoder has {config.max_positions} positions", fix=fix
        )
    return packing


def _positions(config: EncoderConfig, packing: Packing, input_ids: Tensor | None, device: torch.device) -> Tensor:
    """(N,) the row of the position table of each token: its column, or its index among real tokens (RoBERTa)."""
    if len(packing.shape) == 1:
        per_run = [torch.arange(run.length, device=device).repeat(run.count) for run in packing.runs]
        return torch.cat(per_run) + config.position_offset
    if config.position_offset and input_ids is not None and config.pad_id is not None:
        real_BT = input_ids != config.pad_id
        counted_BT = torch.cumsum(real_BT, dim=1) * real_BT + (config.position_offset - 1)
        return packing.flatten(counted_BT)
    columns_BT = torch.arange(packing.shape[1], device=device).expand(packing.shape)
    return packing.flatten(columns_BT) + config.position_offset


def _check_range(name: str, ids_N: Tensor | None, rows: int, table: str) -> None:
    """Raise on an id outside its table; on an accelerator, where reading ids back is slow, the lookup itself fails."""
    if ids_N is None or ids_N.device.type != "cpu" or ids_N.numel() == 0:
        return
    lowest, highest = (int(bound) for bound in torch.aminmax(ids_N))
    if lowest < 0 or highest >= rows:
        value = lowest if lowest < 0 else highest
        raise InputError(f"{name} holds {value}, outside {table} of {rows}")
