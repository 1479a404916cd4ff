#!/usr/bin/env bash
# An ordinary user beside root on one machine: `tests/ordinary_user.sh [long]`, as root, in CI or by hand.
# It makes a user with a private home (mode 0700), who may use the Docker engine and nothing else, and a copy of this checkout there. Root's
# folders of fixed names in /tmp and root's lock of the machine exist first. The user then runs `make setup`, `make pipeline`, `make ui`,
# `make worker` and a deployment, followed in both ways; with `long`, `make test` too. The user is removed at the end, with all it made but images.
# Exit codes: 0 all of it worked, 1 something did not (its output is shown), 4 not root, or no Docker engine that a group may use.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
user=paddleship-$$
say() { printf '%s\n' "$*" >&2; }

[ "$(id -u)" = 0 ] || { say "error: only root can make another user: run it as root"; exit 4; }
DOCKER_HOST=$("$here/infra/engine.sh" start)
group=$(stat -c %G "${DOCKER_HOST#unix://}")
[ "$group" != root ] || { say "error: only root may use the engine at $DOCKER_HOST: give its socket to a group, such as docker"; exit 4; }

remove_user() {
    for _ in 1 2 3 4 5; do
        pkill -KILL -u "$user" || break # all processes of a user that exists for this script alone
        sleep 0.2
    done
    home=$(getent passwd "$user" | cut -d: -f6)
    rm -rf "/tmp/paddleship-$(id -u "$user")" "/var/tmp/paddleship-$(id -u "$user")" "/tmp/pytest-of-$user"
    userdel "$user"
    rm -rf "$home"
}
useradd --create-home --key HOME_MODE=0700 --shell /bin/bash --groups "$group" "$user"
trap remove_user EXIT

# How this machine reaches package registries.
mapfile -t network < <(env | grep -iE '^(([a-z]+_)?proxy|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|PIP_[A-Z_]+|UV_[A-Z_]+)=' | grep -v _CACHE_DIR)

as_user() {
    setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups env -i HOME="/home/$user" USER="$user" LOGNAME="$user" LANG=C.UTF-8 \
        PATH="$PATH" DOCKER_HOST="$DOCKER_HOST" GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=test \
        GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=test@localhost PREFECT_PORT="$prefect" MLFLOW_PORT="$mlflow" "${network[@]}" "$@"
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
prefect=$(free_port)
mlflow=$(free_port)

step() {
    local began=$SECONDS
    if as_user timeout "${LIMIT_S:-1200}" bash -c "cd ~/checkout && $*" >"$log" 2>&1 </dev/null; then
        say "passed  $((SECONDS - began)) s  $*"
    else
        say "FAILED  $((SECONDS - began)) s  $* (exit code $?)"
        tail -n "${LINES_SHOWN:-40}" "$log" >&2
        return 1
    fi
}

# What root's own runs leave for the machine; what exists stays as it is.
[ -e /tmp/runner_storage ] || { mkdir -m 700 /tmp/runner_storage && trap 'remove_user; rmdir /tmp/runner_storage' EXIT; }
"$here/.venv/bin/python" -c 'from paddleship.system import locks
with locks.turn_on_machine("benchmark"): pass'

log=$(mktemp)
(cd "$here" && git ls-files -z --cached --others --exclude-standard | tar --null --files-from - --ignore-failed-read --create) |
    as_user bash -c 'cd && mkdir checkout && tar --extract --directory checkout --no-same-owner'
step "git init -q -b main && git add -A && git commit -q -m checkout"
step "make setup"
step "make pipeline PARAMS=examples/linear/params.yaml"
step "make ui"
as_user bash -c 'cd ~/checkout && exec make worker' >"$log.worker" 2>&1 </dev/null &
follow="--params examples/linear/params.yaml --until train"
step ".venv/bin/paddleship run --deployment develop-to-deploy/local $follow" || { tail -n 40 "$log.worker" >&2; exit 1; }
parameters="--param params_file=examples/linear/params.yaml --param until=train"
step ".venv/bin/prefect deployment run develop-to-deploy/local --watch --watch-timeout 300 $parameters"
step "make stop"
[ "${1:-}" != long ] || LIMIT_S=7200 LINES_SHOWN=200 step "make test"
rm -f "$log" "$log.worker"
