"""Tiny random transformers models of every architecture, and how their body and logits are reached."""

from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

SHAPE = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
DRY = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
MODERN = {"local_attention": 8, "max_position_embeddings": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GPT = {"n_embd": 32, "n_layer": 3, "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
VOCAB = 83
LENGTH = 24


@dataclass(frozen=True)
class Case:
    """One architecture: its config, its classes, the heads those hold, and what its input may have."""

    config: Any
    classes: dict[str, tuple[str, ...]]
    segments: bool = False
    pad_id: int = 0

    def build(self, class_name: str) -> Any:
        """A random model of one of the classes; norms and biases too are drawn, so that a swap would show."""
        model = getattr(hf, class_name)(self.config)
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter + 0.1 * torch.randn(parameter.shape, generator=generator))
        return model

    def batch(self, batch_size: int = 5) -> tuple[Tensor, Tensor]:
        """Ids and mask, ragged, padded on the right."""
        generator = torch.Generator().manual_seed(3)
        ids = torch.randint(4, VOCAB, (batch_size, LENGTH), generator=generator)
        lengths = torch.tensor([LENGTH, 7, 1, 7, 18])[:batch_size]
        mask = (torch.arange(LENGTH) < lengths[:, None]).long()
        return ids.where(mask.bool(), self.pad_id), mask


def bert_like(config_class: Any, **changes: Any) -> Any:
    return config_class(**{"vocab_size": VOCAB, "max_position_embeddings": 40, **SHAPE, **DRY, **changes})


CASES: dict[str, Case] = {
    "bert": Case(
        bert_like(hf.BertConfig),
        {"BertModel": (), "BertForMaskedLM": ("mlm",), "BertForPreTraining": ("mlm", "nsp")},
        segments=True,
    ),
    "bert-untied": Case(bert_like(hf.BertConfig, tie_word_embeddings=False), {"BertForMaskedLM": ("mlm",)}),
    "roberta": Case(
        bert_like(hf.RobertaConfig, type_vocab_size=1, pad_token_id=1),
        {"RobertaModel": (), "RobertaForMaskedLM": ("mlm",)},
        pad_id=1,
    ),
    "albert": Case(
        bert_like(hf.AlbertConfig, embedding_size=16, hidden_act="gelu_new", classifier_dropout_prob=0.0),
        {"AlbertModel": (), "AlbertForMaskedLM": ("mlm",), "AlbertForPreTraining": ("mlm", "sop")},
        segments=True,
    ),
    "albert-groups": Case(
        bert_like(hf.AlbertConfig, embedding_size=16, num_hidden_groups=2, inner_group_num=2),
        {"AlbertModel": ()},
        segments=True,
    ),
    "electra": Case(
        bert_like(hf.ElectraConfig, embedding_size=16),
        {"ElectraModel": (), "ElectraForMaskedLM": ("mlm",), "ElectraForPreTraining": ("rtd",)},
        segments=True,
    ),
    "electra-wide": Case(bert_like(hf.ElectraConfig, embedding_size=32), {"ElectraModel": ()}, segments=True),
    "modernbert": Case(
        hf.ModernBertConfig(vocab_size=VOCAB, cls_token_id=1, sep_token_id=2, **MODERN, **SHAPE),
        {"ModernBertModel": (), "ModernBertForMaskedLM": ("mlm",)},
    ),
    "modernbert-biases": Case(
        hf.ModernBertConfig(
            vocab_size=VOCAB,
            cls_token_id=1,
            sep_token_id=2,
            global_attn_every_n_layers=2,
            attention_bias=True,
            mlp_bias=True,
            norm_bias=True,
            hidden_activation="silu",
            tie_word_embeddings=False,
            **MODERN,
            **SHAPE,
        ),
        {"ModernBertForMaskedLM": ("mlm",)},
    ),
    "gpt2": Case(
        hf.GPT2Config(vocab_size=VOCAB, n_positions=40, bos_token_id=1, eos_token_id=2, **GPT),
        {"GPT2Model": (), "GPT2LMHeadModel": ("clm",)},
    ),
    "openai-gpt": Case(
        hf.OpenAIGPTConfig(vocab_size=VOCAB, n_positions=40, **GPT),
        {"OpenAIGPTModel": (), "OpenAIGPTLMHeadModel": ("clm",)},
    ),
    "xlnet": Case(
        hf.XLNetConfig(vocab_size=VOCAB, d_model=32, n_layer=3, n_head=4, d_inner=64, dropout=0.0, mem_len=10),
        {"XLNetModel": (), "XLNetLMHeadModel": ("plm",)},
        segments=True,
        pad_id=5,
    ),
    "xlnet-untied": Case(
        hf.XLNetConfig(
            vocab_size=VOCAB,
            d_model=32,
            n_layer=2,
            n_head=2,
            d_inner=48,
            dropout=0.0,
            ff_activation="relu",
            clamp_len=6,
            mem_len=None,
            tie_word_embeddings=False,
        ),
        {"XLNetLMHeadModel": ("plm",)},
        segments=True,
        pad_id=5,
    ),
}

PAIRS = [(name, class_name) for name, case in CASES.items() for class_name in case.classes]


def body_of(model: Any) -> nn.Module:
    """The model without its heads."""
    return model.base_model  # type: ignore[no-any-return]
