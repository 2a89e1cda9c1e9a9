"""XLNet compared with transformers in one run: a training step, and permutation masks.

    python -m benchmarks.xlnet [steps|masks] [--rounds 5]

Steps: 4 layers x 256, vocabulary 32,000, length 256, batch 16, one token in six predicted (K = 6), fused AdamW,
published dropout (0.1) on both sides; fp32 and bf16 autocast. transformers runs twice: with a target mapping of the
predicted positions only ("gathered", the best that its model allows), and as its own collator has it ("collator": an
identity mapping, labels -100 where nothing is predicted).

Masks: 64 blocks of 512 tokens by the published scheme, n-grams of whole words in two halves, 85 predicted tokens a
block, from (seed, epoch, index) to the (64, 512, 512) masks, against transformers'
DataCollatorForPermutationLanguageModeling on the same tokens. Ours is also measured without building the masks, as in
training: two numbers per token encode the same.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from torch import Tensor, nn

from benchmarks.encoder import TrainingStep
from benchmarks.measure import Ratio, circumstances, print_result, rounds_in_turn
from spanlab.corruption import Permutation, PermutationConfig, permute
from spanlab.encoder import XLNetEncoder, preset
from spanlab.objectives import project
from spanlab.text.special_tokens import SYSTEMS
from spanlab.training.malloc import keep_freed_memory

VOCAB, BATCH, LENGTH, PREDICTED = 32_000, 16, 256, 256 // 6
MASKED_BLOCKS, MASKED_LENGTH = 64, 512


def peer() -> nn.Module:
    """The same shape as a transformers config."""
    config = transformers.XLNetConfig(vocab_size=VOCAB, d_model=256, n_layer=4, n_head=4, d_inner=1024, dropout=0.1)
    return transformers.XLNetLMHeadModel(config).train()  # type: ignore[no-any-return]


def training_steps(precision: str) -> dict[str, Callable[[], None]]:
    """The same order and the same predicted positions for all."""
    torch.manual_seed(0)
    ids_BT = torch.randint(10, VOCAB, (BATCH, LENGTH))
    rank_BT = torch.rand(BATCH, LENGTH).argsort().argsort()
    visible_BTT = rank_BT[:, None, :] < rank_BT[:, :, None]
    predicted_BT = rank_BT >= LENGTH - PREDICTED
    places_BK = predicted_BT.nonzero()[:, 1].view(BATCH, PREDICTED)
    targets_BK = ids_BT.gather(1, places_BK)
    hidden_BTT = (~visible_BTT).float()
    gathered_BKT = torch.zeros(BATCH, PREDICTED, LENGTH).scatter_(2, places_BK[..., None], 1.0)
    identity_BTT = torch.eye(LENGTH).expand(BATCH, LENGTH, LENGTH).contiguous()
    labels_BT = ids_BT.where(predicted_BT, -100)
    encoder = XLNetEncoder(preset("xlnet", "mini")).train()
    bias_V = nn.Parameter(torch.zeros(VOCAB))
    ours = nn.ModuleDict({"encoder": encoder, "head": nn.ParameterList([bias_V])})
    theirs, collated = peer(), peer()

    def our_loss() -> Tensor:
        read = encoder.read(ids_BT, visible_BTT=visible_BTT, positions_BK=places_BK)
        assert read.predicted_BKD is not None
        features_KD = read.predicted_BKD.flatten(0, 1)
        return project(features_KD, encoder.word_table, bias_V, targets_BK.flatten()).total / targets_BK.numel()

    def their_loss() -> Tensor:
        return theirs(ids_BT, perm_mask=hidden_BTT, target_mapping=gathered_BKT, labels=targets_BK).loss  # type: ignore[no-any-return]

    def collated_loss() -> Tensor:
        return collated(ids_BT, perm_mask=hidden_BTT, target_mapping=identity_BTT, labels=labels_BT).loss  # type: ignore[no-any-return]

    return {
        "spanlab": TrainingStep(ours, our_loss, precision),
        "gathered": TrainingStep(theirs, their_loss, precision),
        "collator": TrainingStep(collated, collated_loss, precision),
    }


def measure_steps(rounds: int) -> list[Ratio]:
    """How many of our steps fit in one of theirs."""
    what = f"XLNet training step, 4 layers x 256, length {LENGTH}, one token in six"
    peers = {
        "collator": "transformers with its own collator",
        "gathered": "transformers with predicted positions gathered by hand",
    }
    ratios = []
    for precision in ("fp32", "bf16"):
        seconds = rounds_in_turn(training_steps(precision), rounds)
        ratios += [
            Ratio.of(seconds["spanlab"], seconds[name], what=what, variant=precision, peer=peer, headline=True)
            for name, peer in peers.items()
        ]
        told = ", ".join(f"{name} {min(times) * 1e3:.0f} ms" for name, times in seconds.items())
        print(f"{precision}: {told}", flush=True)
    return ratios


def mask_makers() -> dict[str, Callable[[], object]]:
    """Both on the same 64 blocks; a new epoch, and so new orders, at every call."""
    generator = np.random.default_rng(0)
    vocabulary = {token: number for number, token in enumerate(SYSTEMS["xlnet"].tokens)}
    vocabulary |= {f"w{number}": number for number in range(len(vocabulary), VOCAB)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    names = {"unk_token": "<unk>", "sep_token": "<sep>", "cls_token": "<cls>", "pad_token": "<pad>"}
    peer_tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, mask_token="<mask>", **names)
    collator = transformers.DataCollatorForPermutationLanguageModeling(peer_tokenizer)
    ids_BT = generator.integers(10, VOCAB, (MASKED_BLOCKS, MASKED_LENGTH))
    ids_BT[:, -2:] = [vocabulary["<sep>"], vocabulary["<cls>"]]
    rows = ids_BT.tolist()
    text_BT = np.ones(ids_BT.shape, bool)
    text_BT[:, -2:] = False
    word_starts_BT = text_BT & (generator.random(ids_BT.shape) < 0.75)
    config, indices, epoch = PermutationConfig(), np.arange(MASKED_BLOCKS), iter(range(1 << 30))
    parts = (MASKED_LENGTH // 2, MASKED_LENGTH // 2)

    def order() -> Permutation:
        return permute(text_BT, word_starts_BT, config, parts=parts, indices=indices, seed=0, epoch=next(epoch))

    return {"order": order, "masks": lambda: order().visible(), "transformers": lambda: collator(rows)}


def measure_masks(rounds: int) -> list[Ratio]:
    """How many of our batches of masks fit in one of theirs."""
    keep_freed_memory()
    seconds = rounds_in_turn(mask_makers(), rounds)
    print(", ".join(f"{name} {min(times) * 1e3:.1f} ms" for name, times in seconds.items()), flush=True)
    named: dict[str, Any] = {
        "what": f"XLNet prediction orders, {MASKED_BLOCKS} blocks of {MASKED_LENGTH}",
        "peer": "transformers' permutation collator",
        "headline": True,
    }
    variants = {"order": "", "masks": "as dense masks"}
    return [
        Ratio.of(seconds[name], seconds["transformers"], variant=variant, **named) for name, variant in variants.items()
    ]


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("steps", "masks"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    about = circumstances()
    print(about)
    ratios: list[Ratio] = []
    if arguments.part in {None, "steps"}:
        ratios += measure_steps(arguments.rounds)
    if arguments.part in {None, "masks"}:
        ratios += measure_masks(2 * arguments.rounds)
    print_result(about, ratios)


if __name__ == "__main__":
    main()
