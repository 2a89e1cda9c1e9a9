"""What the heads of several tasks share: pooling, losses, the heads of whole sequences, and GPT's auxiliary loss.

Losses are sums over terms in full precision, with the number of correct terms.

Shapes: B sequences, N tokens, T tokens of a sample (in `BiHead` its two texts), S samples, K terms, L labels, D width.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from spanlab.encoder import CausalLMHead, Encoder, EncoderConfig, SequenceHead, architecture_of
from spanlab.encoder.layers import Dropout, init_weights
from spanlab.errors import ConfigError
from spanlab.objectives.causal_lm import causal_lm_loss
from spanlab.objectives.objective import ObjectiveLoss, in_full_precision
from spanlab.tasks.config import Pooling
from spanlab.tasks.head import Encoded, Head, StandardHead
from spanlab.tasks.head_graphs import HeadGraph
from spanlab.tasks.host_head import LOGITS, by_row
from spanlab.tasks.tensor_batch import TensorBatch

# ---- pooling


def pools_last_token(config: EncoderConfig) -> bool:
    """Whether a sequence is represented by its last token: causal encoders, and those with [CLS] at the end."""
    return config.causal or architecture_of(config).pools_last_token


def pool_tokens(encoded: Encoded, *, last: bool) -> Tensor:
    """(B, D) the hidden state of the first token of each sequence, or of the last."""
    batch = encoded.batch
    rows_B = batch.starts + batch.lengths_B - 1 if last else batch.starts
    return encoded.hidden_ND.index_select(0, rows_B)


def add_pooler(encoder: Encoder) -> None:
    """Give an encoder whose sequence head needs a pooler a new one, if its checkpoint had none."""
    if architecture_of(encoder.config).has_pooled_head and not encoder.config.pooler:
        encoder.add_pooler()


def sums_by_sequence(encoded: Encoded) -> Tensor:
    """(B, D) the sum of the hidden states of each sequence."""
    hidden_ND, batch = in_full_precision(encoded.hidden_ND), encoded.batch
    return sum_rows(hidden_ND, batch.token_sequences, batch.lengths_B.shape[0])


def sum_rows(values_NV: Tensor, group_N: Tensor, groups: int) -> Tensor:
    """(groups, V) the sum of the rows of each group; `group_N` is the group of each row."""
    if torch.onnx.is_in_onnx_export():  # where sums by index are slow, and groups are few
        is_in_GN = group_N == torch.arange(groups)[:, None]
        return is_in_GN.to(values_NV.dtype) @ values_NV
    return values_NV.new_zeros(groups, values_NV.shape[1]).index_add(0, group_N, values_NV)


# ---- layouts


def pad_rows(values: Tensor, lengths_B: Tensor, fill: float) -> Tensor:
    """(N, …) of a packed row as (B, T, …), with `fill` where a sequence is shorter than the longest."""
    counts = lengths_B.tolist()
    return torch.nn.utils.rnn.pad_sequence(list(torch.split(values, counts)), batch_first=True, padding_value=fill)


def on_host(logits: Tensor) -> NDArray[np.float32]:
    """Logits as an array in single precision."""
    array: NDArray[np.float32] = logits.detach().float().cpu().numpy()
    return array


# ---- losses


def one_label_loss(
    logits_KL: Tensor, target_K: Tensor, *, weight_L: Tensor | None = None, smoothing: float = 0.0
) -> ObjectiveLoss:
    """Cross-entropy of one label per term."""
    logits_KL = in_full_precision(logits_KL)
    weight_L = None if weight_L is None else weight_L.to(logits_KL.dtype)
    total = F.cross_entropy(logits_KL, target_K, weight=weight_L, reduction="sum", label_smoothing=smoothing)
    correct = (logits_KL.detach().argmax(dim=-1) == target_K).sum()
    return ObjectiveLoss(total=total, count=len(target_K), tallies={"correct": correct})


def label_set_loss(logits_KL: Tensor, target_KL: Tensor, *, weight_L: Tensor | None = None) -> ObjectiveLoss:
    """Binary cross-entropy of a label set per term, averaged over labels; correct if the whole set is."""
    logits_KL = in_full_precision(logits_KL)
    loss_KL = F.binary_cross_entropy_with_logits(logits_KL, target_KL.to(logits_KL.dtype), reduction="none")
    if weight_L is not None:
        loss_KL = loss_KL * weight_L.to(loss_KL.dtype)
    correct = ((logits_KL.detach() > 0) == (target_KL > 0.5)).all(dim=-1).sum()
    return ObjectiveLoss(total=loss_KL.mean(dim=-1).sum(), count=len(target_KL), tallies={"correct": correct})


def squared_loss(predicted_K: Tensor, target_K: Tensor) -> ObjectiveLoss:
    """Squared error of one number per term; correct within 0.5."""
    predicted_K = in_full_precision(predicted_K)
    distance_K = predicted_K - target_K.to(predicted_K.dtype)
    correct = (distance_K.detach().abs() < 0.5).sum()
    return ObjectiveLoss(total=(distance_K**2).sum(), count=len(target_K), tallies={"correct": correct})


def balanced_weights(counts: Sequence[int]) -> Tensor:
    """(L,) label weights in inverse proportion to their counts; their mean over the examples is 1."""
    counts_L = torch.tensor(counts, dtype=torch.float32).clamp(min=1)
    return counts_L.sum() / (len(counts) * counts_L)


def log_prior(counts: Sequence[int]) -> Tensor:
    """(L,) logarithms of label frequencies, the most frequent at 0: output biases of a head whose labels are rare.

    Where one candidate in hundreds has a label, a new head would otherwise spend its first epochs on learning that
    nearly all have none (the prior of Lin et al. 2017, for several labels).
    """
    counts_L = torch.tensor(counts, dtype=torch.float32).clamp(min=0.5)
    return (counts_L / counts_L.max()).log()


# ---- heads


class MeanHead(nn.Module):
    """Logits from the mean of a sequence, by one linear layer: what a sentence encoder's vectors are made for."""

    def __init__(self, config: EncoderConfig, outputs: int) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.width, outputs)
        init_weights(self.classifier, config.init_std)

    def forward(self, mean_BD: Tensor) -> Tensor:
        """(B, L) logits."""
        return self.classifier(self.dropout(mean_BD))  # type: ignore[no-any-return]


class SequenceTaskHead(Head):
    """A sequence head with a loss: transformers' on [CLS], or a linear layer on the mean; a sample is one sequence."""

    weight_L: Tensor | None

    def __init__(
        self,
        encoder: Encoder,
        predicts: Literal["label", "labels", "score"],
        labels: tuple[str, ...] = (),
        *,
        pooling: Pooling = "first",
        smoothing: float = 0.0,
        weight_L: Tensor | None = None,
    ) -> None:
        """`predicts` is also the name of the target; without `labels` for a score."""
        super().__init__()
        if pooling == "first":
            add_pooler(encoder)
        outputs = len(labels) or 1
        self.layer = (MeanHead if pooling == "mean" else SequenceHead)(encoder.config, outputs)
        self.predicts, self.labels, self.smoothing = predicts, labels, smoothing
        self.last = pools_last_token(encoder.config)
        self.register_buffer("weight_L", weight_L, persistent=False)

    @property
    @override
    def standard(self) -> StandardHead | None:
        """None on the mean, which transformers' heads do not take."""
        if isinstance(self.layer, MeanHead):
            return None
        return StandardHead(kind="sequence", layer=self.layer, labels=self.labels)

    @property
    @override
    def uses_pooler(self) -> bool:
        return isinstance(self.layer, SequenceHead) and self.layer.on_pooled

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(S, L) logits, or (S, 1) scores."""
        if isinstance(self.layer, MeanHead):
            mean_BD = sums_by_sequence(encoded) / encoded.batch.lengths_B[:, None]
            return self.layer(mean_BD.to(encoded.hidden_ND.dtype))  # type: ignore[no-any-return]
        return self.layer(pool_tokens(encoded, last=self.last), encoded.pooled_BD)  # type: ignore[no-any-return]

    @override
    def loss(self, logits_SL: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        """Cross-entropy of a label or a label set, or the squared error of a score."""
        target = batch.targets[self.predicts]
        if self.predicts == "score":
            return squared_loss(logits_SL.squeeze(-1), target)
        if self.predicts == "labels":
            return label_set_loss(logits_SL, target, weight_L=self.weight_L)
        return one_label_loss(logits_SL, target, weight_L=self.weight_L, smoothing=self.smoothing)

    @override
    def split(self, logits_SL: Tensor, batch: TensorBatch) -> list[NDArray[np.float32]]:
        """(L,) per sample."""
        return by_row(on_host(logits_SL), batch.batch)


class BiHead(Head):
    """The cosine of the two texts' vectors; without weights."""

    @override
    def graphs(self) -> dict[str, HeadGraph]:
        return {LOGITS: HeadGraph(compute=self, examples={"side": torch.tensor([0, 1])})}

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(S,) cosines; the feature `side` is 0 or 1 for sequences of the first or the second text."""
        sums_BD, batch = sums_by_sequence(encoded), encoded.batch
        text_B = 2 * batch.sequence_samples + batch.features["side"]
        texts_TD = sum_rows(sums_BD, text_B, 2 * len(batch.batch.samples))
        return F.cosine_similarity(texts_TD[0::2], texts_TD[1::2], dim=-1)

    @override
    def loss(self, cosine_S: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        """Squared distance of the cosine from the score, scaled to 0 to 1."""
        return squared_loss(cosine_S, batch.targets["score"])

    @override
    def split(self, cosine_S: Tensor, batch: TensorBatch) -> list[NDArray[np.float32]]:
        """() per sample."""
        return by_row(on_host(cosine_S), batch.batch)


class AuxiliaryLMHead(Head):
    """A sequence head with GPT's auxiliary loss (Radford et al. 2018), on a causal encoder.

    The loss of a sample is that of its label plus `weight` times the mean cross-entropy of its tokens, each predicted
    from those before it. Only training changes; predictions are the inner head's.
    """

    def __init__(self, inner: SequenceTaskHead, encoder: Encoder, weight: float) -> None:
        super().__init__()
        if not encoder.config.causal:
            cause = f"auxiliary_lm needs a causal encoder; {encoder.config.architecture} is bidirectional"
            raise ConfigError(cause, fix="use auxiliary_lm=0")
        self.inner, self.weight = inner, weight
        self.language_model = CausalLMHead(encoder.config)

    @property
    @override
    def uses_pooler(self) -> bool:
        return self.inner.uses_pooler

    @override
    def forward(self, encoded: Encoded) -> tuple[Tensor, Encoded]:
        """(S, L) the inner head's logits, and the hidden states that the next tokens are predicted from."""
        return self.inner(encoded), encoded

    @override
    def loss(self, logits: tuple[Tensor, Encoded], batch: TensorBatch) -> ObjectiveLoss:
        """The sum over samples of both losses; the accuracy is the inner head's."""
        logits_SL, encoded = logits
        inner = self.inner.loss(logits_SL, batch)
        total = inner.total + self.weight * self._token_loss(encoded)
        return ObjectiveLoss(total=total, count=inner.count, tallies=inner.tallies)

    def _token_loss(self, encoded: Encoded) -> Tensor:
        """() the mean over the tokens of each sample, summed over samples, so that batching does not change weights."""
        assert encoded.word_table_VE is not None, "a causal encoder has one"
        lengths = encoded.batch.lengths_B.tolist()
        hidden, ids = torch.split(encoded.hidden_ND, lengths), torch.split(encoded.batch.input_ids_N, lengths)
        total = encoded.hidden_ND.new_zeros((), dtype=torch.float32)
        for hidden_TD, ids_T in zip(hidden, ids, strict=True):
            if len(ids_T) > 1:
                loss = causal_lm_loss(self.language_model, hidden_TD[:-1], encoded.word_table_VE, ids_T[1:])
                total = total + loss.total / loss.count
        return total

    @override
    def split(self, logits: tuple[Tensor, Encoded], batch: TensorBatch) -> list[NDArray[np.float32]]:
        return self.inner.split(logits[0], batch)
