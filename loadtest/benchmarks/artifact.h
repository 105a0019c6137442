// One compiled artifact of the kernel cache, run directly: the limit that a
// server is compared with.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runner/executable_loader.h"

// Every failure ends the process with a line that says why.
class Artifact {
 public:
  Artifact(const std::string& program, const std::string& folder)
      : loader_(stoker::MakeCpuLoader()) {
    auto weights = loader_->MapWeights(program);
    auto opened = weights.ok()
                      ? loader_->OpenAot(folder, *weights)
                      : absl::StatusOr<std::shared_ptr<stoker::Executable>>(
                            weights.status());
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.status().ToString().c_str());
      std::exit(1);
    }
    executable_ = *std::move(opened);
  }

  std::unique_ptr<stoker::ExecutionContext> NewContext(int threads) {
    return loader_->NewContext(threads);
  }
  // Ends the process when it fails.
  stoker::RunResult Run(stoker::ExecutionContext& context,
                        absl::Span<const stoker::Tensor> inputs) {
    auto result = executable_->Run(context, inputs);
    if (!result.ok()) {
      std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
      std::exit(1);
    }
    return *std::move(result);
  }

 private:
  std::unique_ptr<stoker::ExecutableLoader> loader_;
  std::shared_ptr<stoker::Executable> executable_;
};
