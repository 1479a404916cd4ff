#!/usr/bin/env bash
# Make sure that the base image is in the engine: `infra/base_image.sh python:3.11-slim`.
# There already (a stand-in: by this recipe): nothing to do. A registry answers: pulled. Neither, on a Debian with packages of that Python (12: 3.11, 13: 3.13):
# a stand-in of the same name is put together from Debian's packages, labelled as such, the same bytes every time.
# Exit codes: 0 the image is in the engine, 4 it is unavailable.
set -euo pipefail

image=${1:?usage: infra/base_image.sh IMAGE}
here=$(cd "$(dirname "$0")" && pwd)
DOCKER_HOST=$("$here/engine.sh" start)
export DOCKER_HOST

say() { printf '%s\n' "$*" >&2; }

label=io.paddleship.stand-in
edition="put together from Debian packages because no registry answered (recipe $(sha256sum <"${BASH_SOURCE[0]}" | cut -c1-12))"
if there=$(docker image inspect --format "{{with .Config.Labels}}{{index . \"$label\"}}{{end}}" "$image" 2>/dev/null); then
    case "$there" in "" | "$edition") exit 0 ;; esac
    say "$image is a stand-in of another recipe; building it again"
fi
if timeout 60 docker pull --quiet "$image" >/dev/null 2>&1; then
    say "pulled $image"
    exit 0
fi
if [[ ! "$image" =~ python:(3\.[0-9]+) ]]; then
    say "error: $image cannot be pulled, and stand-ins exist for python:3.N only: load it with \`docker load\`, or set package.base_image"
    exit 4
fi
python=python${BASH_REMATCH[1]}
known() { [ -n "$(apt-cache show "${1:-$python-minimal}" 2>/dev/null)" ]; }
# A fresh system knows no packages before its first update.
if command -v apt-get >/dev/null && ! known; then apt-get update -qq >&2 || true; fi
if ! command -v apt-get >/dev/null || ! known; then
    say "error: $image cannot be pulled, and this system has no Debian packages of ${python^}: load it with \`docker load\`"
    exit 4
fi

say "no registry answers: building a stand-in for $image from Debian's packages"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/root"
packages=(base-files libc6 libgcc-s1 libstdc++6 libcrypt1 zlib1g libbz2-1.0 liblzma5 libffi8 libexpat1 libssl3 libsqlite3-0 libuuid1
    libncursesw6 libtinfo6 libreadline8 libdb5.3 libnsl2 libtirpc3 media-types ca-certificates
    # As in the official image, since `import paddle` looks at the system through a shell.
    dash bash coreutils grep mawk libc-bin libacl1 libattr1 libgmp10 libpcre2-8-0 libselinux1
    "lib$python-minimal" "lib$python-stdlib" "$python-minimal" "$python")
if known libssl3t64; then # Debian 13 added t64 to the names of some libraries
    for index in "${!packages[@]}"; do if known "${packages[index]}t64"; then packages[index]+=t64; fi; done
    packages+=(libcap2 libzstd1)
fi
if ! (cd "$work/debs" && apt-get download -qq -o APT::Sandbox::User=root "${packages[@]}") >"$work/log" 2>&1; then
    say "error: the packages of the stand-in cannot be downloaded ($(grep '^E:' "$work/log" | tail -n 1)):" \
        "fix the package sources, or load $image with \`docker load\`"
    exit 4
fi
mkdir -p "$work/root/usr/lib" "$work/root/usr/lib64" "$work/root/usr/bin" "$work/root/usr/sbin"
for link in lib lib64 bin sbin; do ln -s "usr/$link" "$work/root/$link"; done
for deb in "$work"/debs/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/root" --keep-directory-symlink; done
mkdir -p "$work/root/var/lib/dpkg" # as dpkg has it, for the bill of materials of images
for deb in "$work"/debs/*.deb; do dpkg-deb --field "$deb" | sed '/^Package:/a Status: install ok installed' && echo; done >"$work/root/var/lib/dpkg/status"
rm -rf "$work/root/usr/share/doc" "$work/root/usr/share/man" "$work/root/usr/share/lintian"
mkdir -p "$work/root/usr/local/bin" "$work/root/tmp" "$work/root/proc" "$work/root/sys" "$work/root/dev"
chmod 1777 "$work/root/tmp"
ln -s mawk "$work/root/usr/bin/awk"
ln -s "/usr/bin/$python" "$work/root/usr/local/bin/python"
ln -s "/usr/bin/$python" "$work/root/usr/local/bin/python3"
printf 'root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n' >"$work/root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$work/root/etc/group"
ldconfig -r "$work/root" 2>/dev/null
rm -f "$work/root/var/cache/ldconfig/aux-cache"
tar -C "$work/root" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=gnu -c . |
    docker import --change 'ENV PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8' --change 'CMD ["python3"]' \
        --change "LABEL $label=\"$edition\"" - "$image" >/dev/null
say "made $image"
