#!/usr/bin/env bash
# A Kubernetes cluster of one node for tests: `tests/flows/cluster.sh build|start|stop`.
# build  compiles Kubernetes from Debian's source package, once (as root on Debian 12; about 10 minutes on two cores).
# start  starts it on the Docker engine and prints the path of its kubeconfig, whose context is `paddleship-test`.
# stop   stops it, and removes its pods and its data.
# It listens on the engine's bridge only. It has no DNS: pods use that of the machine.
# Exit codes: 0 done, 2 wrong usage, 4 something it needs is unavailable.
set -euo pipefail

home=/var/lib/paddleship/kubernetes
bin=$home/bin
run=$home/run
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy)
pause=paddleship/test-pause:1
here=$(cd "$(dirname "$0")/../.." && pwd)

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $*"; exit 4; }

build() {
    local sources source
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then fail "Kubernetes can be built by root on Debian only"; fi
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    apt-get install -y -qq --no-install-recommends conntrack etcd-server gcc golang-go libc6-dev make openssl rsync >&2
    command -v kubectl >/dev/null || apt-get install -y -qq --no-install-recommends kubernetes-client >&2
    mkdir -p "$work/sources" "$work/lists"
    for source in /etc/apt/sources.list.d/*.sources; do sed 's/^Types:.*/Types: deb-src/' "$source" >"$work/sources/${source##*/}"; done
    sed 's/^deb /deb-src /' /etc/apt/sources.list >"$work/sources/main.list" 2>/dev/null || true
    sources=(-o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$work/sources" -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)
    apt-get "${sources[@]}" update -qq >&2 || true # a source without source packages is no obstacle
    (cd "$work" && apt-get "${sources[@]}" source --download-only -qq kubernetes) >&2 || fail "Debian's source package kubernetes cannot be downloaded"
    mkdir "$work/kubernetes"
    tar -xzf "$work"/kubernetes_*.orig.tar.gz -C "$work/kubernetes" --strip-components=1
    cd "$work/kubernetes"
    if ! (echo -500 >/proc/self/oom_score_adj) 2>/dev/null; then # this machine may not protect processes from its memory killer
        sed -i 's/defaultSandboxOOMAdj int = -998/defaultSandboxOOMAdj int = 0/' pkg/kubelet/dockershim/docker_sandbox.go
        sed -i -E 's/(OOMScoreAdj +int = )-99[79]/\10/' pkg/kubelet/qos/policy.go
    fi
    mkdir -p .go/src/k8s.io
    ln -s ../../.. .go/src/k8s.io/kubernetes
    say "compiling Kubernetes"
    HOME=$work GOPATH=$PWD/.go GO111MODULE=off CGO_ENABLED=0 KUBE_GIT_VERSION=v1.20.2 KUBE_GIT_MAJOR=1 KUBE_GIT_MINOR=20 KUBE_GIT_COMMIT=debian \
        KUBE_GIT_TREE_STATE=archive make -s WHAT="$(printf 'cmd/%s ' "${programs[@]}")" >&2
    gcc -Os -static -o _output/pause build/pause/linux/pause.c
    mkdir -p "$bin.new"
    for program in "${programs[@]}"; do cp "_output/local/go/bin/$program" "$bin.new/"; done
    cp _output/pause "$bin.new/"
    rm -rf "$bin"
    mv "$bin.new" "$bin"
    say "made $bin"
}

# A user of the cluster with a token: `user NAME GROUP`.
user() {
    local token
    token=$(openssl rand -hex 16)
    printf '%s,%s,%s%s\n' "$token" "$1" "$1" "${2:+,\"$2\"}" >>tokens.csv
    cat >"${1//:/-}.kubeconfig" <<CONFIG
apiVersion: v1
kind: Config
current-context: paddleship-test
clusters: [{name: test, cluster: {server: "https://$host:$port", certificate-authority: $run/ca.crt}}]
users: [{name: test, user: {token: $token}}]
contexts: [{name: paddleship-test, context: {cluster: test, user: test}}]
CONFIG
}

# A certificate of the cluster's own authority: `certificate NAME SUBJECT NAMES`.
certificate() {
    openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2>/dev/null
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out "$1.crt" -extfile <(echo "$3") 2>/dev/null
}

launch() {
    local name=$1
    shift
    setsid "$@" >"$name.log" 2>&1 </dev/null &
    echo $! >"$name.pid"
}

start() {
    local bridge host port=16443 etcd=http://127.0.0.1:12379
    [ -x "$bin/kubelet" ] || fail "there is no Kubernetes: build one with \`tests/flows/cluster.sh build\`"
    DOCKER_HOST=$("$here/infra/engine.sh" start)
    export DOCKER_HOST
    bridge=$(docker network inspect bridge --format '{{index .Options "com.docker.network.bridge.name"}}')
    host=$(ip -4 -o address show dev "$bridge" | awk '{ sub("/.*", "", $4); print $4 }')
    stop
    mkdir -p "$run"
    chmod 700 "$run"
    cd "$run"
    docker image inspect "$pause" >/dev/null 2>&1 || tar -C "$bin" -c pause | docker import --change 'ENTRYPOINT ["/pause"]' - "$pause" >/dev/null
    openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=paddleship-test 2>/dev/null
    certificate server /CN=kube-apiserver "subjectAltName=DNS:kubernetes.default.svc,IP:10.96.0.1,IP:$host"
    certificate asks-kubelet /O=system:masters/CN=kube-apiserver "extendedKeyUsage=clientAuth"
    openssl genrsa -out accounts.key 2048 2>/dev/null
    user admin system:masters
    user system:kube-controller-manager ""
    user system:kube-scheduler ""
    user system:kube-proxy ""
    user system:node:test system:nodes
    launch etcd etcd --data-dir etcd --listen-client-urls "$etcd" --advertise-client-urls "$etcd" --listen-peer-urls http://127.0.0.1:12380
    launch kube-apiserver "$bin/kube-apiserver" --etcd-servers="$etcd" --bind-address="$host" --advertise-address="$host" --secure-port="$port" \
        --tls-cert-file=server.crt --tls-private-key-file=server.key --token-auth-file=tokens.csv --authorization-mode=Node,RBAC \
        --enable-admission-plugins=NodeRestriction --service-cluster-ip-range=10.96.0.0/24 --service-account-issuer=https://kubernetes.default.svc \
        --service-account-key-file=accounts.key --service-account-signing-key-file=accounts.key --kubelet-preferred-address-types=InternalIP \
        --kubelet-client-certificate=asks-kubelet.crt --kubelet-client-key=asks-kubelet.key
    export KUBECONFIG=$run/admin.kubeconfig
    wait_for kubectl get --raw /readyz
    launch kube-controller-manager "$bin/kube-controller-manager" --kubeconfig=system-kube-controller-manager.kubeconfig --leader-elect=false \
        --use-service-account-credentials --service-account-private-key-file=accounts.key --root-ca-file=ca.crt --port=0 --bind-address=127.0.0.1
    launch kube-scheduler "$bin/kube-scheduler" --kubeconfig=system-kube-scheduler.kubeconfig --leader-elect=false --port=0 --bind-address=127.0.0.1
    cat >kubelet.yaml <<CONFIG
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $host
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: $run/ca.crt}, webhook: {enabled: true}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
imageGCHighThresholdPercent: 100
makeIPTablesUtilChains: false
evictionHard: {memory.available: 100Mi}
CONFIG
    launch kubelet "$bin/kubelet" --kubeconfig=system-node-test.kubeconfig --config=kubelet.yaml --hostname-override=test --node-ip="$host" \
        --root-dir="$run/kubelet" --cert-dir="$run/kubelet-pki" --container-runtime=docker --docker-endpoint="$DOCKER_HOST" \
        --pod-infra-container-image="$pause"
    launch kube-proxy "$bin/kube-proxy" --kubeconfig=system-kube-proxy.kubeconfig --proxy-mode=iptables --hostname-override=test \
        --bind-address="$host" --healthz-bind-address=127.0.0.1:10256
    wait_for kubectl wait --for=condition=Ready node/test --timeout=1s
    wait_for kubectl get serviceaccount default
    printf '%s\n' "$KUBECONFIG"
}

# Wait until a command succeeds, at most two minutes.
wait_for() {
    local tries
    for tries in $(seq 120); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 1
    done
    fail "Kubernetes did not become ready in $tries s: see the logs in $run"
}

stop() {
    local name pid containers table chain chains
    [ -d "$run" ] || return 0
    for name in kubelet kube-proxy kube-scheduler kube-controller-manager kube-apiserver etcd; do
        pid=$(cat "$run/$name.pid" 2>/dev/null) || continue
        if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q -- "$name"; then kill "$pid"; fi
        while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    done
    DOCKER_HOST=${DOCKER_HOST:-$("$here/infra/engine.sh" start)}
    containers=$(DOCKER_HOST=$DOCKER_HOST docker ps --all --quiet --filter label=io.kubernetes.pod.namespace)
    # shellcheck disable=SC2086 # ids
    [ -z "$containers" ] || DOCKER_HOST=$DOCKER_HOST docker rm --force $containers >/dev/null
    for table in filter nat mangle; do
        iptables -t "$table" -S | sed -n '/-j KUBE-/s/^-A/-D/p' | xargs --no-run-if-empty -L1 iptables -t "$table"
        chains=$(iptables -t "$table" -S | sed -n 's/^-N \(KUBE-.*\)/\1/p')
        for chain in $chains; do iptables -t "$table" -F "$chain"; done
        for chain in $chains; do iptables -t "$table" -X "$chain"; done
    done
    { grep -s "$run/" /proc/mounts || true; } | cut -d' ' -f2 | sort -r | xargs --no-run-if-empty umount
    rm -rf "$run"
}

case "${1:-}" in
build | start | stop) "$1" ;;
*) say "usage: tests/flows/cluster.sh build|start|stop"; exit 2 ;;
esac
