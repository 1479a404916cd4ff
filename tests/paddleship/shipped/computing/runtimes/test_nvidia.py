"""NVIDIA's driver, asked through the loader; the library is a small one with the same functions, compiled here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paddleship.errors import CandidateError
from paddleship.shipped.computing.runtimes import nvidia
from tests import plugins

NVML = """
#include <string.h>
static const char *names[] = {%s};
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = sizeof names / sizeof *names; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)&names[index]; return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned length) { strncpy(name, *(const char **)device, length); return 0; }
"""
ASK = "import sys; from paddleship.shipped.computing.runtimes import nvidia; nvidia.require_model(sys.argv[1]); print(nvidia.names())"


def asked(folder, wanted, *names):
    """What a process says that needs the GPU `wanted`, where the driver has GPUs of these names."""
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler")
    (folder / "nvml.c").write_text(NVML % ", ".join(f'"{name}"' for name in names))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", folder / "nvml.c"], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", ASK, wanted], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("wanted", ["", "NVIDIA H200"])
def test_the_gpu_that_the_image_is_for_and_an_image_for_every_gpu_are_allowed(tmp_path, wanted):
    assert asked(tmp_path, wanted, "NVIDIA H200", "NVIDIA H200") == "['NVIDIA H200', 'NVIDIA H200']"


@pytest.mark.parametrize("here", [("NVIDIA L4",), ("NVIDIA H200", "NVIDIA L4")])
def test_another_gpu_than_the_image_has_the_libraries_for_is_refused(tmp_path, here):
    said = asked(tmp_path, "NVIDIA H200", *here)
    assert f"this image has only the libraries that NVIDIA H200 needs, and the GPU here is {' and '.join(here)}: start it on" in said


def test_a_gpu_without_a_known_name_is_refused_too(monkeypatch):
    monkeypatch.setattr(nvidia, "names", list)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(CandidateError, match=r"the GPU here is none whose name is known \(CUDA_VISIBLE_DEVICES hides every GPU"):
        nvidia.require_model("NVIDIA H200")


PRELOAD = """
import ctypes, pathlib, sys
from paddleship.system import mapped_libraries
from paddleship.shipped.computing.runtimes import nvidia
names = nvidia.preload()
used = ctypes.CDLL(str(next(pathlib.Path(sys.argv[1]).rglob("libcufft.so.12"))))
seen = lambda: [pathlib.Path(name).name for name in mapped_libraries.of_this_process(["nvidia/**/*.so*"])]
print(sorted(names), seen(), nvidia.release_preloaded(), seen())
"""


def test_a_library_that_was_only_loaded_in_advance_is_released_and_one_in_use_stays(tmp_path):
    folder = tmp_path / "nvidia/cu13/lib"
    folder.mkdir(parents=True)
    for name in ("libcufft.so.12", "libnvrtc.so.13", "libcudnn_graph.so.9"):
        shutil.copy(plugins.LIBRARY, folder / name)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(tmp_path)])}
    done = subprocess.run([sys.executable, "-c", PRELOAD, tmp_path], env=environment, capture_output=True, text=True, check=True)
    both = ["libcufft.so.12", "libnvrtc.so.13"]
    assert done.stdout.strip() == f"{both} {both} None {both[:1]}", "the parts of cuDNN are left to cuDNN"
