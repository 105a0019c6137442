// Captures CUDA graphs of compiled buckets, on hosts with a GPU: the largest
// first, so that the memory of its pool serves the smaller ones too, and only
// those that gain something. A bucket without one runs its compiled code. Never
// fails the version.
//
// A capture records launches with their arguments, and no code of the host:
// what that has made of a value (a size, an index, a branch) is in the graph
// for ever, and no replay on the captured inputs shows it. So each graph is
// compared with runs on others before it serves: other numbers, the ends of
// their ranges, each integer and boolean another than at the capture, integers
// wide apart, and fewer rows that padding fills up.
//
// Of the warm-up's thread; blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/candidate_check.h"
#include "models/version_parts.h"
#include "planning/evidence_store.h"
#include "promotion/verdict.h"

namespace stoker {

class GraphCapture {
 public:
  // All but `version` outlive this object.
  GraphCapture(const VersionParts& version, const CandidateCheck& check,
               const EvidenceStore& evidence)
      : version_(version), check_(check), evidence_(evidence) {}

  // Of every compiled bucket that it wasn't tried with since its promotion.
  void CaptureAll();

 private:
  using Executables = std::vector<std::shared_ptr<Executable>>;
  // Why a bucket goes on without: the outcome of stoker_graph_captures_total,
  // and a sentence.
  struct NoGraph {
    std::string_view label;
    std::string why;
  };
  struct Captured {
    Executables graphs;  // by device thread
    int64_t bytes = 0;   // on the device that has most
  };

  // What a graph of this bucket is captured with, and then what it is tried on.
  std::vector<std::vector<Tensor>> Samples(const WarmupStep& step) const;
  // nullopt: there is a graph now.
  std::optional<NoGraph> Capture(const WarmupStep& step);
  absl::StatusOr<Captured> CaptureOnEachThread(const WarmupStep& step,
                                               size_t threads,
                                               int64_t max_bytes) const;
  absl::StatusOr<CapturedGraph> CaptureOn(
      int thread, int bucket, absl::Span<const std::vector<Tensor>> samples,
      int64_t max_bytes) const;
  // What a graph gains over the compiled code that it is of.
  absl::StatusOr<Profit> Measure(const WarmupStep& step, Executable& compiled,
                                 Executable& graph) const;

  const VersionParts version_;
  const CandidateCheck& check_;
  const EvidenceStore& evidence_;

  int kept_ = 0;
  int64_t kept_bytes_ = 0;  // of these, on the device that has most
};

}  // namespace stoker
