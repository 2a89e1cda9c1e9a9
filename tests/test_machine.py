"""What the machine can do: bf16 where oneDNN may use it, the cores a process may use, how idle threads wait."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from spanlab import machine
from spanlab.machine import available_cores, int8_instructions, limit_threads, name_cpu


def run_python(code: str, **environment: str) -> str:
    process = [sys.executable, "-c", code]
    return subprocess.run(process, capture_output=True, text=True, check=True, env={**os.environ, **environment}).stdout


def test_bf16_is_not_there_where_it_may_not_be_used() -> None:
    code = "from spanlab.machine import has_bf16_instructions; print(has_bf16_instructions())"
    assert run_python(code, ONEDNN_MAX_CPU_ISA="AVX2") == "False\n"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity on this system")
def test_cores_follow_the_cpu_affinity() -> None:
    """In the functions that decide on workers and threads, too."""
    code = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from spanlab.corpus.prepare import engines
from spanlab.machine import available_cores, describe_environment, examine
engines._run_in_processes = None  # one worker needs no pool
groups = engines.run_workers(iter(()), None, engine="local", workers=None)
print(available_cores(), list(groups), describe_environment()["cores"], examine(ask_hub=False).cores)
"""
    assert run_python(code) == "1 [] 1 1\n"


CGROUPS = {
    "version 2": ("0::/\n", {"cpu.max": "250000 100000\n"}, 3),
    "version 2, no limit": ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
    "version 2, less than a core": ("0::/\n", {"cpu.max": "20000 100000\n"}, 1),
    "version 2, the group around it": (
        "0::/pod/job\n",
        {"pod/cpu.max": "200000 100000\n", "pod/job/cpu.max": "max 100000\n"},
        2,
    ),
    "version 2, path of the host": ("0::/../../docker/abc\n", {"cpu.max": "400000 100000"}, 4),
    "version 1": (
        "5:memory:/x\n3:cpu,cpuacct:/x\n",
        {"cpu/x/cpu.cfs_quota_us": "150000\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
        2,
    ),
    "version 1, joint mount": (
        "3:cpu,cpuacct:/\n",
        {"cpu,cpuacct/cpu.cfs_quota_us": "300000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
        3,
    ),
    "version 1, no limit": ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
    "both versions": ("3:cpu:/\n0::/\n", {"cpu/cpu.cfs_quota_us": "-1", "unified/cpu.max": "100000 100000"}, 1),
    "damaged": ("0::/\nnonsense\n", {"cpu.max": "a b c"}, 8),
    "more than the machine has": ("0::/\n", {"cpu.max": "9900000 100000"}, 8),
}


@pytest.mark.parametrize("name", CGROUPS)
def test_cores_follow_the_quota_of_the_cgroup(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    membership, files, cores = CGROUPS[name]
    for path, text in {"proc/self/cgroup": membership, **{f"sys/fs/cgroup/{p}": t for p, t in files.items()}}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert available_cores(tmp_path) == cores


def test_without_cgroups_the_affinity_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(5)), raising=False)
    assert available_cores(tmp_path) == 5
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert available_cores(tmp_path) == 6


def test_threads_of_torch_are_reduced_and_never_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(3)
    monkeypatch.setattr(machine, "available_cores", lambda: 2)
    limit_threads()
    assert torch.get_num_threads() == 2
    monkeypatch.setattr(machine, "available_cores", lambda: 4)
    limit_threads()
    assert torch.get_num_threads() == 2


def test_a_peak_that_is_exceeded_is_measured_again_or_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {1024: 100.0, 2048: 180.0, 4096: 150.0}
    measured: list[int] = []

    def rate(device: str, precision: str, size: int = 1024, rounds: int = 5) -> float:
        measured.append(size)
        return rates[size]

    monkeypatch.setattr(machine, "matrix_rate", rate)
    peak = machine.PeakRate("cpu", "fp32")
    assert peak.share(50.0) == 0.5
    assert measured == [1024]
    assert peak.share(135.0) == 0.75  # of 180: the first measurement was disturbed
    assert measured == [1024, 2048]
    assert peak.share(181.0) is None
    assert peak.share(10.0) is None
    assert measured == [1024, 2048, 4096]


def test_measuring_leaves_the_random_numbers_of_a_run_alone() -> None:
    before = torch.get_rng_state()
    assert machine.matrix_rate("cpu", "fp32", size=64) > 0
    assert torch.equal(torch.get_rng_state(), before)


def test_idle_threads_spin_briefly_unless_the_user_decides() -> None:
    code = "import os, spanlab, sys; print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    undecided = {name: value for name, value in os.environ.items() if name not in {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}}
    for chosen, expected in (({}, "1000"), ({"OMP_WAIT_POLICY": "active"}, "None"), ({"GOMP_SPINCOUNT": "7"}, "7")):
        process = [sys.executable, "-c", code]
        done = subprocess.run(process, capture_output=True, text=True, check=True, env={**undecided, **chosen})
        assert done.stdout == f"{expected} False\n"


def test_every_extra_installs_what_the_code_imports() -> None:
    import tomllib

    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - {"all", "bench", "dev"}
    assert set(machine.EXTRAS) == extras
    sources = [path for path in (root / "src").rglob("*.py") if path.name != "machine.py"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    for extra, modules in machine.EXTRAS.items():
        unused = [module for module in modules if not re.search(rf"\b{module}\b", code)]
        assert extra == "docs" or not unused, f"{extra}: no module imports {unused}"
    (every,) = project["optional-dependencies"]["all"]
    assert set(every.removeprefix("spanlab[").removesuffix("]").split(",")) == extras - {"docs"}


def test_int8_instructions_are_those_that_onednn_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanlab.machine.platform.machine", lambda: "x86_64")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    cpuinfo = tmp_path / "cpuinfo"
    for flags, allowed, wanted in (
        ("fpu avx2 avx_vnni avx512_vnni", None, "avx512_vnni"),
        ("fpu avx2 avx_vnni avx512_vnni amx_int8", "DEFAULT", "amx_int8"),
        ("fpu avx2 avx_vnni", None, "avx_vnni"),
        ("fpu avx2", None, None),
        ("fpu avx2 avx_vnni avx512_vnni", "AVX2", None),
        ("fpu avx2 avx_vnni avx512_vnni", "AVX2_VNNI", "avx_vnni"),
        ("fpu avx2 avx512_vnni", "AVX512_CORE", None),
    ):
        cpuinfo.write_text(f"model name\t: Some CPU 7\nflags\t\t: {flags}\n")
        if allowed is not None:
            monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", allowed)
        else:
            monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
        assert int8_instructions(cpuinfo) == wanted, (flags, allowed)
    assert int8_instructions(tmp_path / "none") is None
    assert name_cpu(cpuinfo) == "Some CPU 7"


def test_few_kernels_are_kept_unless_the_user_says_how_many() -> None:
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    show = f"import os; print([os.environ.get(name) for name in {names}])"
    served = f"from spanlab.serving.served_model import load_served; load_served(['spanbert-mini-en']); {show}"
    assert run_python(f"import os; [os.environ.pop(name, None) for name in {names}]; {served}") == "['32', '32']\n"
    assert run_python(served, **dict.fromkeys(names, "7")) == "['7', '7']\n"
