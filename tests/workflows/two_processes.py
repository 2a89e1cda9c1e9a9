"""Started by torchrun: runs the jobs of a JSON file one after the other, each stopped after a step if that is asked."""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist

from spanlab.training.records import Record
from spanlab.workflows.pretrain import run_job
from tests.pretraining.making import job


def run(asked: dict[str, object]) -> None:
    """`stop` is the step after which the first process alone is told to end."""

    def stop(record: Record) -> None:
        if record.step == asked["stop"]:
            os.kill(os.getpid(), signal.SIGTERM)

    with suppress(SystemExit):
        run_job(
            job(
                str(asked["recipe"]),
                Path(str(asked["corpus"])),
                Path(str(asked["out"])),
                *asked["overrides"],  # type: ignore[misc]
                resume=asked["resume"],
                init=asked["init"],
            ),
            on_record=stop,
        )
    dist.barrier()


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for asked in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        run(asked)
    dist.destroy_process_group()
    # Threads of gloo may still let go of tensors, which aborts the process once the interpreter is being taken down.
    os._exit(0)
