#!/usr/bin/env bash
# Builds the Go client of gRPC's interoperability tests, as go.mod pins it, with the Go that PyPI has: a minute and
# 500 MB while it builds, 30 MB afterwards; nothing when it is there.
#
#   tests/interop/install.sh            installs it
#   tests/interop/install.sh --program  prints where it is, there or not
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../go_tool.sh"
go_tool interop "gRPC's interop client" google.golang.org/grpc/interop/client "$@"
