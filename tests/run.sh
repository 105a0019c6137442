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
source "$repo_root/tests/scratch.sh"
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

# A Python test that takes longer hangs: it fails with where it stands, and the others go on. All of them take half an
# hour; a run that hangs all the same says what it knows.
test_seconds=600
suite_seconds=3600

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

# suite "title" report command...: runs a test command that writes a JUnit report and
# shows how it went; on a terminal, the last percentage that it printed meanwhile.
suite() {
  local title=$1 report=$2 start=$SECONDS before=$failed log rc pid
  shift 2
  log=$reports/$(basename "$report" .xml).log
  printf '%-58s' "  $title"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  while [ -t 1 ] && kill -0 "$pid" 2>/dev/null; do
    printf '\r%-58s%4s' "  $title" "$(grep -oE '[0-9]+%' "$log" | tail -n 1)"
    sleep 1
  done
  [ -t 1 ] && printf '\r%-58s' "  $title"
  wait "$pid"
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

format_is_clean() {
  git ls-files 'server/*.h' 'server/*.cc' 'tests/*.h' 'tests/*.cc' 'loadtest/*.h' 'loadtest/*.cc' |
    xargs clang-format --dry-run --Werror
}

# Linters of their own environment, so that a new version of theirs leaves the compiler's alone.
make_checks() {
  rm -rf "$1.new"
  "$base_python" -m venv "$1.new" &&
    "$1.new/bin/pip" install --disable-pip-version-check --require-hashes --no-deps -r tests/checks.lock &&
    mv "$1.new" "$1"
}

# A minute of each fuzz target, from its corpus; what it finds on the way stays in build/.
fuzz_targets=(zip_archive request_reader wire http json_request jwt)
fuzz() {
  local target i pids=() failed=0
  for target in "${fuzz_targets[@]}"; do
    mkdir -p "build/dev/found/$target"
    "build/dev/tests/fuzz/$target/${target}_fuzzer" -max_total_time=60 -print_final_stats=1 \
      -artifact_prefix="$reports/$target-" "build/dev/found/$target" "tests/fuzz/$target/corpus" \
      >"$reports/$target.log" 2>&1 &
    pids+=($!)
  done
  # Of one that found something, what that is; the other's last words would hide it.
  for i in "${!pids[@]}"; do
    wait "${pids[i]}" && continue
    failed=1
    tail -n 40 "$reports/${fuzz_targets[i]}.log"
  done
  return $failed
}

types_are_clean() {
  "$checks/bin/python" -m mypy --cache-dir "$STOKER_HOME/mypy"
}

echo "Stoker's tests; kept between runs: $STOKER_HOME"
deploy/install.sh --tests || exit 1
python=$(venv_folder)/bin/python
checks=$STOKER_HOME/checks-$( (cat tests/checks.lock && "$base_python" --version) | sha256sum | cut -c1-12)
[ -x "$checks/bin/python" ] || step "Python's linters" make_checks "$checks"
step "release build (gcc, libtorch)" configure_and_build release
step "libstoker_tokenizer.so (cargo)" deploy/tokenizer.sh
step "tsan build (clang, thread-safety analysis)" configure_and_build tsan
step "dev build (clang, ASan + UBSan)" configure_and_build dev --target all "${fuzz_targets[@]/%/_fuzzer}"

check "clang-format" format_is_clean
check "ruff" "$checks/bin/python" -m ruff check --quiet
check "mypy" types_are_clean
$quick || check "clang-tidy on what changed" tests/tidy.sh
ctest_suite "C++ unit tests" release -LE 'slow'
ctest_suite "C++ unit tests under ThreadSanitizer" tsan -LE 'slow|grpc'
ctest_suite "C++ unit tests under ASan and UBSan" dev -LE 'slow'
$quick || check "fuzz targets, a minute each" fuzz
suite "structure of the code" "$reports/layering.xml" \
  "$python" -m pytest -q --timeout "$test_seconds" tests/layering_test.py tests/python_layering_test.py \
  tests/metrics_reference_test.py tests/limits_reference_test.py tests/manuals_test.py \
  --junitxml "$reports/layering.xml"
if ! $quick; then
  tests/h2spec/install.sh || exit 1
  tests/interop/install.sh || exit 1
  tests/otelcol/install.sh || exit 1
  forget_old_scratch
  # A compile takes one core and a daemon waits more than it works: three at a time. Files
  # are dealt out in tests/conftest.py's order.
  suite "compiler, daemon and load generator" "$reports/python.xml" \
    timeout --signal INT --kill-after 60 "$suite_seconds" \
    "$python" -m pytest -q --timeout "$test_seconds" -n 3 --dist loadfile --no-loadscope-reorder \
    -m 'not slow' tests/compiler tests/integration tests/loadtest --junitxml "$reports/python.xml"
fi

echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
