// The floor: the exported program itself, interpreted by torch's nativert.
// Private to this room.
#pragma once

#include <torch/nativert/ModelRunnerHandle.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runner/executable.h"

namespace stoker {

class EagerExecutable : public Executable {
 public:
  // Checks the archive (nativert would follow pickles), then loads it.
  static absl::StatusOr<std::shared_ptr<Executable>> Open(
      const std::string& pt2_path);

  absl::StatusOr<RunResult> Run(ExecutionContext& context,
                                absl::Span<const Tensor> inputs) override;
  bool KeepsToContext() const override { return true; }
  std::string_view tier() const override { return "eager"; }

 private:
  EagerExecutable(const std::string& pt2_path, const std::string& model_name,
                  bool copy_inputs);

  torch::nativert::ModelRunnerHandle handle_;
  const bool copy_inputs_;  // the program has in-place operators
};

}  // namespace stoker
