#!/usr/bin/env bash
# A Docker engine for this machine: `infra/engine.sh start|stop|status`.
# start  prints DOCKER_HOST of a reachable engine; where there is none, and this is root on Debian or Ubuntu,
#        installs docker.io and starts dockerd with a data root, socket and pid file of its own.
# stop   ends the engine that start started, and no other.
# Exit codes: 0 reachable (or stopped), 4 no engine to be had.
set -euo pipefail

run=/run/paddleship
data=/var/lib/paddleship/docker
socket="unix://$run/docker.sock"
pidfile="$run/docker.pid"
log="$run/docker.log"

say() { printf '%s\n' "$*" >&2; }

reachable() { DOCKER_HOST="$1" docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

find_engine() {
    local host
    command -v docker >/dev/null || return 1
    for host in "${DOCKER_HOST:-}" unix:///var/run/docker.sock "$socket"; do
        if [ -n "$host" ] && reachable "$host"; then
            printf '%s\n' "$host"
            return 0
        fi
    done
    return 1
}

# The pid of the engine that start started, nothing when it is not running.
ours() {
    local pid
    pid=$(cat "$pidfile" 2>/dev/null) || return 1
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q -- "--pidfile $pidfile" && printf '%s\n' "$pid"
}

install_engine() {
    command -v dockerd >/dev/null && return 0
    say "installing docker.io from Debian's packages"
    apt-get update -qq >&2
    # The package would start a service of its own on installation; this engine is started by hand instead.
    local policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
        trap 'rm -f /usr/sbin/policy-rc.d' RETURN
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io iptables >/dev/null 2>&1
    command -v docker >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker-cli >/dev/null 2>&1
}

start() {
    local host
    if host=$(find_engine); then
        printf '%s\n' "$host"
        return 0
    fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        say "error: no Docker engine is reachable, and only root on Debian or Ubuntu can have one installed from here:" \
            "install Docker (https://docs.docker.com/engine/install/), start it, or set DOCKER_HOST;" \
            "without one, \`make pipeline UNTIL=benchmark\` runs everything before packaging"
        return 4
    fi
    mkdir -p "$run" "$data"
    exec 9>"$run/lock"
    flock 9
    if host=$(find_engine); then # another start was quicker
        printf '%s\n' "$host"
        return 0
    fi
    install_engine
    say "starting dockerd (log: $log)"
    setsid dockerd --host "$socket" --data-root "$data" --exec-root "$run/exec" --pidfile "$pidfile" >"$log" 2>&1 9>&- </dev/null &
    local tries
    for tries in $(seq 150); do
        if reachable "$socket"; then
            printf '%s\n' "$socket"
            return 0
        fi
        [ "$tries" -lt 10 ] || kill -0 $! 2>/dev/null || break
        sleep 0.2
    done
    say "error: dockerd did not start: $(grep -iE 'fail|error' "$log" | tail -n 1) (whole log: $log)"
    return 4
}

stop() {
    local pid
    if ! pid=$(ours); then
        say "no engine of ours is running"
        return 0
    fi
    kill "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    say "engine stopped; its images stay in $data"
}

case "${1:-}" in
    start) start ;;
    stop) stop ;;
    status) find_engine || { say "no Docker engine is reachable"; exit 4; } ;;
    *) say "usage: infra/engine.sh start|stop|status"; exit 2 ;;
esac
