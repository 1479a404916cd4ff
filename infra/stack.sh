#!/usr/bin/env bash
# The services of infra/compose.yaml: `infra/stack.sh up|down|status|remove`, `infra/stack.sh backup|restore FOLDER`.
# up      builds the image, makes passwords (and an empty git_credentials) if there are none, starts the services, and waits until all are healthy.
# down    stops them; their data stays.
# status  lists them.
# remove  stops them and deletes their data; the passwords stay.
# backup  stops all writers, writes the databases, objects and images to FOLDER, a new one, with their hashes, and starts the services again.
# restore checks those hashes, fills a stack that has no data, and starts it.
# Docker Compose is needed: as root on Debian or Ubuntu, it is installed.
# STACK_NAME is the name of the compose project (default: paddleship), STACK_IMAGE an image that exists. Ports, pool and repository: docs/how-to/team-servers.md.
# Exit codes: 0 done, 2 wrong usage or a backup that cannot be used, 4 no engine, no Docker Compose, or a service that is not healthy.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
DOCKER_HOST=$("$here/engine.sh" start)
STACK_SECRETS=${STACK_SECRETS:-$here/../.paddleship/secrets}
STACK_GIT=${STACK_GIT:-$(git -C "$here" rev-parse --path-format=absolute --git-common-dir)}
export DOCKER_HOST STACK_SECRETS STACK_GIT

say() { printf '%s\n' "$*" >&2; }

find_compose() {
    if docker compose version >/dev/null 2>&1; then
        compose=(docker compose)
    else
        command -v docker-compose >/dev/null && compose=(docker-compose)
    fi
}

if ! find_compose && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing docker-compose from the distribution's packages"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker-compose >/dev/null || true
fi
if ! find_compose; then
    say "error: Docker Compose is not installed: install its plugin (https://docs.docker.com/compose/install/), or Debian's docker-compose"
    exit 4
fi
name=${STACK_NAME:-paddleship}
compose+=(--project-name "$name" --file "$here/compose.yaml")

random() { head -c 24 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }

# The folder keeps other users out; the files can be read by the user of the services.
make_secrets() {
    mkdir -p "$STACK_SECRETS"
    chmod 700 "$STACK_SECRETS"
    [ -e "$STACK_SECRETS/database_password" ] || random >"$STACK_SECRETS/database_password"
    [ -e "$STACK_SECRETS/store_credentials" ] ||
        printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' "$(random)" "$(random)" >"$STACK_SECRETS/store_credentials"
    touch "$STACK_SECRETS/git_credentials"
    chmod 644 "$STACK_SECRETS"/* # also those that a person wrote, or git on this machine
}

unhealthy() {
    "${compose[@]}" ps -q | xargs docker inspect \
        --format '{{if ne .State.Health.Status "healthy"}}{{index .Config.Labels "com.docker.compose.service"}} {{end}}' | tr -d '\n'
}

prepare() {
    STACK_IMAGE=${STACK_IMAGE:-$("$here/stack_image.sh")}
    export STACK_IMAGE
    make_secrets
}

# Start all services, or those named, and wait until they are healthy.
start() {
    local waiting end
    "${compose[@]}" up --detach "$@" || { say "error: the services did not start: see the lines above"; return 4; }
    end=$((SECONDS + 300))
    while waiting=$(unhealthy) || waiting="not known "; [ -n "$waiting" ]; do
        if [ "$SECONDS" -gt "$end" ]; then
            say "error: not healthy after 300 s: ${waiting% }: see \`docker logs\` of its container"
            return 4
        fi
        sleep 1
    done
}

up() {
    prepare
    start || return
    say "Prefect  http://127.0.0.1:${PREFECT_PORT:-4200}"
    say "MLflow   http://127.0.0.1:${MLFLOW_PORT:-5000}"
}

# shellcheck source=infra/stack_backup.sh
. "$here/stack_backup.sh"

case "${1:-}" in
    up) up ;;
    backup) backup "${2:-}" ;;
    restore) restore "${2:-}" ;;
    down) "${compose[@]}" down ;;
    status) "${compose[@]}" ps ;;
    remove) "${compose[@]}" down --volumes ;;
    *) say "usage: infra/stack.sh up|down|status|remove, or infra/stack.sh backup|restore FOLDER"; exit 2 ;;
esac
