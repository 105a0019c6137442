#!/usr/bin/env bash
# Builds the collector of OpenTelemetry that traces are tested with, of the parts in main.go and as go.mod pins them, with
# the Go that PyPI has: some minutes and 2 GB while it builds, 30 MB afterwards; nothing when it is there.
#
#   tests/otelcol/install.sh            installs it
#   tests/otelcol/install.sh --program  prints where it is, there or not
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/steps.sh"
here=$repo_root/tests/otelcol
# What is pinned names the file, so that an old one is never taken for a new one.
program=$STOKER_HOME/otelcol-$(cat "$here"/{go.mod,go.sum,main.go,requirements.lock} | sha256sum | cut -c1-12)

build() (
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  "$base_python" -m venv "$work/python" &&
    "$work/python/bin/pip" install --disable-pip-version-check --require-hashes --no-deps -r "$here/requirements.lock" &&
    folder=$("$work/python/bin/python" -c 'import go, pathlib; print(pathlib.Path(go.__file__).parent / "bin")') &&
    export PATH=$folder:$PATH GOTOOLCHAIN=local GOFLAGS="-modcacherw -buildvcs=false -mod=readonly" \
      GOPATH=$work/path GOCACHE=$work/cache &&
    cd "$here" && go build -ldflags "-s -w" -o "$work/otelcol" . &&
    mkdir -p "$STOKER_HOME" && mv "$work/otelcol" "$program"
)

case ${1:-} in
  --program) echo "$program" ;;
  '') [ -x "$program" ] || step "collector of OpenTelemetry" build ;;
  *)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
