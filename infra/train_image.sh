#!/usr/bin/env bash
# Build the training image: `infra/train_image.sh [TAG]`, default paddleship/train:latest.
# BASE_IMAGE: the base image, with the minor version of .venv's Python (default python:3.N); torch.compile needs one with a C++ compiler.
# DEVICE: cpu (default), cuda (ONNX Runtime for GPUs) or gpu (Paddle for GPUs); for gpu, PADDLE_INDEX is the address of Paddle's own wheels. EXTRAS: further extras of the project, default torch.
# GPU packages that PyTorch can be imported without are left out, because Paddle in the image is the CPU build.
# Needs about 20 GB of disk while it runs, 6 of them in TMPDIR. Exit codes: 0 the image exists, 4 no engine or no base image.
set -euo pipefail

tag=${1:-paddleship/train:latest}
more=${EXTRAS-torch}
extras=${DEVICE:-cpu}${more:+,$more}
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$here/.venv/bin/python}
base=${BASE_IMAGE:-$("$python" -c 'import sys; print("python:%d.%d" % sys.version_info[:2])')}
DOCKER_HOST=${DOCKER_HOST:-$("$here/infra/engine.sh" start)}
export DOCKER_HOST

docker image inspect "$base" >/dev/null 2>&1 || "$here/infra/base_image.sh" "$base"
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir -p "$context/rootfs/site" "$context/rootfs/app" "$context/rootfs/lib"
printf "%s; sys_platform == 'never'\n" triton cuda-bindings nvidia-cusolver nvidia-cuda-cccl nvidia-nvtx >"$context/overrides.txt"
git -C "$here" archive HEAD paddleship tasks flows examples benchmarks/__init__.py benchmarks/graph_modes params.yaml dvc.yaml pyproject.toml README.md LICENSE | tar -x -C "$context/rootfs/app"
(cd "$here" && "$python" -m uv pip install --quiet --python "$python" --target "$context/rootfs/site" --compile-bytecode \
    --overrides "$context/overrides.txt" -c constraints.txt ${PADDLE_INDEX:+--index "$PADDLE_INDEX"} "$context/rootfs/app[$extras]")
cp "$(ldconfig -p | awk '/libgomp\.so\.1 /{print $NF; exit}')" "$context/rootfs/lib/"  # Paddle needs it, and slim base images lack it
rm -rf "$context/rootfs/app/build" "$context/rootfs/app/"*.egg-info "$context/rootfs/site/paddleship"  # the image's own copy is in /opt/paddleship
rm -rf "$context/rootfs/site/bin"                                                                                     # its scripts name this machine's Python
cp "$here/docker/train.Dockerfile" "$context/Dockerfile"
docker build --tag "$tag" --build-arg "BASE_IMAGE=$base" "$context"
