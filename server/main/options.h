// What the command line says. Immutable once parsed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kernel_cache/eviction.h"
#include "main/gpu_options.h"
#include "models/resource_limits.h"
#include "repository/snapshot_source.h"
#include "telemetry/telemetry.h"
#include "tensor/device.h"
#include "wire/ip_address.h"
#include "wire/limits.h"
#include "wire/tls_context.h"

namespace stoker {

struct Options {
  std::string model_repository;
  std::string model_name;  // of a folder that holds model.pt2 itself; its name
                           // unless given
  std::vector<std::string> operator_libraries;  // "NAME=FILE" each
  std::string cache;                            // the kernel cache's folder
  std::vector<std::string> cache_layers;        // read-only ones below it
  std::vector<std::string> trust;  // public keys that must have signed those
  CacheLimits cache_limits;
  bool require_cache = false;
  bool warm_only = false;
  Device default_device;  // of models whose model.yaml says none
  GpuServing gpu;
  std::string tokenizer_library;
  std::string listen = "0.0.0.0:8001";
  std::string http_listen = "0.0.0.0:8000";  // empty: HTTP is not offered
  TlsOptions tls;                            // no certificate: plain text
  std::string policy;                        // empty: everybody, everything
  std::vector<IpNetwork> proxies;            // empty: clients connect
  WireLimits wire;
  std::vector<int> port_cpus;     // a thread of the ports on each; empty: any
  int metrics_connections = 256;  // who scrapes needs one
  std::string metrics_listen = "127.0.0.1:8002";
  bool metrics_tls = false;                               // there too
  bool triton_metrics = false;                            // by its names too
  absl::Duration repository_poll = absl::ZeroDuration();  // 0: read once
  bool explicit_control = false;
  std::vector<std::string> load_models;  // with that, at the start
  OverrideLimits overrides{.max_bytes = int64_t{1} << 30, .max_loads = 32};
  absl::Duration repository_wait = absl::ZeroDuration();  // for it to appear
  absl::Duration rebucket = absl::ZeroDuration();
  absl::Duration drain = absl::Seconds(30);
  bool allow_client_shm = false;
  int64_t max_request_bytes = 0;  // held by requests not answered yet
  int64_t memory_budget = 0;      // of loaded versions; 0: no limit
  ResourceLimits resources;       // that models name

  bool isolate_unlisted = true;
  bool frozen = false;
  bool fixed_threads = false;
  std::string compiler_python = "python3";  // empty: this host compiles nothing
  std::string compiler_folder;  // holds the Python package `compiler`
  std::string cxx;              // as keys name it; empty: what is here
  int compile_jobs = 1;
  absl::Duration compile_timeout = absl::Minutes(15);
  int64_t compile_memory_bytes = int64_t{8} << 30;
  bool allow_passes = false;
  bool compile_sandbox = true;
  bool promotion_checks = true;
  bool recheck_promotions = false;

  std::string log_level = "info";
  TelemetryOptions telemetry;
};

// The options, or nullopt when the process should end now with `exit_code`
// (help and version: 0, a mistake: 2, after one line on stderr that names the
// flag).
std::optional<Options> ParseOptions(int argc, char** argv, int& exit_code);

}  // namespace stoker
