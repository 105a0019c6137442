# Sourced by tests/run.sh and tests/deploy/run.sh: what the tests keep between runs, and for how long.
export STOKER_TEST_SCRATCH=${STOKER_TEST_SCRATCH:-$STOKER_HOME/test-scratch}

# A product's name changes with what it was made from, and a run that is killed leaves its folders. After a week either
# is gone; what is still good then is made again.
forget_old_scratch() {
  local headers
  if [ -d "$STOKER_TEST_SCRATCH" ]; then
    find "$STOKER_TEST_SCRATCH" -mindepth 1 -maxdepth 1 -type d -mtime +6 \
      -regex '.*/\(compiled\|exported\|fresh\|monitored\|spoiled\)-[^/]*' -exec rm -rf {} +
  fi
  # The compiler's precompiled headers, 0.5 GB for each set of flags.
  for headers in "$STOKER_TEST_SCRATCH"{,/kernels/v1/scratch}/headers; do
    [ ! -d "$headers" ] || find "$headers" -mindepth 1 -maxdepth 1 -mtime +6 -exec rm -rf {} +
  done
}
