"""Compact weights: exact where they promise to be, close where they cannot be, and refused where they are damaged."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

import spanlab
from spanlab.encoder import (
    EncoderConfig,
    MaskedLMHead,
    SpanBoundaryHead,
    TransformerEncoder,
    load_model,
    preset,
    save_model,
)
from spanlab.encoder.pretrained import compact, tensor_files
from spanlab.errors import SpanlabError, WeightsError
from tests.cli.run import run_here

FLOATS = st.one_of(
    st.floats(-3, 3, width=32),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from([0.0, -0.0, 1e-45, 1.17e-38, 1.4925e-36, 1.4926e-36, 3.4028234e38, -3.4028234e38, 65504.0]),
)
ROWS = 64
COLUMNS = 64


@st.composite
def matrices(draw: st.DrawFn) -> Tensor:
    """Large enough to be packed: rows of any numbers, rows of zeros, and rows of one size each from 1e-45 to 1e38."""
    drawn = draw(arrays(np.float32, (8, COLUMNS), elements=FLOATS, fill=FLOATS))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    with np.errstate(under="ignore"):
        sizes = (10.0 ** random.uniform(-45, 37, (ROWS - 10, 1))).astype(np.float32)
        others = (random.standard_normal((ROWS - 10, COLUMNS)) * sizes).astype(np.float32)
    zeros = np.zeros((2, COLUMNS), np.float32)
    return torch.from_numpy(np.concatenate([drawn, zeros, np.clip(others, -3.4e38, 3.4e38)]))


@settings(max_examples=150, deadline=None)
@given(matrices())
def test_what_is_restored_packs_to_the_same_bits(weight: Tensor) -> None:
    packed = compact.pack({"w": weight})
    assert set(packed) == {"w.int8", "w.scale"}
    restored = compact.unpack(packed, Path("x"))["w"]
    assert restored.dtype is torch.float32
    assert restored.isfinite().all()
    again = compact.pack({"w": restored})
    assert torch.equal(again["w.int8"], packed["w.int8"])
    assert torch.equal(again["w.scale"].view(torch.int32), packed["w.scale"].view(torch.int32))
    assert torch.equal(compact.unpack(again, Path("x"))["w"].view(torch.int32), restored.view(torch.int32))


@settings(max_examples=50, deadline=None)
@given(matrices())
def test_a_weight_is_off_by_half_a_step_of_its_row_at_most(weight: Tensor) -> None:
    restored = compact.unpack(compact.pack({"w": weight}), Path("x"))["w"].double()
    largest = weight.double().abs().amax(1, keepdim=True)
    step = largest / 127
    allowed = torch.where(largest < 1.5e-36, largest, 0.503 * step)  # the scale has 17 bits; tiny rows become zero
    assert ((restored - weight.double()).abs() <= allowed).all()


def test_small_tensors_and_other_types_are_kept() -> None:
    tensors = {
        "bias": torch.randn(9000),
        "narrow": torch.randn(2000, 8),
        "small": torch.randn(30, 30),
        "half": torch.randn(7).half(),
        "characters": torch.arange(5000).view(50, 100),
    }
    packed = compact.pack(tensors)
    assert set(packed) == set(tensors)
    assert all(torch.equal(packed[name], tensor.to(packed[name].dtype)) for name, tensor in tensors.items())
    assert packed["half"].dtype is torch.float32


def test_axes_after_the_first_are_columns() -> None:
    weight = torch.randn(64, 4, 32)
    packed = compact.pack({"w": weight})
    assert packed["w.int8"].shape == weight.shape
    assert packed["w.scale"].shape == (64,)
    assert torch.allclose(compact.unpack(packed, Path("x"))["w"], weight, atol=0.03)


def test_weights_that_are_not_finite_are_not_packed() -> None:
    for value in (torch.nan, torch.inf):
        weight = torch.randn(64, 64)
        weight[3, 4] = value
        with pytest.raises(WeightsError, match="weight 'w' is not finite"):
            compact.pack({"w": weight})


@pytest.fixture(scope="module")
def span_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SpanBERT on ModernBERT's architecture with both heads, briefly trained on a sentence."""
    folder = tmp_path_factory.mktemp("span") / "model"
    torch.manual_seed(1)
    config = preset("modernbert", "tiny", vocab_size=300)
    encoder = TransformerEncoder(config)
    heads = {"mlm": MaskedLMHead(config), "sbo": SpanBoundaryHead(config.width, 300)}
    optimiser = torch.optim.AdamW([*encoder.parameters(), *heads["mlm"].parameters()], lr=1e-3)
    ids_BT = torch.randint(5, 300, (4, 32))
    for _ in range(30):
        masked_BT = ids_BT.where(torch.rand(ids_BT.shape) > 0.15, 4)
        logits_NV = heads["mlm"](encoder(masked_BT).hidden.flatten(0, 1), encoder.word_table)
        torch.nn.functional.cross_entropy(logits_NV, ids_BT.flatten()).backward()
        optimiser.step()
        optimiser.zero_grad()
    save_model(folder, encoder, heads, system="spanbert")
    return folder


def convert(source: Path, out: Path, *options: str) -> Path:
    done = run_here("convert", str(source), "--out", str(out), *options)
    assert done.returncode == 0, done.stderr
    return out


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def mlm_log_probabilities(folder: Path) -> Tensor:
    model = load_model(folder)
    torch.manual_seed(5)
    ids_BT = torch.randint(5, 300, (2, 24))
    with torch.no_grad():
        hidden_ND = model.encoder.eval()(ids_BT).hidden.flatten(0, 1)
        return model.heads["mlm"].eval()(hidden_ND, model.encoder.word_table).log_softmax(-1)


def test_a_compact_folder_is_a_quarter_and_predicts_nearly_the_same(span_model: Path, tmp_path: Path) -> None:
    small = convert(span_model, tmp_path / "small", "--compact")
    for name in ("model.safetensors", "heads.safetensors"):
        assert (small / name).stat().st_size < 0.32 * (span_model / name).stat().st_size
    before, after = mlm_log_probabilities(span_model), mlm_log_probabilities(small)
    divergence = (before.exp() * (before - after)).sum(-1)
    assert not torch.equal(before, after)
    assert divergence.max() < 0.01
    assert (before.argmax(-1) == after.argmax(-1)).float().mean() > 0.95


def test_compact_to_fp32_to_compact_gives_the_same_bytes(span_model: Path, tmp_path: Path) -> None:
    small = convert(span_model, tmp_path / "small", "--compact")
    full = convert(small, tmp_path / "full")
    assert files(convert(full, tmp_path / "again", "--compact")) == files(small)
    assert files(convert(small, tmp_path / "third", "--compact")) == files(small)
    for name, tensor in load_model(full).encoder.state_dict().items():
        assert torch.equal(tensor, load_model(small).encoder.state_dict()[name]), name
    # The folder in fp32 is as any other: it says nothing of the form its weights once had.
    assert {name for name in files(full) if not name.endswith(".safetensors")} == {
        name for name in files(span_model) if not name.endswith(".safetensors")
    }
    assert json.loads((full / "spanlab.json").read_text()) == json.loads((span_model / "spanlab.json").read_text())


def test_the_files_say_what_they_are(span_model: Path, tmp_path: Path) -> None:
    small = convert(span_model, tmp_path / "small", "--compact")
    for name in ("model.safetensors", "heads.safetensors"):
        with safe_open(small / name, framework="pt") as file:
            assert file.metadata() == {"format": compact.FORMAT}
    described = json.loads((small / "spanlab.json").read_text())
    assert (described["weights"], described["system"]) == ("int8", "spanbert")


@pytest.mark.parametrize("name", ["bert", "gpt2", "xlnet", "albert"])
def test_every_architecture_and_a_foreign_folder(name: str, tmp_path: Path) -> None:
    encoder = spanlab.Encoder.from_config(preset(name, "tiny", vocab_size=300))
    save_model(tmp_path / "model", encoder)
    (tmp_path / "model" / "spanlab.json").unlink()
    small = convert(tmp_path / "model", tmp_path / "small", "--compact")
    full = convert(small, tmp_path / "full")
    assert files(convert(full, tmp_path / "again", "--compact")) == files(small)
    loaded = spanlab.Encoder.from_pretrained(small)
    for key, tensor in encoder.state_dict().items():
        assert torch.allclose(loaded.state_dict()[key], tensor, atol=float(tensor.abs().max()) / 200), key


def test_fp16_weights_become_fp32(tiny_model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "half")
    tensors = {name: tensor.half() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    model = load_model(folder)
    weights = [*model.encoder.parameters(), *model.heads["mlm"].parameters()]
    assert {weight.dtype for weight in weights} == {torch.float32}
    small = convert(folder, tmp_path / "small", "--compact")
    assert {tensor.dtype for tensor in load_file(small / "model.safetensors").values()} == {torch.float32, torch.int8}


def test_a_fine_tuned_model_and_its_labels_stay(tiny_model: Path, tmp_path: Path) -> None:
    train = tmp_path / "train.tsv"
    train.write_text("text\tlabel\n" + "a fine day\tgood\na dull day\tbad\n" * 8)
    run = spanlab.finetune(
        "classification",
        model=tiny_model,
        train=train,
        dev=train,
        out=tmp_path / "run",
        training={"steps": 2, "threads": 1, "precision": "fp32", "device": "cpu"},
    )
    (expected,) = spanlab.load(run.folder, device="cpu", precision="fp32").predict(["a fine day"])
    for name, options in (("small", ["--compact"]), ("full", [])):
        folder = convert(run.folder, tmp_path / name, *options)
        (found,) = spanlab.load(folder, device="cpu", precision="fp32").predict(["a fine day"])
        assert set(found.to_dict()["scores"]) == {"good", "bad"}
        assert found.to_dict()["scores"]["good"] == pytest.approx(expected.to_dict()["scores"]["good"], abs=0.02)


def _edit(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path, {"format": compact.FORMAT})

    return damage


def _set(name: str, make: Callable[[Tensor], Tensor]) -> Callable[[Path], None]:
    return _edit(lambda tensors: tensors.__setitem__(name, make(tensors[name]).contiguous()))


W = "bert.embeddings.word_embeddings.weight"
DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "no scale": (_edit(lambda t: t.pop(f"{W}.scale")), f"the scale of weight '{W}' is missing"),
    "no integers": (_edit(lambda t: t.pop(f"{W}.int8")), f"'{W}.scale' is the scale of a weight that is not there"),
    "twice": (_edit(lambda t: t.update({W: torch.zeros(3)})), f"weight '{W}' is there twice"),
    "short scale": (_set(f"{W}.scale", lambda t: t[:-1]), "each row has one scale"),
    "wide scale": (_set(f"{W}.scale", lambda t: t[:, None]), "each row has one scale"),
    "flat integers": (_set(f"{W}.int8", lambda t: t.flatten()), "each row has one scale"),
    "NaN scale": (_set(f"{W}.scale", lambda t: t * torch.nan), "must be positive and finite"),
    "infinite scale": (_set(f"{W}.scale", lambda t: t * torch.inf), "must be positive and finite"),
    "negative scale": (_set(f"{W}.scale", lambda t: -t), "must be positive and finite"),
    "half scale": (_set(f"{W}.scale", lambda t: t.half()), "are of types int8 and float16, which must be int8 and"),
    "bytes": (_set(f"{W}.int8", lambda t: t.view(torch.uint8)), "are of types uint8 and float32"),
    "overflow": (_set(f"{W}.scale", lambda t: t * 0 + 3e38), "is not finite"),
    "other width": (_set(f"{W}.int8", lambda t: t[:, 1:]), "but the config says"),
    "newer": (
        lambda path: save_file(load_file(path), path, {"format": "spanlab-int4-1"}),
        "the weights have the format 'spanlab-int4-1', which this SpanLab does not read; use a newer SpanLab",
    ),
    "unmarked": (lambda path: save_file(load_file(path), path, {"format": "pt"}), "missing weights"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(name: str, tiny_model: Path, tmp_path: Path) -> None:
    folder = convert(tiny_model, tmp_path / "small", "--compact")
    damage, message = DAMAGE[name]
    damage(folder / "model.safetensors")
    with pytest.raises(SpanlabError, match=message) as caught:
        load_model(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_our_own_encoders_are_made_compact(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.DistilBertConfig(vocab_size=300, dim=64, n_layers=1, n_heads=2, hidden_dim=64)
    transformers.DistilBertModel(config).save_pretrained(tmp_path / "model")
    done = run_here("convert", str(tmp_path / "model"), "--out", str(tmp_path / "out"), "--compact")
    assert done.returncode == 2
    assert "transformers computes this model, and cannot read compact weights; leave out --compact" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_discriminator_keeps_its_generator(tmp_path: Path) -> None:
    from spanlab.encoder.discriminator import Electra

    config = EncoderConfig(vocab_size=300, width=64, layers=1, heads=2, inner_width=128, max_positions=64)
    Electra.build(config).save_pretrained(tmp_path / "model")
    small = convert(tmp_path / "model", tmp_path / "small", "--compact")
    assert Electra.from_pretrained(small).share_embeddings
    with safe_open(small / "generator" / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": compact.FORMAT}
    full = convert(small, tmp_path / "full")
    assert files(convert(full, tmp_path / "again", "--compact")) == files(small)


def test_a_card_comes_along_and_does_not_replace_another(span_model: Path, tmp_path: Path) -> None:
    source = shutil.copytree(span_model, tmp_path / "source")
    (source / "README.md").write_text("# Of the run\n")
    small = convert(source, tmp_path / "small", "--compact")
    assert (small / "README.md").read_text() == "# Of the run\n"
    (small / "README.md").write_text("# My own\n")
    convert(source, small, "--compact", "--overwrite")
    assert (small / "README.md").read_text() == "# My own\n"


def test_heads_of_a_model_that_is_replaced_do_not_stay(span_model: Path, tmp_path: Path) -> None:
    save_model(tmp_path / "bare", TransformerEncoder(preset("modernbert", "tiny", vocab_size=300)))
    assert not (tmp_path / "bare" / "heads.safetensors").exists()
    out = convert(span_model, tmp_path / "out")
    convert(tmp_path / "bare", out, "--overwrite")
    assert load_model(out).heads == {}


def test_reading_and_writing_one_file(tmp_path: Path) -> None:
    tensors = {"w": torch.randn(64, 100), "b": torch.randn(64)}
    tensor_files.write_file(tmp_path / "a.safetensors", tensors, compact=True)
    once = tensor_files.read_file(tmp_path / "a.safetensors")
    tensor_files.write_file(tmp_path / "b.safetensors", once, compact=True)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert torch.equal(once["b"], tensors["b"])
