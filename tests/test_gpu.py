"""What needs a real GPU: the memory that NVIDIA's driver reports, and PyTorch's graph modes with weights stored as Paddle stores them."""

import importlib.util
import itertools
import os
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

from benchmarks.graph_modes import deploying, mode_worker, network_setup, timing
from benchmarks.graph_modes.mode_worker import ModeWorker
from benchmarks.graph_modes.network_setup import NetworkSetup
from paddleship.benchmark.system_metrics import MemoryMonitor
from paddleship.config.sections.graph_modes import GraphModes
from paddleship.numerics import differences
from paddleship.system import devices, host, isolate, processes
from paddleship.system.isolate import Isolated

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not devices.names(), reason="needs an NVIDIA GPU, its driver and nvidia-ml-py"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (extra `torch`)"),
]

GIB = 2**30
MODES = ("torch-eager", "torchscript", "torch-compile")
TOLERANCE = {"linear": 1e-5, "reviews": 1e-5, "resnet50": 1e-4}  # of the answer's size
FULL_FLOAT32 = {"NVIDIA_TF32_OVERRIDE": "0"}  # PyTorch's convolutions use TF32 on a GPU, by default
STEPS = 30
TIMEOUT_S = 300


class Holder:
    """Holds 1 GiB of a GPU."""

    def __init__(self):
        self._held = self._hold(GIB)

    def _hold(self, size):
        import torch

        return torch.zeros(size, dtype=torch.uint8, device="cuda")

    def hold_for_a_moment(self, size):
        import torch

        more = self._hold(size)
        time.sleep(0.5)
        del more
        torch.cuda.empty_cache()


def device_name():
    import torch

    return torch.cuda.get_device_name()


def test_gpu_memory_of_a_child_process_is_reported_until_it_ends():
    with Isolated("holder", Holder, timeout_s=TIMEOUT_S) as child:
        held = devices.used_bytes(processes.tree(os.getpid()))
        assert GIB <= held <= 2 * GIB  # CUDA itself holds some of it
        assert devices.used_bytes([child.pid]) == held
        assert devices.used_bytes([os.getpid()]) is None
    assert devices.used_bytes([child.pid]) is None


def test_the_monitor_keeps_the_most_gpu_memory_that_was_held():
    with Isolated("holder", Holder, timeout_s=TIMEOUT_S) as child:
        with MemoryMonitor(child.pid) as memory:
            child.call("hold_for_a_moment", 2 * GIB)
        assert memory.peak_device_bytes - devices.used_bytes([child.pid]) == 2 * GIB


def test_the_fingerprint_of_a_host_names_its_gpus():
    assert isolate.run("name", device_name, timeout_s=TIMEOUT_S) == devices.names()[0]
    assert host.fingerprint()["gpus"] == ", ".join(devices.names())


def rows_of(network, count, picture):
    """Inputs and labels with something to learn."""
    random = np.random.default_rng(0)
    if network == "linear":
        inputs = random.normal(size=(count, 8)).astype(np.float32)
        return inputs, inputs @ random.normal(size=(8, 1)).astype(np.float32)
    if network == "reviews":
        labels = random.integers(0, 2, count)
        return random.integers(1, 50, (count, 128)) + 50 * labels[:, None], labels
    labels = random.integers(0, 10, count)
    pictures = random.normal(size=(count, 3, picture, picture)) + random.normal(size=(10, 3, 1, 1))[labels]
    return pictures.astype(np.float32), labels


def write_weights(setup):
    """Fresh weights of PyTorch's modules, stored as Paddle stores its own: linear ones as (in, out), batch norms under other names."""
    import torch

    from benchmarks.graph_modes import torch_modes

    torch.manual_seed(setup.seed)
    net = torch_modes.NETWORKS[setup.network](**setup.kwargs)
    linear = {f"{path}.weight".removeprefix(".") for path, part in net.named_modules() if isinstance(part, torch.nn.Linear)}
    stored = {name: tensor.T if name in linear else tensor for name, tensor in net.state_dict().items()}
    paddles = {name.replace(".running_mean", "._mean").replace(".running_var", "._variance"): tensor for name, tensor in stored.items()}
    kept = {name: tensor.numpy() for name, tensor in paddles.items() if not name.endswith("num_batches_tracked")}
    np.savez(setup.folder / "weights.npz", **kept)


def make_setup(network, folder, sizes):
    inputs, labels = rows_of(network, sizes.rows, sizes.picture)
    np.savez(folder / "rows.npz", inputs=inputs, labels=labels)
    kwargs = {"linear": {"features": 8}, "reviews": {"dropout": 0.0}, "resnet50": {"classes": 10}}[network]
    task = "regression" if network == "linear" else "classification"
    setup = NetworkSetup(network, folder, sizes, kwargs, task, *network_setup._TRAINING[network], seed=0, threads=4, device="gpu")
    isolate.run("weights", write_weights, setup, timeout_s=TIMEOUT_S)
    return setup


@pytest.fixture(scope="module")
def setup_of(tmp_path_factory):
    made = {}

    def find(network):
        if network not in made:
            made[network] = make_setup(network, tmp_path_factory.mktemp(network), network_setup.SMALL[network])
        return made[network]

    return find


@dataclass(frozen=True)
class Examined:
    """One mode of one network: first answer and losses on the CPU and on the GPU, all losses and the saved form on the GPU."""

    network: str
    cpu: dict
    gpu: dict
    losses: list
    form: deploying.SavedForm


@pytest.fixture(scope="module", params=itertools.product(network_setup.SMALL, MODES), ids="-".join)
def examined(request, setup_of):
    network, mode = request.param
    setup = setup_of(network)
    folder = setup.folder / mode
    folder.mkdir()
    cpu = isolate.run(mode, mode_worker.answer_of, mode, replace(setup, device="cpu"), timeout_s=TIMEOUT_S)
    gpu = isolate.run(mode, mode_worker.answer_of, mode, setup, timeout_s=TIMEOUT_S, environment=FULL_FLOAT32)
    with Isolated(mode, ModeWorker, mode, setup, timeout_s=TIMEOUT_S) as child:
        losses = [loss for loss, _ in child.call("train", STEPS)]
        return Examined(network, cpu, gpu, losses, deploying.SavedForm(folder, **child.call("save", str(folder))))


def test_a_mode_answers_and_learns_on_the_gpu_as_on_the_cpu(examined):
    limit = TOLERANCE[examined.network]
    assert differences.relative(examined.gpu["answer"], examined.cpu["answer"]) < limit
    steps = 1 if examined.network == "resnet50" else mode_worker.FIRST_STEPS  # its gradients magnify every rounding
    np.testing.assert_allclose(examined.gpu["losses"][:steps], examined.cpu["losses"][:steps], rtol=limit)


def test_training_steps_on_the_gpu_lower_the_loss(examined):
    assert np.mean(examined.losses[-5:]) < 0.9 * examined.losses[0]


def test_a_form_saved_on_the_gpu_loads_there_as_one_saved_on_the_cpu_does(examined):
    loads, reason = deploying.loads_without_code(examined.form, site=None, timeout_s=TIMEOUT_S, device="gpu")
    pickled_code = examined.form.name == "load_pickle" and examined.network != "linear"
    assert (loads, "code is not here" in reason) == (not pickled_code, pickled_code), reason


class Late:
    """A mode on a GPU that has other work to finish first."""

    def __init__(self, mode, setup):
        self._inputs, self._labels = (array[:8] for array in setup.rows())
        self._mode = mode_worker.code_of(mode, setup)[1](setup)

    def seconds(self, late):
        """Of an answer and of a step, each after work that takes the GPU a while if `late`; whether the GPU was idle after each."""
        self._mode.begin_serving()
        answered = self._timed(self._mode.forward, late, self._inputs)
        self._mode.begin_training()
        return answered, self._timed(self._mode.step, late, self._inputs, self._labels)

    def _timed(self, function, late, *arguments):
        import torch

        for _ in range(5):  # compile
            function(*arguments)
        if late:
            torch.cuda._sleep(400_000_000)  # cycles: 0.2 s at 2 GHz
        start = time.perf_counter()
        function(*arguments)
        return time.perf_counter() - start, torch.cuda.current_stream().query()


@pytest.mark.parametrize("mode", MODES)
def test_a_time_ends_when_the_gpu_has_finished(mode, setup_of):
    with Isolated(mode, Late, mode, setup_of("linear"), timeout_s=TIMEOUT_S) as child:
        assert all(seconds < 0.1 and idle for seconds, idle in child.call("seconds", False))
        assert all(seconds > 0.1 and idle for seconds, idle in child.call("seconds", True))


def test_modes_are_timed_on_the_gpu_with_the_memory_that_they_hold_there(setup_of, monkeypatch):
    monkeypatch.setattr(timing, "_WARM_UP_S", 0.05)
    setup = replace(setup_of("linear"), sizes=replace(network_setup.SMALL["linear"], steps=3, answers=4))
    settings = GraphModes(rounds=2, starts=1, timeout_s=TIMEOUT_S)
    for measure, samples in ((timing.serve, 8), (timing.train, 6)):
        found = measure(setup, MODES, settings, say=lambda _line: None)
        assert [len(found[mode].samples(setup.sizes.batch)) for mode in MODES] == [samples] * 3
        assert all(100e6 < found[mode].peak_device_memory_bytes < GIB for mode in MODES)
