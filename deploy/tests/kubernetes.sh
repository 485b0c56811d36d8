#!/bin/bash
# Tests the Job with Kubernetes' own API server, controllers and scheduler, built from their Go modules: they accept the Job, and each node gets one Pod.
# There is no kubelet; kubernetes.py runs the command of each Pod's container with the Pod's environment and volumes.
# Needs go 1.26, etcd-server, PyYAML in the Python environment at $VENV, and root. Programs in the folder $KUBERNETES_PROGRAMS are not built again.
#     kubernetes.sh TARDY FOLDER
set -euo pipefail
tardy=$(readlink -f "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
tests=$(cd "$(dirname "$0")" && pwd)
version=1.37.2
programs=${KUBERNETES_PROGRAMS:-$folder/programs}
if ! [ -x "$programs/kube-scheduler" ]; then
    module=$(cd "$folder" && GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    cp -r "$module" "$folder/source"
    chmod -R u+w "$folder/source"
    cd "$folder/source"
    # Parts of the repository are also published as modules of the same release, whose version starts with 0 instead of 1.
    sed -i -E "s#(k8s.io/[a-z-]+) => \./staging/src/k8s.io/[a-z-]+#\1 => \1 v0.${version#1.}#" go.mod
    rm -f go.work go.work.sum
    export GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0
    go build -o "$programs.part/" ./cmd/kube-apiserver ./cmd/kube-controller-manager ./cmd/kube-scheduler
    mv "$programs.part" "$programs"
    cd "$folder"
    rm -rf "$folder/source"
fi

mkdir -p "$folder"/{log,etcd,certificates,results}
cd "$folder"
openssl genrsa -out accounts.key 2048 2>/dev/null
token=$(openssl rand -hex 16)
echo "$token,admin,admin,system:masters" > tokens
cat > kubeconfig <<CONFIG
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "https://127.0.0.1:17443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: here, context: {cluster: here, user: admin}}]
current-context: here
CONFIG
started=
# Ends the programs in reverse order, because the API server would wait for etcd if etcd ended first.
finish() { for process in $started; do kill "$process" 2>/dev/null || true; wait "$process" || true; done; }
trap finish EXIT
etcd --data-dir etcd --listen-client-urls http://127.0.0.1:17379 --advertise-client-urls http://127.0.0.1:17379 \
    --listen-peer-urls http://127.0.0.1:17380 > log/etcd 2>&1 & started="$! $started"
"$programs/kube-apiserver" --etcd-servers=http://127.0.0.1:17379 --bind-address=127.0.0.1 --secure-port=17443 --cert-dir=certificates \
    --token-auth-file=tokens --authorization-mode=RBAC --service-cluster-ip-range=10.0.0.0/24 --service-account-issuer=https://here \
    --service-account-key-file=accounts.key --service-account-signing-key-file=accounts.key > log/apiserver 2>&1 & started="$! $started"
"$programs/kube-controller-manager" --kubeconfig=kubeconfig --leader-elect=false --secure-port=0 --service-account-private-key-file=accounts.key \
    --controllers=job-controller,serviceaccount-controller,persistentvolume-binder-controller > log/controllers 2>&1 & started="$! $started"
"$programs/kube-scheduler" --kubeconfig=kubeconfig --leader-elect=false --secure-port=0 > log/scheduler 2>&1 & started="$! $started"
"$VENV/bin/python" "$tests/kubernetes.py" "$token" "$tests/../kubernetes/boards.yaml" "$tardy" "$folder/results"
