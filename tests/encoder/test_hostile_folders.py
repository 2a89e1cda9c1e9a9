"""Model folders that nobody vouches for: loading ends in success or one typed line, soon, and without taking memory."""

import json
import pickle
import random
import resource
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from spanlab.encoder import (
    Electra,
    Encoder,
    MaskedLMHead,
    SpanBoundaryHead,
    TransformerEncoder,
    build_encoder,
    elmo_preset,
    load_model,
    preset,
    save_model,
)
from spanlab.encoder.pretrained.spanbert_release import read_spanbert_release
from spanlab.errors import LoadWarning, SpanlabError, WeightsError
from tests.cli.run import run_spanlab

HUGE = 10**9


@contextmanager
def bounded(seconds: float = 5.0, memory: int = 1 << 29) -> Iterator[None]:
    """At most `memory` bytes more than now, and done in `seconds`, which is generous: milliseconds are usual."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, before[1]))
    start = time.process_time()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert time.process_time() - start < seconds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "model", TransformerEncoder(preset("bert", "tiny", vocab_size=41)))


def write(folder: Path, encoder: Encoder) -> Path:
    config = encoder.config
    heads = {"mlm": MaskedLMHead(config), "sbo": SpanBoundaryHead(config.width, config.vocab_size)}
    save_model(folder, encoder, heads)
    return folder


def edit(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **changes}))


def edit_weights(path: Path, **changes: Any) -> None:
    """Replace tensors, given by names with two underscores for dots; None removes one."""
    tensors = load_file(path)
    for key, change in changes.items():
        name = key.replace("__", ".")
        tensors[name] = change(tensors[name]) if callable(change) else change
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path)


CONFIG: dict[str, tuple[dict[str, Any], str]] = {
    "wide": ({"hidden_size": 1_280_000, "num_attention_heads": 1}, "'hidden_size' is 1280000; it must be"),
    "as wide as allowed": ({"hidden_size": 65_536, "intermediate_size": 10**6}, "but the config says"),
    "widest": ({"hidden_size": HUGE}, "'hidden_size' is 1000000000"),
    "deep": ({"num_hidden_layers": 10**5}, "'num_hidden_layers' is 100000; it must be at least 1 and at most 1000"),
    "as deep as allowed": ({"num_hidden_layers": 1000}, "1,000 layers with weights of their own, and the file has"),
    "vocabulary": ({"vocab_size": 3_000_000}, "has shape .41, 128., but the config says .3000000, 128."),
    "larger vocabulary": ({"vocab_size": HUGE}, "'vocab_size' is 1000000000"),
    "inner": ({"intermediate_size": 10**6}, "but the config says"),
    "positions": ({"max_position_embeddings": HUGE}, "'max_position_embeddings' is 1000000000"),
    "more positions": ({"max_position_embeddings": 10**7}, "but the config says"),
    "segments": ({"type_vocab_size": HUGE}, "'type_vocab_size' is 1000000000"),
    "no segments": ({"type_vocab_size": -1}, "'type_vocab_size' is -1"),
    "no eps": ({"layer_norm_eps": 0.0}, "'layer_norm_eps' is 0.0; it must be above 0"),
    "negative eps": ({"layer_norm_eps": -1}, "'layer_norm_eps' is -1"),
    "eps": ({"layer_norm_eps": 10}, "'layer_norm_eps' is 10"),
    "eps nan": ({"layer_norm_eps": float("nan")}, "NaN|'layer_norm_eps' is nan"),
    "std nan": ({"initializer_range": float("nan")}, "NaN|'initializer_range' is nan"),
    "dropout": ({"hidden_dropout_prob": 1.0}, "'hidden_dropout_prob' is 1.0"),
    "dropout below": ({"attention_probs_dropout_prob": -0.1}, "'attention_probs_dropout_prob' is -0.1"),
    "padding": ({"pad_token_id": 41}, "'pad_token_id' is 41, outside the vocabulary of 41 tokens"),
    "padding below": ({"pad_token_id": -1}, "'pad_token_id' is -1"),
    "text for a number": ({"hidden_size": "128"}, "'hidden_size' is '128'; it must be a whole number"),
    "list for a number": ({"num_hidden_layers": [2]}, "'num_hidden_layers' is"),
    "object for a number": ({"vocab_size": {}}, "'vocab_size' is"),
    "true for a number": ({"num_attention_heads": True}, "'num_attention_heads' is True"),
    "no number": ({"vocab_size": None}, "'vocab_size' is None"),
    "activation": ({"hidden_act": 5}, "unknown activation '5'"),
    "classes": ({"architectures": 5}, "'architectures' is 5; it must be a list of class names"),
    "class": ({"architectures": [5]}, "'architectures' is"),
    "another type": (
        {"model_type": "electra"},
        "'model_type' is 'electra', but the model was saved as BertForMaskedLM",
    ),
    "another type yet": ({"model_type": "roberta"}, "'model_type' is 'roberta', but"),
    "type of another kind": ({"model_type": ["bert"]}, "'model_type' is missing"),
    "quantised": ({"quantization_config": {"load_in_8bit": True}}, "'quantization_config' is"),
    "rotary": ({"rotary_emb_fraction": 1.0}, "'rotary_emb_fraction' is 1.0, which SpanLab's encoder does not have"),
}
DESCRIPTION: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"format_version": "1"}, "'format_version' is '1'"),
    "no version": ({"format_version": None}, "'format_version' is None"),
    "version 0": ({"format_version": 0}, "'format_version' is 0"),
    "training": ({"training": 5}, "'training' is 5"),
    "training key": ({"training": {"x": 1}}, "unknown key 'x'"),
    "training type": ({"training": {"stochastic_depth": "a"}}, "'stochastic_depth' is 'a'"),
    "heads": ({"heads": 5}, "'heads' is 5"),
    "settings": ({"head_settings": []}, "'head_settings' is"),
    "settings of a head": ({"head_settings": {"sbo": 5}}, "'head_settings.sbo' is 5"),
    "span": ({"head_settings": {"sbo": {"max_span": HUGE}}}, "'max_span' is 1000000000; it must be"),
    "width": ({"head_settings": {"sbo": {"position_width": HUGE}}}, "'position_width' is 1000000000; it must be"),
    "system": ({"system": 5}, "'system' is 5"),
}
NAN, INFINITY = float("nan"), float("inf")
QUERY = "bert__encoder__layer__0__attention__self__query__weight"
WEIGHTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "nan": ("model", {QUERY: lambda t: t * NAN}, "'layers.0.0.attention.qkv.weight' is not finite"),
    "one nan": ("model", {"cls__predictions__bias": lambda t: t.index_fill(0, torch.tensor([3]), NAN)}, "'mlm.bias'"),
    "infinite": ("model", {"bert__embeddings__LayerNorm__bias": lambda t: t - INFINITY}, "norm.bias' is not finite"),
    "too large": ("model", {"bert__embeddings__LayerNorm__bias": lambda t: t.double() + 1e300}, "is not finite"),
    "head": ("heads", {"sbo__bias": lambda t: t + NAN}, "'sbo.bias' is not finite"),
    "integers": ("model", {QUERY: lambda t: t.to(torch.int8)}, "weights of different types: '.*query.weight' int8, "),
    "all integers": ("model", {"bert__embeddings__LayerNorm__bias": lambda t: t.to(torch.int8)}, "is of type int8"),
    "vector": ("model", {QUERY: lambda t: t[0].clone()}, "weights of unexpected shapes|has shape"),
    "number": ("model", {QUERY: torch.tensor(1.0)}, "weights of unexpected shapes"),
    "task": ("heads", {"tasks__x": torch.zeros(2)}, "'tasks.x' names no weight of a task"),
    "no task": ("heads", {"tasks____x": torch.zeros(2)}, "names no weight of a task"),
    "no name": ("heads", {"": torch.zeros(2)}, "unknown head ''"),
    "head of another name": ("heads", {"abc__x": torch.zeros(2)}, "unknown head 'abc'"),
    "head without parts": ("heads", {"mlm": torch.zeros(2)}, "missing weights: mlm.bias|mlm"),
    "labels": ("heads", {"sequence__classifier__weight": torch.tensor(1.0)}, "missing weights|has shape"),
    "position": ("heads", {"sbo__position__weight": torch.tensor(1.0)}, "sbo"),
    "dense": ("heads", {"sbo__dense_in__weight": torch.tensor(1.0)}, "sbo.dense_in.weight"),
}


@pytest.mark.parametrize("name", CONFIG)
def test_config(name: str, folder: Path) -> None:
    changes, message = CONFIG[name]
    edit(folder / "config.json", **changes)
    with pytest.raises(SpanlabError, match=message) as caught, bounded():
        load_model(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("name", DESCRIPTION)
def test_description(name: str, folder: Path) -> None:
    changes, message = DESCRIPTION[name]
    edit(folder / "spanlab.json", **changes)
    with pytest.raises(SpanlabError, match=message), bounded():
        load_model(folder)


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(name: str, folder: Path) -> None:
    file, changes, message = WEIGHTS[name]
    edit_weights(folder / f"{file}.safetensors", **changes)
    with pytest.raises(SpanlabError, match=message), bounded():
        load_model(folder)


@pytest.mark.parametrize("content", ["[]", "5", "null", '"x"', "{}", '{"tasks": 5}', "[" * 10**5, "{", ""])
@pytest.mark.parametrize("file", ["config.json", "spanlab.json"])
def test_other_json(file: str, content: str, folder: Path) -> None:
    (folder / file).write_text(content)
    with pytest.raises(SpanlabError), bounded():
        load_model(folder)


@pytest.mark.parametrize("weight_map", [5, [1], {"a": 5}, {"a": None}, {"a": ["x"]}, {"a": {}}, "x", None])
def test_weight_index(weight_map: Any, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(WeightsError, match="index"), bounded():
        load_model(folder)


def test_other_architectures(tmp_path: Path) -> None:
    """One absurd number in each key of every kind of folder: refused, or without consequence."""
    encoders = {
        name: build_encoder(preset(name, "tiny", vocab_size=41, pad_id=0))
        for name in ("albert", "xlnet", "gpt2", "modernbert")
    }
    encoders |= {"transformer": build_encoder(preset("transformer", "tiny", vocab_size=41, positions="sinusoidal"))}
    encoders |= {"elmo": build_encoder(elmo_preset("tiny", vocab_size=41))}
    for name, encoder in encoders.items():
        made = tmp_path / name
        save_model(made, encoder)
        path = made / "config.json"
        original = json.loads(path.read_text())
        native = "encoder" in original
        for key, value in (original["encoder"] if native else original).items():
            for absurd in (HUGE, 10**6, -1, 1e30, "x", None, [], {}, True):
                if type(value) is type(absurd) is bool:
                    continue
                changed = (
                    {**original, "encoder": {**original["encoder"], key: absurd}}
                    if native
                    else {**original, key: absurd}
                )
                path.write_text(json.dumps(changed))
                with bounded(), suppress(SpanlabError):
                    load_model(made)
        path.write_text(json.dumps(original))


def test_tables_that_no_weight_vouches_for(tmp_path: Path) -> None:
    config = preset("transformer", "tiny", vocab_size=41, positions="sinusoidal")
    save_model(tmp_path, build_encoder(config))
    content = json.loads((tmp_path / "config.json").read_text())
    content["encoder"]["max_positions"] = 10**7
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(WeightsError, match=r"asks for tables of 5.1 GB beside the weights"), bounded():
        load_model(tmp_path)


def test_characters_that_there_are_none_of(tmp_path: Path) -> None:
    save_model(tmp_path, build_encoder(elmo_preset("tiny", vocab_size=41)))
    edit_weights(tmp_path / "model.safetensors", characters=lambda t: t + 1000)
    with pytest.raises(WeightsError, match="'characters' must lie between 0 and 260"):
        load_model(tmp_path)


def test_generator_and_discriminator_are_checked_alike(tmp_path: Path) -> None:
    for part in ("", "generator"):
        pair = tmp_path / f"pair{part}"
        Electra.build(preset("electra", "tiny", vocab_size=41), generator_share=0.5).save_pretrained(pair)
        name = "electra__embeddings__LayerNorm__bias"
        edit_weights(pair / part / "model.safetensors", **{name: lambda t: t + NAN})
        with pytest.raises(WeightsError, match="is not finite"):
            Electra.from_pretrained(pair)


def as_bin(folder: Path) -> Path:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    return folder / "pytorch_model.bin"


@pytest.mark.parametrize("legacy", [False, True])
def test_flipped_bits_of_torch_files(legacy: bool, folder: Path) -> None:
    """Damage where structure lies (the pickle, the directory) and anywhere else: success or a typed error."""
    path = as_bin(folder)
    if legacy:
        torch.save(torch.load(path), path, _use_new_zipfile_serialization=False)
    original = path.read_bytes()
    draw = random.Random(11)
    outcomes = set()
    ends = [*range(0, 4000, 40), *range(len(original) - 4000, len(original), 40)]
    for position in [*ends, *(draw.randrange(len(original)) for _ in range(100))]:
        damaged = bytearray(original)
        damaged[position] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        with bounded():
            try:
                load_model(folder)
                outcomes.add("loaded")
            except SpanlabError:
                outcomes.add("refused")
    assert outcomes == {"loaded", "refused"}


def test_torch_files_that_are_larger_inside(folder: Path, tmp_path: Path) -> None:
    path = as_bin(folder)
    tensors = torch.load(path)
    name = "bert.embeddings.word_embeddings.weight"
    torch.save({**tensors, name: torch.zeros(1).expand(41, 10**9)}, path)
    with pytest.raises(WeightsError, match="more than the file can hold"), bounded():
        load_model(folder)
    torch.save({**tensors, "x": torch.zeros(10**7)}, tmp_path / "plain.bin")
    with zipfile.ZipFile(tmp_path / "plain.bin") as plain, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in plain.infolist():
            packed.writestr(entry.filename, plain.read(entry))
    with pytest.raises(WeightsError, match=r"a compressed archive, which unpacks to 4. MB"), bounded():
        load_model(folder)


@pytest.mark.parametrize("content", [{"a": 1}, [1], {1: torch.zeros(2)}, {"a": torch.zeros(2).to_sparse()}, "x"])
def test_torch_files_of_other_things(content: Any, folder: Path) -> None:
    torch.save(content, as_bin(folder))
    with pytest.raises(WeightsError):
        load_model(folder)


def test_pickles_of_nothing_and_of_depth(folder: Path) -> None:
    path = as_bin(folder)
    nested: list[Any] = []
    for _ in range(100):
        nested = [nested]
    for content in (
        b"",
        b"\x80\x02.",
        pickle.dumps(5),
        pickle.dumps(nested),
        b"PK\x03\x04",
        b"\x80\x02" + b"(" * 10**6,
    ):
        path.write_bytes(content)
        with pytest.raises(WeightsError), bounded():
            load_model(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder.bert.embeddings.word_embeddings.weight": torch.zeros(3)}, "the shape of the model cannot be told"),
        ({"decoder.bert.encoder.layer.x.a": torch.zeros(3)}, "the shape of the model cannot be told"),
        ({"decoder.bert.encoder.layer.500.a": torch.zeros(3)}, "501 layers with weights of their own"),
        ({"decoder.bert.encoder.layer.999999999.a": torch.zeros(3)}, "'layers' is 1000000000"),
        ({5: torch.zeros(3)}, "missing weights"),
    ],
)
def test_spanbert_release(changes: dict[Any, Any], message: str, tmp_path: Path) -> None:
    shapes = {
        "embeddings.word_embeddings": (41, 64),
        "embeddings.position_embeddings": (32, 64),
        "embeddings.token_type_embeddings": (2, 64),
        "encoder.layer.0.intermediate.dense": (128, 64),
    }
    state = {f"decoder.bert.{name}.weight": torch.zeros(shape) for name, shape in shapes.items()}
    torch.save({"model": {**state, **changes}}, tmp_path / "checkpoint.pt")
    with pytest.raises(SpanlabError, match=message), bounded():
        read_spanbert_release(tmp_path / "checkpoint.pt")


def test_keys_of_other_programs_are_named_and_stop_nothing(folder: Path) -> None:
    expected = load_model(folder).encoder.state_dict()
    foreign = {"ln_type": "post", "hiden_size": 12, "trained_by": {"tool": 1}, "pretrain_lr": None}
    edit(folder / "config.json", **foreign)
    with pytest.warns(LoadWarning, match="ignored, since SpanLab does not know them: ln_type, hiden_size, trained_by"):
        model = load_model(folder)
    assert model.report.unknown_keys == tuple(foreign)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in model.encoder.state_dict().items())
    done = run_spanlab("inspect", "model", str(folder))
    assert done.returncode == 0
    assert done.stderr.count("ln_type") == 1
    assert done.stderr.strip() == (
        f"spanlab: {folder}/config.json: ignored, since SpanLab does not know them: "
        "ln_type, hiden_size, trained_by, pretrain_lr"
    )
