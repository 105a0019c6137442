#!/usr/bin/env bash
# Builds the collector of OpenTelemetry that traces are tested with, of the parts in main.go and as go.mod pins them, with
# the Go that PyPI has: some minutes and 2 GB while it builds, 30 MB afterwards; nothing when it is there.
#
#   tests/otelcol/install.sh            installs it
#   tests/otelcol/install.sh --program  prints where it is, there or not
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../go_tool.sh"
go_tool otelcol "collector of OpenTelemetry" . "$@"
