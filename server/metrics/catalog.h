// Every metric that stokerd exports. Labels come from closed sets: models and
// versions of the repository, buckets of a model, and the enumerations named
// here.
#pragma once

#include "absl/types/span.h"
#include "metrics/metrics.h"

namespace stoker::metric {

inline constexpr MetricDef kBuildInfo{
    "stoker_build_info", MetricKind::kGauge, "version,torch,march",
    "1, with the build's versions as labels."};
inline constexpr MetricDef kStartupPhaseSeconds{
    "stoker_startup_phase_seconds", MetricKind::kGauge, "phase",
    "Seconds from process start to the end of each start-up phase: runtime, "
    "listening, ready."};
inline constexpr MetricDef kReadyTimestamp{
    "stoker_ready_timestamp_seconds", MetricKind::kGauge, "",
    "Unix time at which the server last became ready; 0 while it is not."};

inline constexpr MetricDef kRequests{
    "stoker_requests_total", MetricKind::kCounter, "model,version,outcome",
    "Finished inference requests by outcome: ok, or the gRPC code in lower "
    "case."};
inline constexpr MetricDef kRequestSeconds{
    "stoker_request_seconds", MetricKind::kHistogram, "model,version",
    "Time from the arrival of a request to its answer.", Edges::kLatency};
inline constexpr MetricDef kRefusedRequests{
    "stoker_refused_requests_total", MetricKind::kCounter, "model,reason",
    "Requests refused for now, by reason: memory (all requests together), "
    "model_memory (the model's share), queue (full), queue_timeout, stalled "
    "(the client did not send or take what was due). The model is empty where "
    "it was not known yet."};
inline constexpr MetricDef kRequestMemory{
    "stoker_request_memory_bytes", MetricKind::kGauge, "",
    "Bytes held by requests that are not answered yet, their answers "
    "included."};
inline constexpr MetricDef kConnections{
    "stoker_connections", MetricKind::kGauge, "",
    "Open connections of the ports of gRPC and HTTP."};
inline constexpr MetricDef kConnectionsEnded{
    "stoker_connections_ended_total", MetricKind::kCounter, "reason",
    "Connections to the server's ports that it did not take or ended "
    "itself, by reason: limit, peer_limit, descriptors (none left), accept "
    "(another failure of the system), handshake (no HTTP/2 in time), "
    "handshakes (made room for others'), tls (to a port without), "
    "proxy_source (may not send a PROXY header), proxy_header (sent none in "
    "time, or a wrong one), protocol (its rules broken), frames (too "
    "many that move nothing), resets (too many), headers (far too many bytes "
    "or frames of them, or too many that are not whole), settings (too many at "
    "once), acks (too many that it "
    "doesn't read), stalled (headers not whole, or answers not taken, in "
    "time), silent (no answer to pings), "
    "idle, age."};
inline constexpr MetricDef kConnectionsFull{
    "stoker_connections_full_total", MetricKind::kCounter, "",
    "Times that a connection's open calls became as many as they may be: "
    "others wait at its client, or are refused."};
inline constexpr MetricDef kCallsEnded{
    "stoker_calls_ended_total", MetricKind::kCounter, "reason",
    "Calls that the transport ended, by reason: headers (more than there may "
    "be), too_long (a message, also over HTTP), waiting (without a message, "
    "and made room for others), "
    "kept (too much was sent ahead, on all streams together), forbidden (open "
    "ones that the policy doesn't let go on)."};
inline constexpr MetricDef kSharedMemoryRegions{
    "stoker_shared_memory_regions", MetricKind::kGauge, "",
    "Shared memory regions that clients registered."};
inline constexpr MetricDef kSharedMemoryBytes{
    "stoker_shared_memory_bytes", MetricKind::kGauge, "",
    "Bytes of all registered shared memory regions together."};
inline constexpr MetricDef kSharedMemoryCopied{
    "stoker_shared_memory_copied_bytes_total", MetricKind::kCounter,
    "direction",
    "Bytes of tensors in shared memory: read (inputs) and written (outputs)."};
inline constexpr MetricDef kTlsFailures{
    "stoker_tls_handshakes_failed_total", MetricKind::kCounter, "reason",
    "TLS handshakes that failed, by reason: plain_text, "
    "version (too old), cipher, alpn (not h2), no_certificate, certificate "
    "(not of a trusted authority), expired, name (not let in; these four are "
    "about the client's), rejected (by the client), closed (by the client), "
    "unfinished (not in time, or the server stops), other."};
inline constexpr MetricDef kTlsReloads{
    "stoker_tls_reloads_total", MetricKind::kCounter, "outcome",
    "Files of TLS that changed while the server ran, by outcome: ok, or failed "
    "(what was in use stays)."};
inline constexpr MetricDef kTlsCertificateExpiry{
    "stoker_tls_certificate_expiry_timestamp_seconds", MetricKind::kGauge, "",
    "Unix time at which the certificate of the ports expires; 0 without "
    "TLS."};
inline constexpr MetricDef kAccessRefused{
    "stoker_access_refused_total", MetricKind::kCounter, "caller,reason",
    "Calls that were refused, by the policy's caller (anonymous: nobody whom "
    "it knows) and by reason: no_credentials (anonymous may "
    "not), unknown_token, invalid_token (a signed one), malformed (another "
    "header than a bearer token's), expired, permission (who is known may "
    "not), rate and concurrent (he asks for too much), subject_rate and "
    "subject_concurrent (a subject of his JWTs does), not_local (without a "
    "policy: a change to the server, from another machine)."};
inline constexpr MetricDef kSubjectsForgotten{
    "stoker_access_subjects_forgotten_total", MetricKind::kCounter, "caller",
    "Subjects of a caller's JWTs that made room for others: more than 10,000 "
    "have limits of their own (per_subject)."};
inline constexpr MetricDef kPolicyReloads{
    "stoker_policy_reloads_total", MetricKind::kCounter, "outcome",
    "Policies and key sets that changed while the server ran, by outcome: ok, "
    "or failed (the one of before stays in force)."};
inline constexpr MetricDef kRequestLogLines{
    "stoker_request_log_lines_total", MetricKind::kCounter, "outcome",
    "Lines that the request log was to have, by outcome: written; or left out: "
    "queue_full (written too slowly), failure_rate (more failed requests than "
    "are logged a second), write_failed."};
inline constexpr MetricDef kTraceRecords{
    "stoker_trace_records_total", MetricKind::kCounter, "outcome",
    "Requests, loads and compiles whose spans were to go to the collector, by "
    "outcome: sent; or lost: queue_full (it takes them too slowly), failed (it "
    "is down, or refused them)."};
inline constexpr MetricDef kFreeCores{
    "stoker_free_cores", MetricKind::kGauge, "",
    "Cores that other processes and the CPU quota leave to this one now; runs "
    "take no more compute threads."};
inline constexpr MetricDef kQueueSeconds{
    "stoker_queue_seconds", MetricKind::kHistogram, "model,version",
    "Time that a request waited for its batch.", Edges::kLatency};
inline constexpr MetricDef kExecuteSeconds{
    "stoker_execute_seconds", MetricKind::kHistogram, "model,version,tier",
    "Run time of a batch.", Edges::kLatency};
inline constexpr MetricDef kQueueLength{"stoker_queue_length",
                                        MetricKind::kGauge, "model,version",
                                        "Requests waiting."};
inline constexpr MetricDef kResourceUnits{
    "stoker_resource_units", MetricKind::kGauge, "resource",
    "What models take turns on: cores of cpu, runs of a GPU at a time, units "
    "of a named resource, such as slots or, on a device, slots@cuda:0."};
inline constexpr MetricDef kResourceUnitsTaken{
    "stoker_resource_units_taken", MetricKind::kGauge, "resource",
    "Those that runs have now; a run of more than 200 ms on the CPU lends "
    "its."};
inline constexpr MetricDef kResourceSeconds{
    "stoker_resource_seconds_total", MetricKind::kCounter,
    "model,version,resource",
    "Seconds that runs had of it, times the units: the share of a model is its "
    "rate over that of all."};
inline constexpr MetricDef kResourceWaitSeconds{
    "stoker_resource_wait_seconds_total", MetricKind::kCounter,
    "model,version,resource",
    "Seconds that instances waited for their turn, with requests to run."};
inline constexpr MetricDef kBatchRows{
    "stoker_batch_rows", MetricKind::kHistogram, "model,version",
    "Rows that requests brought to a batch, padding excluded.", Edges::kBatch};
inline constexpr MetricDef kBatchRequests{
    "stoker_batch_requests", MetricKind::kHistogram, "model,version",
    "Requests in a batch.", Edges::kBatch};
inline constexpr MetricDef kUsefulElements{
    "stoker_batch_useful_elements_total", MetricKind::kCounter, "model,version",
    "Input elements that requests brought."};
inline constexpr MetricDef kPaddedElements{
    "stoker_batch_padded_elements_total", MetricKind::kCounter, "model,version",
    "Input elements added to fill buckets; over the sum of both: padding "
    "waste."};
inline constexpr MetricDef kTierRequests{
    "stoker_tier_requests_total", MetricKind::kCounter,
    "model,version,tier,bucket",
    "Requests by the tier (eager, dynamic, aot, graph; pipeline) and bucket "
    "that served them; outside all buckets bucket is the dynamic form's, such "
    "as "
    "batch=any, or none."};
inline constexpr MetricDef kPipelineSteps{
    "stoker_pipeline_steps_total", MetricKind::kCounter,
    "model,version,step,outcome",
    "Steps of a pipeline's requests by outcome: ok, or the gRPC code in lower "
    "case."};
inline constexpr MetricDef kPipelineStepSeconds{
    "stoker_pipeline_step_seconds", MetricKind::kHistogram,
    "model,version,step",
    "Time that a step of a pipeline took, from when its inputs were there: "
    "waiting in its model's queue included.",
    Edges::kLatency};
inline constexpr MetricDef kRowFaults{"stoker_row_faults_total",
                                      MetricKind::kCounter, "model,version",
                                      "Rows refused because of their values."};
inline constexpr MetricDef kIsolatedRunsLost{
    "stoker_isolated_runs_lost_total", MetricKind::kCounter, "model,version",
    "Runs that ended the process which they had to themselves; their requests "
    "were answered with an error."};

inline constexpr MetricDef kRepositoryPolls{
    "stoker_repository_polls_total", MetricKind::kCounter, "outcome",
    "Looks at the model repository: ok, or error (it could not be read)."};
inline constexpr MetricDef kModelState{
    "stoker_model_state", MetricKind::kGauge, "model,version,state",
    "1 for the state a version is in: new, loading, warming, serving, "
    "draining, resting (its memory went to others; requests wait until it is "
    "loaded again), unloaded, failed."};
inline constexpr MetricDef kVersionsAside{
    "stoker_versions_aside", MetricKind::kGauge, "",
    "Versions that were unloaded in the middle of a run that goes on, since it "
    "can't be interrupted: their threads and memory stay until it ends."};
inline constexpr MetricDef kBucketState{
    "stoker_bucket_state", MetricKind::kGauge, "model,version,bucket,state",
    "1 for the state a bucket is in: pending, compiling, opening, checking, "
    "compiled, dynamic, eager."};
inline constexpr MetricDef kWarmupBuckets{
    "stoker_warmup_buckets", MetricKind::kGauge, "model,version,progress",
    "Buckets of the warm-up plan: total and settled."};
inline constexpr MetricDef kPromotions{
    "stoker_promotions_total", MetricKind::kCounter, "model,version,outcome",
    "Decisions about compiled candidates: promoted, parity, profit, dynamic "
    "(as fast as a dynamic form), unjudged (could not be checked), open, "
    "memory, compile."};
inline constexpr MetricDef kFallbacks{
    "stoker_fallbacks_total", MetricKind::kCounter, "model,version,reason",
    "Slots left on the tier below, by reason: no_compiler, compile, timeout, "
    "memory, refused, open, unjudged (could not be checked), parity, profit, "
    "budget, payback, run."};
inline constexpr MetricDef kParityError{
    "stoker_parity_max_abs_error", MetricKind::kGauge, "model,version,bucket",
    "Largest absolute difference between compiled and eager in the parity "
    "check."};
inline constexpr MetricDef kSpeedup{
    "stoker_speedup_ratio", MetricKind::kGauge, "model,version,bucket",
    "Eager over compiled run time in the profit check."};
inline constexpr MetricDef kBucketCompileSeconds{
    "stoker_bucket_compile_seconds", MetricKind::kGauge, "model,version,bucket",
    "What the compile of the bucket's artifact took, here or elsewhere."};
inline constexpr MetricDef kSavedSeconds{
    "stoker_saved_seconds_total", MetricKind::kCounter, "model,version,bucket",
    "Run time saved so far: for each compiled run, what the profit check "
    "found eager to take longer."};
inline constexpr MetricDef kBreakEvenRuns{
    "stoker_break_even_runs", MetricKind::kGauge, "model,version,bucket",
    "Compiled runs after which the compile has paid for itself."};
inline constexpr MetricDef kWeightsBytes{"stoker_weights_bytes",
                                         MetricKind::kGauge, "model,version",
                                         "Bytes of mapped weights."};
inline constexpr MetricDef kVersionMemory{
    "stoker_version_memory_bytes", MetricKind::kGauge, "model,version,use",
    "Host memory of a loaded version, by use: weights (mapped, as if all were "
    "resident), packed (laid out for oneDNN), eager (its own copy of the "
    "weights, while it is open), code (of compiled buckets)."};
inline constexpr MetricDef kMemoryBudget{
    "stoker_memory_budget_bytes", MetricKind::kGauge, "",
    "What loaded versions may take of the host's memory (--memory-budget); 0: "
    "no limit."};
inline constexpr MetricDef kColdWaitSeconds{
    "stoker_cold_wait_seconds", MetricKind::kHistogram, "model,version",
    "Time that requests waited for a resting version to be loaded again.",
    Edges::kOpen};
inline constexpr MetricDef kIdleUnloads{
    "stoker_idle_unloads_total", MetricKind::kCounter, "device",
    "Versions that went to rest, as nobody asked for them and others wanted "
    "their memory: cpu (--memory-budget), or a GPU's (--gpu-idle-seconds)."};

inline constexpr MetricDef kGpuMemory{
    "stoker_gpu_memory_bytes", MetricKind::kGauge, "device,use",
    "Device memory that models hold, by use: weights, eager (its own copy of "
    "the weights, where it needs one), graphs."};
inline constexpr MetricDef kGpuFreeMemory{
    "stoker_gpu_free_bytes", MetricKind::kGauge, "device",
    "Free memory of a GPU that serves, as the driver says."};
inline constexpr MetricDef kGpuBusy{
    "stoker_gpu_busy_ratio", MetricKind::kGauge, "device",
    "Share of the last second in which a kernel ran, as NVML says; absent "
    "without NVML."};
inline constexpr MetricDef kGpuPower{
    "stoker_gpu_power_watts", MetricKind::kGauge, "device",
    "What the GPU draws, as NVML says; absent without NVML."};
inline constexpr MetricDef kGpuCopiedBytes{
    "stoker_gpu_copied_bytes_total", MetricKind::kCounter, "device,direction",
    "Bytes copied: to_device (weights and inputs) and to_host (answers)."};
inline constexpr MetricDef kGpuCopySeconds{
    "stoker_gpu_copy_seconds", MetricKind::kHistogram, "device,direction",
    "Time on the device from the first copy of a batch to its last: to_device "
    "(inputs), to_host (answers).",
    Edges::kLatency};
inline constexpr MetricDef kGraphReplays{"stoker_graph_replays_total",
                                         MetricKind::kCounter, "device",
                                         "Replays of CUDA graphs."};
inline constexpr MetricDef kGraphCaptures{
    "stoker_graph_captures_total", MetricKind::kCounter,
    "model,version,outcome",
    "CUDA graphs by what became of them: kept; or refused: unfit (can't be "
    "captured, or answers otherwise), memory, budget, count, gain; or failed."};
inline constexpr MetricDef kGraphCaptureSeconds{
    "stoker_graph_capture_seconds", MetricKind::kHistogram, "model,version",
    "Time to capture a bucket's graph on one device thread and to check it.",
    Edges::kOpen};
inline constexpr MetricDef kGraphBytes{
    "stoker_graph_bytes", MetricKind::kGauge, "model,version,bucket",
    "Device memory of a bucket's graphs, on all device threads."};

inline constexpr MetricDef kCompileSeconds{
    "stoker_compile_seconds", MetricKind::kHistogram, "outcome",
    "Compile jobs by outcome: ok, failed, refused, timeout, memory, crashed.",
    Edges::kCompile};
inline constexpr MetricDef kCompilePhaseSeconds{
    "stoker_compile_phase_seconds", MetricKind::kHistogram, "phase",
    "Compile time by phase: load, specialise, lower, build, package.",
    Edges::kCompile};
inline constexpr MetricDef kCompilesAfterReady{
    "stoker_compiles_after_ready_total", MetricKind::kCounter, "",
    "Compiles that started while the server was ready."};
inline constexpr MetricDef kCompileQueue{
    "stoker_compile_queue_length", MetricKind::kGauge, "state",
    "Compile jobs: waiting, running, parked."};
inline constexpr MetricDef kCompileWorkerStarts{
    "stoker_compile_worker_starts_total", MetricKind::kCounter, "",
    "Starts of the compile worker process."};

inline constexpr MetricDef kCacheRequests{
    "stoker_cache_requests_total", MetricKind::kCounter, "layer,result",
    "Cache lookups: hit or damaged, in the upper folder or a lower one; miss."};
inline constexpr MetricDef kCacheCommits{"stoker_cache_commits_total",
                                         MetricKind::kCounter, "result",
                                         "Commits: ok, duplicate, failed."};
inline constexpr MetricDef kCacheRejections{
    "stoker_cache_rejections_total", MetricKind::kCounter, "reason",
    "Entries set aside: manifest, checksum, missing_file, signature, owner, "
    "open."};
inline constexpr MetricDef kCacheEvictions{
    "stoker_cache_evictions_total", MetricKind::kCounter, "reason",
    "Entries let go by limit: age, size."};
inline constexpr MetricDef kCacheEntries{
    "stoker_cache_entries", MetricKind::kGauge, "",
    "Entries of the upper folder, as last counted."};
inline constexpr MetricDef kCacheBytes{
    "stoker_cache_bytes", MetricKind::kGauge, "",
    "Bytes of the upper folder's entries, as last counted."};
inline constexpr MetricDef kCacheOtherBytes{
    "stoker_cache_other_bytes", MetricKind::kGauge, "",
    "Bytes of the upper folder besides its entries, as last counted: the "
    "compiler's scratch, what was set aside, notes, locks."};
inline constexpr MetricDef kCacheWritable{
    "stoker_cache_writable", MetricKind::kGauge, "",
    "1 when the upper folder could be written at start."};
inline constexpr MetricDef kCacheLockWaitSeconds{
    "stoker_cache_lock_wait_seconds", MetricKind::kHistogram, "",
    "Time that another process held a key's lock while its entry was wanted.",
    Edges::kCompile};
inline constexpr MetricDef kCompileSecondsSaved{
    "stoker_compile_seconds_saved_total", MetricKind::kCounter, "",
    "What the compiles of entries that were found had taken."};
inline constexpr MetricDef kArtifactOpenSeconds{
    "stoker_artifact_open_seconds", MetricKind::kHistogram, "",
    "Time to open an artifact and bind its weights.", Edges::kOpen};

absl::Span<const MetricDef> All();

}  // namespace stoker::metric
