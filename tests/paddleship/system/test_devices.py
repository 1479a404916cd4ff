"""Memory on GPUs, with a stand-in for NVIDIA's library; for a real GPU see tests/test_gpu.py."""

import multiprocessing
import warnings
from types import SimpleNamespace

import pytest

from paddleship.benchmark.sampling import Sampler
from paddleship.benchmark.system_metrics import LoadMonitor
from paddleship.benchmark.worker_process import WorkerProcess
from paddleship.config.sections.benchmark import Benchmark
from paddleship.system import devices, environment, host
from paddleship.system.isolate import Isolated
from tests.paddleship.benchmark.test_benchmarking import BATCHES, Sleeper
from tests.paddleship.benchmark.test_system_metrics import Obedient


class Library:
    """Holds what `held(device)` says: pairs of a process and its bytes."""

    class NVMLError(Exception):
        pass

    def __init__(self, held, count=2):
        self.held, self.count = held, count

    def nvmlDeviceGetCount(self):
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetName(self, device):
        return f"Model {device}"

    def __getattr__(self, name):  # what this GPU does not have
        def refuse(*_):
            raise self.NVMLError("not supported")

        return refuse

    def nvmlDeviceGetComputeRunningProcesses(self, device):
        return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in self.held(device)]


@pytest.fixture
def install(monkeypatch):
    return lambda library: monkeypatch.setattr(devices, "library", lambda: library)


def test_memory_of_the_asked_processes_is_summed_over_all_devices(install):
    install(Library(lambda device: [(1, 100 + device), (2, 1000), (9, 5)]))
    assert devices.used_bytes([1, 2]) == 100 + 101 + 2000


def test_hosts_with_other_gpus_are_told_apart(install):
    install(None)
    assert "gpus" not in host.fingerprint()
    install(Library(lambda _: []))
    assert host.fingerprint()["gpus"] == "Model 0, Model 1"


def test_with_a_build_for_gpus_the_environment_names_them_so_that_another_gpu_is_proven_anew(install, monkeypatch):
    install(Library(lambda _: []))
    assert "gpus" not in environment.versions(["numpy"])
    monkeypatch.setattr(environment, "version", str)
    assert environment.versions(["onnxruntime-gpu"])["gpus"] == "Model 0, Model 1"
    install(None)
    assert "gpus" not in environment.versions(["onnxruntime-gpu"])


class Whole(Library):
    """Also answers what a latency depends on; with `refuse`, as a GPU without power limits and MIG."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self, *, refuse=False, held=()):
        super().__init__(lambda _: held, count=1)
        self.refuse = refuse

    def nvmlSystemGetDriverVersion(self):
        return "580.95.05"

    def nvmlDeviceGetMaxClockInfo(self, device, kind):
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetEnforcedPowerLimit(self, device):
        if self.refuse:
            raise self.NVMLError("not supported")
        return 700_000

    def nvmlDeviceGetMigMode(self, device):
        if self.refuse:
            raise self.NVMLError("not supported")
        return [0, 0]


def test_the_fingerprint_has_driver_clocks_power_limit_and_mig(install):
    install(Whole())
    known = {"gpus": "Model 0", "gpu_driver": "580.95.05", "gpu_clocks_mhz": "1980", "gpu_memory_clocks_mhz": "3201"}
    assert devices.facts() == {**known, "gpu_power_limits_w": "700", "gpu_mig": "off"}
    assert devices.facts().items() <= host.fingerprint().items()
    install(Whole(refuse=True))
    assert devices.facts() == known
    install(None)
    assert devices.facts() == {}


def test_another_process_on_the_gpu_is_seen_before_and_after_a_measurement_and_only_if_a_participant_is_on_it(install):
    install(Whole(held=[(41, 5)]))
    monitor = LoadMonitor(on_gpu=True)
    idle = LoadMonitor()
    install(Whole(held=[(41, 5), (42, 5)]))
    assert (monitor.seen().gpu_processes, idle.seen().gpu_processes) == (2, 0)
    install(Whole())
    assert LoadMonitor(on_gpu=True).seen().gpu_processes == 0


def test_processes_that_hold_nothing_or_that_the_driver_does_not_tell_of_have_no_figure(install):
    install(Library(lambda _: [(1, None), (9, 5)]))
    assert devices.used_bytes([1, 2]) is None


def test_a_driver_that_refuses_gives_no_figure(install):
    def refuse(_):
        raise Library.NVMLError("not supported")

    install(Library(refuse))
    assert devices.used_bytes([1]) is None


def test_without_library_driver_or_gpu_there_is_no_figure_and_no_noise(capfd):
    devices.library.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if devices.library() is not None:
            pytest.skip("there is a GPU")
        assert devices.used_bytes([1]) is None
    assert capfd.readouterr() == ("", "")


def test_a_call_keeps_the_most_that_was_held_during_it(install):
    with Isolated("x", Obedient, timeout_s=20) as child:
        worker = WorkerProcess(child)
        worker.answer([])
        assert worker.peak_device_bytes is None
        held = iter([700])
        install(Library(lambda _: [(child.pid, next(held, 300))], count=1))
        worker.answer([])
        worker.answer([])
        assert worker.peak_device_bytes == 700


def test_a_participant_that_holds_memory_on_a_gpu_shows_it(install):
    settings = Benchmark(batch_sizes=[1], concurrency=[], starts=1, blocks=4, samples_per_block=5, warmup_s=0.1, timeout_s=20)
    sampler = Sampler({"one": (Sleeper, (0.0001,))}, {1: BATCHES[1]}, settings, thread_count=1)
    install(Library(lambda _: [(child.pid, 400) for child in multiprocessing.active_children()], count=1))
    sampler.round(["one"], blocks={1: 4}, seconds={1: 1})
    assert sampler.measurements["one"].peak_device_memory_bytes == 400
