#!/usr/bin/env bash
# From an empty checkout to ranked sentences: installs what is needed, builds stokerd and
# stokerctl, exports the demo model (all-MiniLM-L6-v2 with its real weights), starts the daemon on
# loopback, shows the warm-up, and asks it something. A second run compiles nothing.
#
#   deploy/quickstart.sh          the daemon keeps running afterwards
#   deploy/quickstart.sh --stop   stops it
#   deploy/quickstart.sh --help
#
# Needs Debian 12 or Ubuntu 24.04 on x86_64, and about 5 GB of disk. Environment:
#   STOKER_HOME          what is kept between runs       (~/.cache/stoker)
#   STOKER_PORT          gRPC port on 127.0.0.1          (8001)
#   STOKER_HTTP_PORT     HTTP port on 127.0.0.1          (8000)
#   STOKER_METRICS_PORT  metrics port on 127.0.0.1       (8002)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
cd "$repo_root"

port=${STOKER_PORT:-8001}
http_port=${STOKER_HTTP_PORT:-8000}
metrics_port=${STOKER_METRICS_PORT:-8002}
run_folder=$repo_root/run
pid_file=$run_folder/stokerd.pid
daemon_log=$run_folder/stokerd.log
stokerd=$repo_root/build/release/server/main/stokerd

# The pid in the file, when that process is still the stokerd that was started.
running_pid() {
  local pid
  pid=$(cat "$pid_file" 2>/dev/null) || return 1
  [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$stokerd" ] ||
    [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$stokerd (deleted)" ] || return 1
  printf '%s' "$pid"
}

stop_daemon() {
  local pid
  if pid=$(running_pid); then
    kill -TERM "$pid"
    # Drains for at most 30 s by itself.
    timeout 40 tail --pid="$pid" -f /dev/null || fail "stokerd (pid $pid) did not end"
  fi
  rm -f "$pid_file"
}

start_daemon() {
  mkdir -p "$run_folder"
  "$stokerd" --model-repository models \
    --listen "127.0.0.1:$port" --http-listen "127.0.0.1:$http_port" --metrics-listen "127.0.0.1:$metrics_port" \
    --cache "$STOKER_HOME/kernels" --compiler-python "$python" \
    >"$daemon_log" 2>&1 </dev/null &
  echo $! >"$pid_file"
  disown
}

case ${1:-} in
  '') ;;
  --stop)
    if running_pid >/dev/null; then
      stop_daemon
      echo "stokerd stopped"
    else
      echo "stokerd is not running"
    fi
    exit 0
    ;;
  --help | -h)
    sed -n '2,16s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *)
    sed -n '2,16s/^# \{0,1\}//p' "$0" >&2
    fail "unknown argument: $1"
    ;;
esac

# Fetching and unpacking torch leaves a core idle, and most of the code needs no torch.
environment_beside_build() {
  local build rc=0
  {
    cmake --preset release -S "$repo_root" -DSTOKER_TORCH=OFF &&
      nice cmake --build build/release --parallel "$(nproc)" --target server_models server_rpc server_status server_health_client
  } &
  build=$!
  deploy/install.sh || rc=$?
  # What went wrong there goes wrong again in the build's own step, which says so.
  wait "$build" || true
  return "$rc"
}

echo "Stoker quick start"
deploy/install.sh --packages
python=$(venv_folder)/bin/python
[ -x "$python" ] || step "Python environment with torch, and half of the build" environment_beside_build
step "build stokerd and stokerctl" configure_and_build release --target stokerd stokerctl
step "demo model all-MiniLM-L6-v2" "$python" deploy/export_demo.py
stop_daemon
start_daemon
echo
"$python" deploy/watch_warmup.py --grpc "127.0.0.1:$port" --pid "$(cat "$pid_file")" ||
  { tail -n 20 "$daemon_log" >&2; fail "stokerd did not become ready; its log is $daemon_log"; }
echo
"$python" deploy/demo_client.py --grpc "127.0.0.1:$port" \
  --metrics "http://127.0.0.1:$metrics_port/metrics"
cat <<EOF

stokerd (pid $(cat "$pid_file")) keeps running:
  gRPC      127.0.0.1:$port   KServe v2 / Open Inference Protocol
  HTTP      127.0.0.1:$http_port   the same
  status    http://127.0.0.1:$metrics_port/
  stokerctl ${stokerd%/main/stokerd}/ctl/stokerctl status --metrics http://127.0.0.1:$metrics_port/metrics
  log       $daemon_log
  stop      deploy/quickstart.sh --stop
EOF
