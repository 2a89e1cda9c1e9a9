"""Pre-training from a recipe to a run folder: `spanlab pretrain` and `spanlab.pretrain`.

The same function runs in one process, in each process that torchrun starts, and in each worker of Ray Train.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from spanlab.arrays import Flags
from spanlab.atomic_io import readable_disk_errors, sha256_of, write_json
from spanlab.config import Source, from_mapping, merge, nested, parse_overrides, to_mapping
from spanlab.corpus import PreparedCorpus
from spanlab.corpus.manifest import MANIFEST
from spanlab.corpus.object_store import is_url
from spanlab.encoder import Model
from spanlab.errors import InputError
from spanlab.inference.fill import Filler
from spanlab.objectives import Mixture, ReplacedToken
from spanlab.pretraining.build import WeightedCorpus, build_training_spec
from spanlab.pretraining.compatibility import check_recipe
from spanlab.pretraining.recipe import Recipe, load_recipe, with_current_names
from spanlab.recipes import shipped_recipes
from spanlab.strict_parsing import read_json
from spanlab.training.distributed import current_process, process_group
from spanlab.training.loop import Training
from spanlab.training.run_folder import CONFIG, RunFolder, absolute_path
from spanlab.training.threads import choose_threads, restore_threads
from spanlab.workflows.provenance import InputFile, Provenance, labelled_inputs, model_inputs, without_folders
from spanlab.workflows.run import Moment, OnRecord, OnStart, RunResult, run_training

FILLINGS = "fillings.json"
_ABOUT = ("corpora", "corpus_weights", "corpus_fingerprints", "init")
"""Keys of a run's config beside its recipe."""
_SAMPLES, _CONTEXT, _MASKS = 4, 24, 3
"""Fill-mask samples, tokens of context on each side, masks in each."""


@dataclass(frozen=True, kw_only=True)
class PretrainingJob:
    """The arguments of a pre-training run."""

    recipe: Recipe
    data: tuple[str, ...]
    """Prepared corpora, each `DIR` or `DIR:WEIGHT`."""
    out: str
    init: str | None = None
    resume: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        check_recipe(self.recipe, on_backbone=self.init is None)


def pretrain(
    recipe: str | Path,
    *,
    data: str | Path | Sequence[str | Path],
    out: str | Path,
    init: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    on_record: OnRecord | None = None,
    **overrides: Any,  # noqa: ANN401 (sections and values of a recipe)
) -> RunResult:
    """Pre-train a model by a recipe, as `spanlab pretrain` does; prints nothing.

    Args:
        recipe: a shipped name or a YAML file.
        data: prepared corpora, each a folder or `"folder:weight"`.
        out: the run folder.
        init: a model folder or hub id to continue from.
        resume: continue the run in `out`.
        overwrite: replace the run in `out`.
        on_record: called with every record of the run.
        overrides: sections and values, such as `size="mini", training={"steps": 1000}`. Keys of the recipe's `data`
            section need their full name, since `data` is the corpora: `**{"data.length": 128}`.
    """
    folders = [data] if isinstance(data, str | Path) else data
    job = PretrainingJob(
        recipe=resumed_recipe(out, str(recipe), overrides) if resume else load_recipe(str(recipe), overrides),
        data=tuple(map(str, folders)),
        out=str(out),
        init=None if init is None else str(init),
        resume=resume,
        overwrite=overwrite,
    )
    return run_job(job, on_record=on_record)


def run_job(job: PretrainingJob, *, on_start: OnStart | None = None, on_record: OnRecord | None = None) -> RunResult:
    """Run the job in this process, which may be one of several; callbacks are called on the main process."""
    with process_group(), restore_threads():
        training_config = job.recipe.training
        process = current_process(training_config.device, training_config.precision)
        run = RunFolder(job.out)
        if process.is_main:
            run.check(resume=job.resume, overwrite=job.overwrite)
        corpora = open_corpora(job.data)
        config = describe(job, corpora)
        if job.resume:
            run.check_same(config, partial(_with_new_keys, run))
        threads, thread_notes = choose_threads(training_config.threads, run, process, resume=job.resume)
        with run.lock() if process.is_main else nullcontext():
            spec, initial_model = build_training_spec(job.recipe, corpora, job.init, processes=process.world_size)
            training = Training(spec, replace(training_config, threads=threads), run, process, seed=job.recipe.seed)
            if process.is_main and not job.resume:  # after everything is validated
                with readable_disk_errors(run.path, "free some space and run the command again"):
                    run.begin(config)
            process.barrier()
            provenance = _provenance(job, corpora, config) if process.is_main else None
            notes = (*initial_model.notes, *thread_notes, *(training.resume() if job.resume else ()))
            if on_start is not None and process.is_main:
                on_start(training, notes)
            samples = FillMaskSamples(corpora[0].corpus, job.recipe.data.longest)
            return run_training(
                training,
                config,
                notes,
                on_begin_and_end=samples.write,
                remarks=compare_to_unigrams,
                on_record=on_record,
                provenance=provenance,
            )


def compare_to_unigrams(scores: Mapping[str, float]) -> tuple[str, ...]:
    """A remark for each objective whose held-out loss is no better than that of token frequencies."""
    losses = {name.removeprefix("unigram."): value for name, value in scores.items() if name.startswith("unigram.")}
    return tuple(
        f"the model has not learned to use context yet: its held-out loss.{name} is {scores[f'loss.{name}']:.2f}, and "
        f"that of token frequencies alone {unigram:.2f}. Train for more training.steps, or use a higher training.lr"
        for name, unigram in losses.items()
        if scores.get(f"loss.{name}", -math.inf) >= unigram
    )


def resumed_job(
    out: str, overrides: Sequence[str] = (), *, data: Sequence[str] = (), init: str | None = None
) -> PretrainingJob:
    """The job that the run in `out` was started with, to be resumed; what is given here replaces what the run has.

    `run_job` refuses changes that would change the result.
    """
    run = RunFolder(out)
    recipe = _recipe_of_run(run, parse_overrides(overrides))
    saved, _ = split_config(run.read_config())
    if not data:
        pairs = zip(saved.get("corpora") or (), saved.get("corpus_weights") or (), strict=False)
        data = [_weighted(str(name), weight) for name, weight in pairs]
    return PretrainingJob(recipe=recipe, data=tuple(data), out=out, init=init or saved.get("init"), resume=True)


def resumed_recipe(out: str | Path, name: str, overrides: Sequence[str] | Mapping[str, Any]) -> Recipe:
    """The recipe of a run that is resumed by the command that started it.

    A shipped recipe may have changed since: what is not given is as the run has it. A file is taken as it is now.
    """
    current = load_recipe(name, overrides)
    if name not in shipped_recipes():
        return current
    changes = nested(overrides) if isinstance(overrides, Mapping) else parse_overrides(overrides)
    return _recipe_of_run(RunFolder(out), {**changes, "system": current.system})


def _recipe_of_run(run: RunFolder, changes: Mapping[str, Any]) -> Recipe:
    """The recipe that a run was started with, with changes."""
    run.check(resume=True, overwrite=False)
    _, settings = split_config(run.read_config())
    return from_mapping(Recipe, merge(settings, changes), Source(path=str(run.path / CONFIG)))


def split_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run is about (corpora and the initial model), and its recipe."""
    config = with_current_names(config)
    about = {key: value for key, value in config.items() if key in _ABOUT}
    return about, {key: value for key, value in config.items() if key not in _ABOUT}


def _with_new_keys(run: RunFolder, config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a run, perhaps of an older version, with all keys of this one.

    New keys have their defaults, by which a run is as it was before there was the key.
    """
    about, settings = split_config(config)
    recipe = from_mapping(Recipe, settings, Source(path=str(run.path / CONFIG)))
    return {**to_mapping(recipe), **about}


def _weighted(name: str, weight: float) -> str:
    """`DIR:WEIGHT`; configs of older runs may have the weight in the name."""
    return f"{name}:{weight}" if is_url(name) or Path(name).exists() else name


def open_corpora(names: Sequence[str]) -> list[WeightedCorpus]:
    """Open the prepared corpora of a job."""
    if not names:
        raise InputError("no corpus given", fix="use --data DIR with a corpus made by spanlab prepare")
    return [WeightedCorpus.parse(name) for name in names]


def describe(job: PretrainingJob, corpora: Sequence[WeightedCorpus]) -> dict[str, Any]:
    """The resolved config for the run folder, which is compared when the run is resumed."""
    manifests = [(item.corpus.folder / MANIFEST).read_bytes() for item in corpora]
    return {
        **to_mapping(job.recipe),
        "corpora": [item.corpus.source for item in corpora],
        "corpus_weights": [item.weight for item in corpora],
        "corpus_fingerprints": [hashlib.sha256(manifest).hexdigest()[:16] for manifest in manifests],
        "init": None if job.init is None else absolute_path(job.init),
    }


def _provenance(job: PretrainingJob, corpora: Sequence[WeightedCorpus], config: Mapping[str, Any]) -> Provenance:
    """What goes into the run."""
    folders = [item.corpus.folder.resolve() for item in corpora]
    inputs = [InputFile(role="corpus", name=path.name, sha256=sha256_of(path / MANIFEST)) for path in folders]
    inputs += model_inputs(job.init)
    named = without_folders(config, ("corpora", "init"))
    if job.recipe.data.spans is not None:
        inputs += labelled_inputs("spans", job.recipe.data.spans)
        named["data"] = {**named["data"], "spans": Path(job.recipe.data.spans).name}
    return Provenance(command="pretrain", config=named, inputs=tuple(inputs))


class FillMaskSamples:
    """Predictions for the same few masked texts of a corpus, before and after a run."""

    def __init__(self, corpus: PreparedCorpus, length: int) -> None:
        """`length`: the maximum sequence length of the model."""
        self._tokenizer, self._texts = corpus.tokenizer, masked_texts(corpus, min(_CONTEXT, length // 4))

    def write(self, criterion: nn.Module, folder: Path, moment: Moment) -> None:
        """Fill the masks now and write the results to the run folder; "before" is kept from the first session."""
        path, model = folder / FILLINGS, _mlm_model(criterion)
        fillings = read_json(path) if path.is_file() else {}
        if model is None or (moment == "before" and moment in fillings):
            return
        filler = Filler.from_model(model, self._tokenizer)
        fillings[moment] = []
        for text in self._texts:
            # A decoded passage may be tokenized into more tokens than before, and be too long.
            with suppress(InputError):
                fillings[moment].append(filler.fill(text, top=3).to_dict())
        write_json(path, fillings)


def _mlm_model(criterion: nn.Module) -> Model | None:
    """The encoder and heads that predict masked tokens; None if the system has none."""
    if isinstance(criterion, ReplacedToken):
        return Model(criterion.pair.generator, {"mlm": criterion.pair.generator_head})
    if isinstance(criterion, Mixture) and "mlm" in criterion.heads:
        heads = {name: head for name, head in criterion.heads.items() if name in {"mlm", "sbo"}}
        return Model(criterion.encoder, heads)
    return None


def masked_texts(corpus: PreparedCorpus, context: int) -> list[str]:
    """A few evenly spaced passages of the corpus, each a run of masks with `context` tokens on either side."""
    tokenizer, tokens = corpus.tokenizer, corpus.counts.tokens
    if tokenizer.mask_id is None:
        return []
    texts = []
    for index in range(_SAMPLES):
        middle = tokens * (2 * index + 1) // (2 * _SAMPLES)
        start, stop = max(0, middle - context), min(tokens, middle + context)
        passage = corpus.read([start], [stop])
        word = _nearest_word(passage.word_starts, middle - start)
        ids = passage.ids.copy()
        ids[word : word + _MASKS] = tokenizer.mask_id
        texts.append(tokenizer.decode(ids.tolist()))
    return texts


def _nearest_word(word_starts: Flags, position: int) -> int:
    starts = np.flatnonzero(word_starts)
    return int(starts[np.argmin(np.abs(starts - position))]) if len(starts) else position
