#!/usr/bin/env bash
# A Docker engine for this machine: `infra/engine.sh start|stop|status`.
# start  prints DOCKER_HOST of a reachable engine. If there is none, and this is root on Debian or Ubuntu, it
#        installs docker.io and starts dockerd with a data root, socket and pid file of its own.
#        If DOCKER_HOST is set, only that engine is used.
# stop   stops the engine that `start` started, and no other.
# Exit codes: 0 reachable (or stopped), 2 wrong usage, 4 no engine is available.
set -euo pipefail

run=/run/paddleship
data=/var/lib/paddleship/docker
socket="unix://$run/docker.sock"
pidfile="$run/docker.pid"
log="$run/docker.log"

say() { printf '%s\n' "$*" >&2; }

reachable() { DOCKER_HOST="$1" docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

find_engine() {
    local host hosts=(unix:///var/run/docker.sock "$socket")
    [ -z "${DOCKER_HOST:-}" ] || hosts=("$DOCKER_HOST")
    command -v docker >/dev/null || return 1
    for host in "${hosts[@]}"; do
        if reachable "$host"; then
            printf '%s\n' "$host"
            return 0
        fi
    done
    return 1
}

# Whether this process is the engine that `start` started, and not a zombie.
runs_ours() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -q -- "--pidfile $pidfile"; } 2>/dev/null

# The pid of the engine that `start` started; empty if it is not running.
ours() {
    local pid
    pid=$(cat "$pidfile" 2>/dev/null) && runs_ours "$pid" && printf '%s\n' "$pid"
}

# The pid of any dockerd on this machine.
any_dockerd() {
    local process
    for process in $(grep -lsx dockerd /proc/[0-9]*/comm); do
        process=${process%/comm}
        [ -z "$(tr -d '\0' 2>/dev/null <"$process/cmdline")" ] || { printf '%s\n' "${process#/proc/}" && return 0; }
    done 2>/dev/null
    return 1
}

install_engine() (
    # Prevent the package from starting its service: this script starts the engine itself.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true # older lists may be sufficient
    apt-get install -y -qq --no-install-recommends docker.io iptables || return
    # A separate package on newer Debian.
    command -v docker || apt-get install -y -qq --no-install-recommends docker-cli
)

start() {
    local host pid tries
    if host=$(find_engine); then
        printf '%s\n' "$host"
        return 0
    fi
    if [ -n "${DOCKER_HOST:-}" ] && command -v docker >/dev/null; then
        say "error: no engine answers at DOCKER_HOST=$DOCKER_HOST: start that engine, or unset DOCKER_HOST to have one started from here"
        return 4
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
    if host=$(find_engine); then # another `start` was faster
        printf '%s\n' "$host"
        return 0
    fi
    if pid=$(any_dockerd); then
        say "error: dockerd is running already (process $pid) and does not answer here, and a second one would take its network away:" \
            "set DOCKER_HOST to its socket, or stop it first"
        return 4
    fi
    if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
        say "installing docker.io from the distribution's packages (log: $run/install.log)"
        if ! install_engine >"$run/install.log" 2>&1 </dev/null 9>&-; then
            say "error: docker.io cannot be installed ($(grep '^E:' "$run/install.log" | tail -n 1)): fix the package sources," \
                "or install Docker by other means and set DOCKER_HOST; whole log: $run/install.log"
            return 4
        fi
    fi
    rm -f "$pidfile" # of an engine that died
    say "starting dockerd (log: $log)"
    setsid dockerd --host "$socket" --data-root "$data" --exec-root "$run/exec" --pidfile "$pidfile" >"$log" 2>&1 9>&- </dev/null &
    for tries in $(seq 150); do
        if reachable "$socket"; then
            printf '%s\n' "$socket"
            return 0
        fi
        [ "$tries" -lt 10 ] || ours >/dev/null || break
        sleep 0.2
    done
    say "error: dockerd did not start: $(grep -iE 'fail|error' "$log" | tail -n 1) (whole log: $log)"
    return 4
}

stop() {
    local pid tries
    if ! pid=$(ours); then
        say "no engine that this script started is running"
        return 0
    fi
    kill "$pid"
    for tries in $(seq 600); do
        if ! runs_ours "$pid"; then
            say "engine stopped; its images stay in $data"
            return 0
        fi
        sleep 0.1
    done
    say "error: dockerd (process $pid) did not stop within a minute: see $log"
    return 4
}

case "${1:-}" in
    start) start ;;
    stop) stop ;;
    status) find_engine || { say "no Docker engine is reachable"; exit 4; } ;;
    *) say "usage: infra/engine.sh start|stop|status"; exit 2 ;;
esac
