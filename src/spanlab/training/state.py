"""What a run is made of in memory, to a snapshot and back, bit for bit and whatever the number of processes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from spanlab.corpus.randomness import sample_keys
from spanlab.errors import InputError
from spanlab.training.checkpoint import Progress, Snapshot, Tensors
from spanlab.training.distributed import gather_objects, like, tensors_of, whole
from spanlab.training.ema import ExponentialMovingAverage
from spanlab.training.place import ProcessContext
from spanlab.training.spec import Carrier


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a run that change as it goes."""

    model: nn.Module
    """Not wrapped: its names are those of the files."""
    optimiser: Optimizer
    average: ExponentialMovingAverage | None
    process: ProcessContext
    seed: int


def take_snapshot(parts: Parts, progress: Progress) -> Snapshot:
    """Everything a run goes on from; all processes must ask for it together."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in parts.model.named_parameters()}
    moments = {
        f"{kind}.{names[parameter]}": whole(value)
        for parameter, state in parts.optimiser.state.items()
        for kind, value in state.items()
    }
    own = {"random": torch.get_rng_state(), **_carried(parts.model)}
    if parts.process.device.type == "cuda":
        own["cuda_random"] = torch.cuda.get_rng_state(parts.process.device)
    everyone = gather_objects(own, parts.process)
    return Snapshot(
        progress=progress,
        weights={name: whole(tensor) for name, tensor in tensors_of(parts.model).items()},
        optimiser=moments,
        average={} if parts.average is None else {name: whole(t) for name, t in parts.average.state().items()},
        processes={f"{rank}.{name}": tensor for rank, theirs in enumerate(everyone) for name, tensor in theirs.items()},
    )


def restore_snapshot(parts: Parts, snapshot: Snapshot) -> None:
    """Put everything back as it was when the snapshot was taken."""
    tensors = tensors_of(parts.model)
    _check_names(snapshot.weights, tensors)
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(like(snapshot.weights[name], tensor))
    _restore_optimiser(parts, snapshot.optimiser)
    if parts.average is not None:
        patterns = dict(parts.model.named_parameters())
        parts.average.load({name: like(tensor, patterns[name]) for name, tensor in snapshot.average.items()})
    seed_process(parts.process, parts.seed, snapshot.progress.step)
    own = _of_process(snapshot.processes, parts.process.rank)
    if own:
        torch.set_rng_state(own["random"])
        if parts.process.device.type == "cuda" and "cuda_random" in own:
            torch.cuda.set_rng_state(own["cuda_random"], parts.process.device)
    if isinstance(parts.model, Carrier):
        parts.model.load_carried_state(_of_all_processes(snapshot.processes))


def seed_process(process: ProcessContext, seed: int, step: int = 0) -> None:
    """Begin this process's random numbers (dropout): its own, and the same whenever it begins at this step."""
    key = sample_keys(seed=seed, purpose="process", epoch=step, index=process.rank)
    torch.manual_seed(int(key[0] >> 1))


def _check_names(found: Tensors, wanted: Tensors) -> None:
    for name, tensor in wanted.items():
        if name not in found or found[name].shape != tensor.shape:
            fix = "resume a run with the model and objectives it was begun with"
            raise InputError(f"the checkpoint does not fit the model: {name}", fix=fix)


def _restore_optimiser(parts: Parts, moments: Tensors) -> None:
    kinds = {name.partition(".")[0] for name in moments}
    for name, parameter in parts.model.named_parameters():
        found = {kind: moments[f"{kind}.{name}"] for kind in kinds if f"{kind}.{name}" in moments}
        if found:
            # A count of steps is one number, whatever the shape of the weights and however they are sharded.
            parts.optimiser.state[parameter] = {
                kind: like(value, parameter)
                if value.shape == parameter.shape
                else value.to(parameter.device, copy=True)
                for kind, value in found.items()
            }


def _carried(model: nn.Module) -> dict[str, Tensor]:
    carried = model.carried_state() if isinstance(model, Carrier) else {}
    return {f"carried.{name}": tensor.cpu() for name, tensor in carried.items()}


def _of_all_processes(processes: Tensors) -> dict[str, Tensor]:
    """What was carried by each process: together, so that other processes than before can go on with it."""
    named = ((name.partition(".")[2], tensor) for name, tensor in processes.items())
    return {name.removeprefix("carried."): tensor for name, tensor in named if name.startswith("carried.")}


def _of_process(processes: Tensors, rank: int) -> dict[str, Tensor]:
    lead = f"{rank}."
    return {name.removeprefix(lead): tensor for name, tensor in processes.items() if name.startswith(lead)}
