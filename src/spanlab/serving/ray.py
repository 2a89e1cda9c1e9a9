"""The same application on Ray Serve: replicas on one machine or many, each with its own models, queue and batches.

    serve run spanlab.serving.ray:app models='[runs/answers]'
    serve build spanlab.serving.ray:app ; serve deploy deploy/serve.yaml

A replica takes more requests at once than a batch needs, so that its batches fill; what it cannot take it refuses with
429 by its own queue. Serve's queue before it is left unbounded, since Serve would refuse with 503. Replicas are added
while each has more than `target_requests` requests.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from ray import serve

from spanlab.serving.app import create_app
from spanlab.serving.served_model import load_served
from spanlab.serving.settings import ServeSettings


class RayConfig(BaseModel):
    """The arguments of `app`, as `serve run` and a YAML of `serve deploy` give them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: list[str] = Field(default_factory=list)
    """As for `spanlab serve`; folders must be the same on every node."""
    tasks: dict[str, str] = Field(default_factory=dict)
    """The model that answers a task, by the task's name."""
    threads: int = Field(default=1, ge=1)
    """CPUs that a replica reserves, and threads that it computes with."""
    gpus: float = Field(default=0.0, ge=0.0)
    """GPUs that a replica reserves."""
    replicas: int = Field(default=1, ge=1)
    """At the start, and at least."""
    max_replicas: int | None = Field(default=None, ge=1)
    """None: as many as `replicas`, whatever the load."""
    target_requests: float = Field(default=32.0, gt=0.0)
    """Requests a replica should have at once; more replicas are started while there are more."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "int8", "fp16"] | None = None
    """As for `spanlab serve`."""
    batch_tokens: int = 4096
    queue: int = 512
    max_body: int = 16 << 20
    timeout: float = 300.0
    json_logs: bool = True


def app(config: RayConfig) -> Any:  # noqa: ANN401 (a Serve application)
    """The application for a configuration; its models are loaded in the replicas."""
    settings = ServeSettings(
        batch_tokens=config.batch_tokens,
        queue=config.queue,
        max_body=config.max_body,
        timeout=config.timeout,
        json_logs=config.json_logs,
    )

    def build() -> Any:  # noqa: ANN401 (Serve takes a function without annotations of its own)
        import torch

        torch.set_num_threads(config.threads)
        models = load_served(config.models, tasks=config.tasks, device=config.device, precision=config.precision)
        return create_app(settings, models)

    scaling: dict[str, Any] = {"num_replicas": config.replicas}
    if config.max_replicas is not None:
        scaling = {
            "autoscaling_config": {
                "min_replicas": config.replicas,
                "max_replicas": config.max_replicas,
                "target_ongoing_requests": config.target_requests,
            }
        }
    deployment = serve.deployment(
        serve.ingress(build)(),
        name="spanlab",
        max_ongoing_requests=2 * config.queue,
        max_queued_requests=-1,
        ray_actor_options={"num_cpus": config.threads, "num_gpus": config.gpus},
        health_check_period_s=10,
        graceful_shutdown_timeout_s=config.timeout,
        **scaling,
    )
    return deployment.bind()
