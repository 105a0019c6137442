// Runs a program in float64, in a Python process of its own
// (compiler/reference.py): which of two answers that differ by rounding is as
// right as the other. Rare, and seconds long: most candidates are judged
// without it.
//
// Thread-safe; every call starts a process.
#pragma once

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tensor/tensor.h"

namespace stoker {

class ReferenceRun {
 public:
  struct Options {
    // Followed by the program's path. Empty: there is no Python on this host.
    std::vector<std::string> argv;
    std::string working_folder;  // where the `compiler` package is found
    absl::Duration time_limit = absl::Minutes(10);
  };

  explicit ReferenceRun(Options options) : options_(std::move(options)) {}

  // The program's flat outputs, floating ones in FP64. FAILED_PRECONDITION: it
  // can't be computed in float64, whoever tries. No other error says anything
  // of the program, and another time may have an answer: UNAVAILABLE without
  // Python, INTERNAL with the process' last words when it fails, is killed or
  // takes too long, CANCELLED when `stop` is requested, which kills it.
  absl::StatusOr<std::vector<Tensor>> Run(const std::string& program,
                                          absl::Span<const Tensor> inputs,
                                          const std::stop_token& stop) const;

 private:
  const Options options_;
};

}  // namespace stoker
