"""What a server measures of itself, in the text format of Prometheus: times, batch sizes, refusals; never a text."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # the time at which each series began doubles their number

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_TOKENS = tuple(2**power for power in range(3, 18))
_COUNTS = tuple(2**power for power in range(11))


class ServerMetrics:
    """The metrics of one server; several servers in one process do not mix theirs."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.queue_seconds = self._histogram("queue_seconds", "From acceptance to the first batch.", _SECONDS)
        self.tokenize_seconds = self._histogram("tokenize_seconds", "Reading and tokenising inputs.", _SECONDS)
        self.infer_seconds = self._histogram("infer_seconds", "Computing a batch.", _SECONDS)
        self.decode_seconds = self._histogram("decode_seconds", "From outputs to JSON.", _SECONDS)
        self.batch_tokens = self._histogram("batch_tokens", "Tokens computed together.", _TOKENS)
        self.batch_windows = self._histogram("batch_windows", "Windows computed together.", _COUNTS)
        self.batch_requests = self._histogram("batch_requests", "Requests computed together.", _COUNTS)
        self.waiting_inputs = Gauge(
            "spanlab_waiting_inputs", "Inputs accepted and not yet answered.", registry=self._registry
        )
        self._requests = Counter(
            "spanlab_requests", "Requests by route and status.", ("route", "status"), registry=self._registry
        )
        self._refusals = Counter("spanlab_refusals", "Refused requests by cause.", ("cause",), registry=self._registry)
        self._request_seconds = Histogram(
            "spanlab_request_seconds",
            "From the request's head to the end of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"spanlab_{name}", about, buckets=buckets, registry=self._registry)

    def count_refusal(self, cause: str) -> None:
        """One more refused request, or refused input of a list."""
        self._refusals.labels(cause).inc()

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """One more answered request; `route` is the pattern of its path."""
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def to_text(self) -> bytes:
        """All metrics, for `/metrics`."""
        return generate_latest(self._registry)
