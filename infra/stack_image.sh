#!/usr/bin/env bash
# Make sure that the image of infra/compose.yaml is in the engine, and print its name: `infra/stack_image.sh`.
# The tag is the hash of what the image is made from, so that a change makes a new one.
# The base image debian:12-slim comes from the engine or a registry. If no registry answers, as root on Debian or Ubuntu, a stand-in of the same name is
# made with mmdebstrap, labelled as such. The build installs Debian packages, so it needs their servers.
# DEVICE: cpu (default), cuda (ONNX Runtime for GPUs) or gpu (Paddle for GPUs); for gpu, PADDLE_INDEX is the address of Paddle's own wheels.
# Needs a .venv with Python 3.11, which is that of the image. Exit codes: 0 the image exists, 4 another Python, no engine, base image or packages.
set -euo pipefail

base=${BASE_IMAGE:-debian:12-slim}
device=${DEVICE:-cpu}
here=$(cd "$(dirname "$0")/.." && pwd)
python=$(realpath --no-symlinks "${PYTHON:-$here/.venv/bin/python}")
if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
    echo "error: the image has Debian 12's Python 3.11, and .venv has another one: run \`make setup PYTHON=python3.11\`" >&2
    exit 4
fi
recipe=(constraints.txt pyproject.toml docker/stack.Dockerfile docker/stack_service.sh infra/stack_image.sh)
tag=paddleship/stack:$( (cd "$here" && echo "$base $device" && cat "${recipe[@]}") | sha256sum | cut -c1-12)
DOCKER_HOST=$("$here/infra/engine.sh" start)
export DOCKER_HOST

if docker image inspect "$tag" >/dev/null 2>&1; then
    printf '%s\n' "$tag"
    exit 0
fi

say() { printf '%s\n' "$*" >&2; }

make_base() {
    if timeout 60 docker pull --quiet "$base" >/dev/null 2>&1; then
        say "pulled $base"
        return
    fi
    if [ "$base" != debian:12-slim ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        say "error: $base cannot be pulled, and only root on Debian or Ubuntu can make a stand-in for debian:12-slim: load it with \`docker load\`"
        exit 4
    fi
    say "no registry answers: building a stand-in for $base with mmdebstrap"
    if ! command -v mmdebstrap >/dev/null; then apt-get install -y -qq --no-install-recommends mmdebstrap >&2; fi
    mmdebstrap --quiet --variant=minbase --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' bookworm - |
        docker import --change 'CMD ["bash"]' \
            --change 'LABEL io.paddleship.stand-in="made with mmdebstrap because no registry answered"' - "$base" >/dev/null
}

docker image inspect "$base" >/dev/null 2>&1 || make_base
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
"$python" -m uv venv --quiet --relocatable --python "$python" "$context/venv"
(cd "$here" && "$python" -m uv pip install --quiet --python "$context/venv/bin/python" --python-version 3.11.2 --compile-bytecode -c constraints.txt \
    ${PADDLE_INDEX:+--index "$PADDLE_INDEX"} -r pyproject.toml --extra "$device" --extra openvino --extra stack)
ln -sfn /usr/bin/python3.11 "$context/venv/bin/python" # the image's Python, of the same minor version
printf 'home = /usr/bin\ninclude-system-site-packages = false\n' >"$context/venv/pyvenv.cfg"
cp "$here/docker/stack_service.sh" "$context"
cp "$here/docker/stack.Dockerfile" "$context/Dockerfile"
say "building $tag"
docker build --quiet --tag "$tag" --build-arg "BASE_IMAGE=$base" "$context" >&2 || { say "error: $tag cannot be built: see the lines above"; exit 4; }
say "made $tag"
printf '%s\n' "$tag"
