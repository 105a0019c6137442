// Everything the operator and the program say about one model version: what the
// program itself declares (inputs, outputs, dimensions and their bounds,
// weights' identity) and what model.yaml adds (buckets, padding, limits).
// Immutable values.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tensor/batch_input.h"
#include "tensor/device.h"
#include "tensor/dim_expr.h"
#include "tensor/reshape.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

class ZipArchive;
struct PipelineSpec;

// A dynamic dimension of the program: one symbol of the exported graph.
struct DimensionSpec {
  std::string name;    // model.yaml's name, "batch", or "<input>.<axis>"
  std::string symbol;  // in the graph: "s43"
  int64_t min = 1;
  int64_t max = 1;       // inclusive; INT64_MAX when the program gives none
  bool padding = false;  // a request may be padded up to a bucket along it
};

struct InputSpec {
  std::string name;  // the author's, case kept
  DataType dtype = DataType::kFp32;
  std::vector<DimExpr> dims;
  double pad_value =
      0;  // fills the padded part of every paddable axis but the batch axis
  // Closed range that seeded test inputs are drawn from: model.yaml's, or what
  // the program's operators leave it; unset: integers 0..1, floating point from
  // a standard normal distribution.
  std::optional<std::pair<double, double>> range;
  // Where clients have another shape than `dims`; with the batch, and without
  // the last axis where `is_bytes`.
  std::optional<Reshape> reshape = std::nullopt;
  // Clients have BYTES, an element for each row of the last axis, which is
  // filled up with `pad_value`; the dtype is kUint8 then, and that axis is a
  // constant or follows from one dimension.
  bool is_bytes = false;
  // Every element for a request that leaves the input out; unset: none may. All
  // sizes that it depends on are sizes of inputs without one.
  std::optional<double> default_value = std::nullopt;
  // No request has it: it is made of each batch (ragged ones only). Has a
  // default, which its elements never are.
  std::optional<BatchInput> batch_input = std::nullopt;
};

struct OutputSpec {
  std::string name;
  DataType dtype = DataType::kFp32;
  std::vector<DimExpr> dims;
  std::optional<Reshape> reshape = std::nullopt;  // as an input's
  bool is_bytes = false;  // as an input's; zero bytes at an end are cut off
};

enum class ReadyWhen { kEager, kWarm };
// Where a version loads that takes another's place: beside it, or after it is
// gone, where the memory doesn't hold both.
enum class Update { kBeside, kReplace };
// What a request gets that fits no bucket.
enum class Unmatched { kEager, kReject };

// Names and meanings of the next two are Triton's ModelQueuePolicy and
// ModelDynamicBatching.
struct QueuePolicySpec {
  bool delay_on_timeout = false;  // instead of refusing
  absl::Duration default_timeout = absl::InfiniteDuration();  // in queue
  bool allow_timeout_override = true;
  int max_queue_size = 1024;  // waiting, per version and priority level
};

struct DynamicBatchingSpec {
  absl::Duration max_queue_delay = absl::ZeroDuration();
  std::vector<int> preferred_batch_sizes;
  bool preserve_ordering = false;
  int default_priority_level = 1;
  std::vector<QueuePolicySpec> policies =
      std::vector<QueuePolicySpec>(1);  // by priority
};

// How a compiled bucket is compared with eager (promotion/parity_check.h).
struct ParitySpec {
  double rtol = 3e-5;  // for FP32
  double atol = 3e-5;
  double rms = std::numeric_limits<double>::infinity();
  double cosine = -1;  // the least
  double argmax = 0;   // the least share
  int cases = 2;       // sets of inputs at the bucket's size
  int recorded = 0;    // requests of the traffic that are kept to be tried too
};

// What linear layers are computed in; everything else stays as exported. FP16
// and TF32 are for GPUs only, INT8 is for CPUs.
enum class ComputePrecision { kFloat32, kBfloat16, kFloat16, kTf32, kInt8 };

// Whether the program is compiled for any sizes: beside the buckets, instead of
// each of them, or before them, which then are as long as one gains by it.
enum class DynamicForms { kNone, kBeside, kInstead, kFirst };

// How the model's compiled forms are made, which is in their keys.
struct CompileSpec {
  bool enabled = true;  // false: eager only
  ComputePrecision precision = ComputePrecision::kFloat32;
  bool deterministic = false;
  // Forms with dynamic dimensions (planning/warmup_plan.h): not in the keys of
  // buckets.
  DynamicForms dynamic = DynamicForms::kNone;
  // What the compiles of one start may take together; not in the keys.
  absl::Duration budget = absl::InfiniteDuration();
  // Requests of the model; compiles that need more are left. Not in the keys.
  std::optional<int64_t> pays_back_within;
  // A Python file with passes over the graph; empty: none.
  std::string passes_path;
  std::string passes_digest;  // SHA-256 of its content
  // TorchInductor's options by name, as JSON.
  std::map<std::string, std::string> options;
};

// CUDA graphs of the buckets, on a GPU (models/graph_capture.h).
struct GraphSpec {
  bool enabled = true;
  int64_t max_bytes = int64_t{1} << 30;  // of device memory, for each device
};

// Letters, digits, '_', '-' and '.', at most 64, and not cpu.
bool IsResourceName(std::string_view name);
inline constexpr char kResourceNames[] =
    "a resource's name, of letters, digits, '_', '-' and '.', and not cpu";
inline constexpr int kMostOfResource = 1'000'000;

// What each run of the model takes of a resource that the operator named.
struct ResourceDemand {
  int count = 1;
  bool global = false;  // one for all devices, instead of one on each

  friend bool operator==(const ResourceDemand&,
                         const ResourceDemand&) = default;
};

struct ModelSpec {
  std::string name;
  int64_t version = 1;
  // Of a model that is made of others and has no program. Its inputs, outputs
  // and dimensions follow from its steps' models
  // (pipelines/pipeline_interface.h). Null: it has one.
  std::shared_ptr<const PipelineSpec> pipeline;
  std::string program_path;  // .../model.pt2
  // The file that the rest of this was read from, held open: another one may
  // have its name by now. Null: there is none (in a test).
  std::shared_ptr<const ZipArchive> program_file;
  // What its file takes, where that came with a request (override_files.h).
  std::shared_ptr<const void> claim;
  std::string program_digest;  // SHA-256 of the canonical graph, without
                               // metadata and weights
  std::string content_digest;  // of what of the file the compiler reads
  std::string weights_digest;  // identity of the weights' content
  int64_t weights_bytes = 0;
  // Name and digest of the operator libraries that the program needs.
  std::map<std::string, std::string> operator_libraries;
  // Operators that it calls and that values might lead astray, each with where
  // it does so: where there are any it is never compiled, and runs in a process
  // of its own, or not at all.
  std::map<std::string, std::string> unlisted_operators;

  std::vector<InputSpec> inputs;  // in the program's flat order
  std::vector<OutputSpec> outputs;
  // labels.txt beside model.yaml: what an output's elements along its last
  // axes stand for, by index. Null: there is none.
  std::shared_ptr<const std::vector<std::string>> labels;
  std::vector<DimensionSpec> dimensions;
  // The dimension that is axis 0 of every input and output; unset: requests are
  // never batched together and max_batch_size is 0 on the wire.
  std::optional<int> batch_dimension;
  int64_t max_batch_size = 0;  // 0 without a batch dimension
  // Requests of a batch, which are put together end to end: the batch dimension
  // is that of their elements then. 0: batches have rows.
  int64_t max_ragged_requests = 0;

  std::vector<ShapeBucket> buckets;  // in warm-up order; may be empty
  // `buckets: auto`: whoever knows the traffic chooses; `buckets` are the
  // default ones then.
  bool auto_buckets = false;
  ReadyWhen ready_when = ReadyWhen::kWarm;
  Update update = Update::kBeside;
  // Ready though eager refuses all that was made up to see it run.
  bool unproved = false;
  Unmatched unmatched = Unmatched::kEager;
  // Where it runs; either the processor alone or GPUs.
  std::vector<Device> devices = {Device{}};
  GraphSpec graphs;
  int threads = 0;    // per instance; 0: cores / instances, or 1 on a GPU
  int instances = 1;  // on each device
  // CPUs of each instance, or one entry for all; empty: not confined.
  std::vector<std::vector<int>> cpus;
  std::optional<int> numa_node;  // whose CPUs, where `cpus` is empty
  double weight = 1;             // share of the device against other models'
  std::map<std::string, ResourceDemand> resources;  // by name
  bool keep_in_memory = false;                      // never rests
  CompileSpec compile;
  DynamicBatchingSpec dynamic_batching;
  ParitySpec parity;

  // "minilm:1", for logs and errors.
  std::string Label() const;
  std::vector<std::string> DimensionNames() const;
  bool ragged() const { return max_ragged_requests > 0; }
  // The size that every bucket has in the dimension, as it follows from
  // max_ragged_requests.
  std::optional<int64_t> SizeOfRequests(int dimension) const;
  bool on_gpu() const { return devices.front().is_gpu(); }
  bool isolated() const { return !unlisted_operators.empty(); }
  // By which whoever reads the program reads `program_file`, in this process
  // and in others, while that is held.
  std::string HeldPath() const;
  // OK, or what went wrong by that path, by the name that people know.
  absl::Status ByItsName(const absl::Status& status) const;
  // DATA_LOSS when somebody has written to the file since it was read, so that
  // the digests here are not about what it holds. Costs 0.3 us.
  absl::Status CheckUnchanged() const;
};

}  // namespace stoker
