#!/usr/bin/env bash
# Make sure that HAProxy's image is in the engine: `infra/proxy_image.sh haproxy:2.6 [BASE_IMAGE]`.
# There already: nothing to do. A registry answers: pulled. Neither, on Debian: a stand-in of the same name is put together from
# Debian's packages on the base image, labelled as such.
# Exit codes: 0 the image is in the engine, 4 it is unavailable.
set -euo pipefail

image=${1:?usage: infra/proxy_image.sh IMAGE [BASE_IMAGE]}
base=${2:-python:3.11-slim}
here=$(cd "$(dirname "$0")" && pwd)
DOCKER_HOST=$("$here/engine.sh" start)
export DOCKER_HOST

say() { printf '%s\n' "$*" >&2; }

docker image inspect "$image" >/dev/null 2>&1 && exit 0
if timeout 60 docker pull --quiet "$image" >/dev/null 2>&1; then
    say "pulled $image"
    exit 0
fi
"$here/base_image.sh" "$base"
say "no registry answers: building a stand-in for $image from Debian's packages"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/root"
packages=(haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1 libpcre2-8-0 libssl3 libsystemd0 libcap2 libgcrypt20 libgpg-error0
    liblz4-1 liblzma5 libzstd1 libcrypt1)
if ! (cd "$work/debs" && apt-get download -qq -o APT::Sandbox::User=root "${packages[@]}") >"$work/log" 2>&1; then
    say "error: the packages of the stand-in cannot be downloaded ($(grep '^E:' "$work/log" | tail -n 1)):" \
        "fix the package sources, or load $image with \`docker load\`"
    exit 4
fi
for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
mkdir "$work/files"
cp -a "$work/root/usr/sbin/haproxy" "$work/files/"
find "$work/root" -name '*.so.*' -exec cp -aL {} "$work/files/" \;
cat >"$work/Dockerfile" <<'DOCKERFILE'
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY files/ /usr/local/haproxy/
ENV PATH=/usr/local/haproxy:/usr/local/bin:/usr/bin:/bin LD_LIBRARY_PATH=/usr/local/haproxy
LABEL io.paddleship.stand-in="put together from Debian packages because no registry answered"
CMD ["haproxy", "-v"]
DOCKERFILE
docker build --quiet --build-arg "BASE_IMAGE=$base" --tag "$image" "$work" >/dev/null
docker run --rm --network none "$image" haproxy -v >/dev/null || { say "error: the stand-in for $image does not run"; exit 4; }
say "made $image"
