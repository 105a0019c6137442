#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test that needs no GPU. Ends with
# the number of tests passed and failed; exit code 0 when none failed.
#
#   tests/run.sh          everything
#   tests/run.sh --quick  without the tests that compile models or start the daemon
#
# What later runs reuse (ccache, compiled artifacts, the Python environment) is kept in
# $STOKER_HOME, by default ~/.cache/stoker.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../deploy/steps.sh"
cd "$repo_root"

quick=false
case ${1:-} in
  '') ;;
  --quick) quick=true ;;
  *)
    sed -n '2,9s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac

passed=0
failed=0
reports=build/reports
rm -rf "$reports"
mkdir -p "$reports" "$STOKER_HOME"

# Adds the counts of JUnit files and names what failed.
count() {
  local report=$1 counts
  counts=$("$base_python" - "$report" <<'PY'
import sys, xml.etree.ElementTree as tree
try:
    cases = list(tree.parse(sys.argv[1]).iter("testcase"))
except (OSError, tree.ParseError) as error:
    print(0, 1)
    print(f"    no report: {error}", file=sys.stderr)
    sys.exit()
bad = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
skipped = [c for c in cases if c.find("skipped") is not None]
for case in bad:
    print(f"    FAILED {case.get('classname', '')}.{case.get('name')}", file=sys.stderr)
print(len(cases) - len(bad) - len(skipped), len(bad))
PY
  )
  passed=$((passed + ${counts% *}))
  failed=$((failed + ${counts#* }))
}

declare -A begun

# begin report command...: starts a test command that writes a JUnit report.
begin() {
  local report=$1
  shift
  "$@" >"$(log_of "$report")" 2>&1 </dev/null &
  begun[$report]=$!
}
log_of() { printf '%s/%s.log' "$reports" "$(basename "$1" .xml)"; }

# finish "title" report: waits for what was begun and shows how it went.
finish() {
  local title=$1 report=$2 start=$SECONDS before=$failed log rc
  log=$(log_of "$report")
  printf '%-58s' "  $title"
  wait "${begun[$report]}"
  rc=$?
  count "$report" 2>"$log.failures"
  if [ "$rc" -ne 0 ] && [ "$failed" -eq "$before" ]; then
    failed=$((failed + 1))
    echo "    exit code $rc without a failed test" >>"$log.failures"
  fi
  if [ "$failed" -eq "$before" ]; then
    printf 'ok %5d s\n' $((SECONDS - start))
  else
    printf 'FAILED\n'
    cat "$log.failures"
    tail -n 60 "$log" | cut -c1-220
  fi
}

# suite "title" report command...
suite() {
  local title=$1 report=$2
  shift 2
  begin "$report" "$@"
  finish "$title" "$report"
}

ctest_suite() {
  local title=$1 preset=$2
  shift 2
  suite "$title" "$reports/$preset.xml" ctest --test-dir "build/$preset" --parallel "$(nproc)" \
    --output-on-failure --no-tests=error --output-junit "$repo_root/$reports/$preset.xml" "$@"
}

# check "title" command...: counts as one test.
check() {
  local title=$1 start=$SECONDS log
  shift
  log=$reports/$(printf '%s' "$title" | tr -cs 'a-zA-Z0-9' '-').log
  printf '%-58s' "  $title"
  if "$@" >"$log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    printf 'ok %5d s\n' $((SECONDS - start))
  else
    failed=$((failed + 1))
    printf 'FAILED\n'
    tail -n 40 "$log" | cut -c1-220
  fi
}

# every_second FIRST file...: every second file, from the FIRST on.
every_second() {
  local index=$1
  shift
  while [ "$index" -lt "$#" ]; do
    index=$((index + 1))
    echo "${!index}"
    index=$((index + 1))
  done
}

format_is_clean() {
  git ls-files 'server/*.h' 'server/*.cc' 'tests/*.h' 'tests/*.cc' 'loadtest/*.h' 'loadtest/*.cc' |
    xargs clang-format --dry-run --Werror
}

echo "Stoker's tests; kept between runs: $STOKER_HOME"
deploy/install.sh --tests || exit 1
python=$(venv_folder)/bin/python
step "release build (gcc, libtorch)" configure_and_build release
step "tsan build (clang, thread-safety analysis)" configure_and_build tsan

check "clang-format" format_is_clean
ctest_suite "C++ unit tests" release -LE 'slow'
ctest_suite "C++ unit tests under ThreadSanitizer" tsan -LE 'slow|grpc'
suite "structure of the code" "$reports/layering.xml" \
  "$python" -m pytest -q tests/layering_test.py tests/metrics_reference_test.py \
  --junitxml "$reports/layering.xml"
if ! $quick; then
  export STOKER_TEST_SCRATCH=$STOKER_HOME/test-scratch
  # One compile takes one core, so these two take half the time together.
  begin "$reports/hostile.xml" \
    "$python" -m pytest -q tests/compiler/test_hostile.py --junitxml "$reports/hostile.xml"
  suite "compile worker and exporter" "$reports/compiler.xml" \
    "$python" -m pytest -q tests/compiler --ignore tests/compiler/test_hostile.py \
    --junitxml "$reports/compiler.xml"
  finish "hostile values in compiled code" "$reports/hostile.xml"
  # Daemons wait more than they work, so both halves together take little longer than one.
  begin "$reports/integration-1.xml" \
    "$python" -m pytest -q $(every_second 0 tests/integration/test_*.py) \
    --junitxml "$reports/integration-1.xml"
  suite "the daemon, driven by stock clients, one half" "$reports/integration-2.xml" \
    "$python" -m pytest -q $(every_second 1 tests/integration/test_*.py) \
    --junitxml "$reports/integration-2.xml"
  finish "the daemon, driven by stock clients, the other half" "$reports/integration-1.xml"
  suite "the load generator, against the daemon" "$reports/loadtest.xml" \
    "$python" -m pytest -q tests/loadtest --junitxml "$reports/loadtest.xml"
fi

echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
