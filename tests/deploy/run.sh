#!/usr/bin/env bash
# Tests what lies in deploy/, and the Dockerfile: alert rules, dashboards, the chart, KServe's
# runtime, the unit, images, compose file, Debian package, a release; and the status page in a
# browser. Not part of tests/run.sh. What a test needs and this machine lacks is said at the end,
# as SKIPPED with the reason; exit code 0 when nothing failed.
#
#   tests/deploy/run.sh              everything
#   tests/deploy/run.sh -k chart     what pytest's -k selects
#
# The dashboards', the page's and the package's tests run the release build (build/release, or
# $STOKERD). Compiled artifacts, screenshots and, in 25 GB, Docker's data are kept in
# $STOKER_HOME/test-scratch; Docker runs as a daemon of the tests' own, or is the one that
# $DOCKER_HOST names.
# STOKER_REQUIRE_ALL=1: a skip is a failure.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/steps.sh"
source "$repo_root/tests/scratch.sh"
cd "$repo_root"

case ${1:-} in
  -h | --help)
    sed -n '2,15s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
python=$(venv_folder)/bin/python
[ -x "$python" ] || fail "the Python environment is missing: run deploy/install.sh --tests"
forget_old_scratch
report=$(mktemp)
trap 'rm -f "$report"' EXIT
"$python" -m pytest -q -rs --timeout 3600 tests/deploy "$@" | tee "$report"
rc=${PIPESTATUS[0]}
if [ "${STOKER_REQUIRE_ALL:-0}" = 1 ] && grep -q '^SKIPPED' "$report"; then
  echo "stoker: STOKER_REQUIRE_ALL=1, and tests were skipped" >&2
  rc=1
fi
exit "$rc"
