// The floor: the exported program itself, interpreted by torch's nativert.
// Private to this room.
#pragma once

#include <torch/nativert/ModelRunnerHandle.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "program/program_archive.h"
#include "runner/executable.h"

namespace stoker {

class EagerExecutable : public Executable {
 public:
  // Checks the archive (nativert would follow pickles), then loads it, with
  // weights of nativert's own. A program whose wrappers had to be inlined is
  // loaded without, and runs over the mapped archive (weightless_program.h).
  static absl::StatusOr<std::shared_ptr<Executable>> Open(
      const std::string& pt2_path);

  absl::StatusOr<RunResult> Run(ExecutionContext& context,
                                absl::Span<const Tensor> inputs) override;
  bool KeepsToContext() const override { return true; }
  int64_t host_bytes() const override { return copied_bytes_; }
  std::string_view tier() const override { return "eager"; }

 private:
  // What is mapped of a program that runs so; else nothing.
  struct Mapped {
    std::shared_ptr<const ZipArchive> zip;
    // All of it. What the program writes to its weights, it writes to a copy.
    std::shared_ptr<std::byte> memory;
    // For each flat input the weight that it takes, or none.
    std::vector<at::Tensor> weights;
  };

  EagerExecutable(const std::string& pt2_path, bool copy_inputs, Mapped mapped,
                  int64_t copied_bytes);
  static absl::StatusOr<std::shared_ptr<Executable>> OpenMapped(
      const ProgramArchive& archive, bool copy_inputs);
  absl::StatusOr<std::vector<c10::IValue>> Arguments(
      const std::vector<at::Tensor>& views) const;

  const Mapped mapped_;
  torch::nativert::ModelRunnerHandle handle_;
  const bool copy_inputs_;      // the program has in-place operators
  const int64_t copied_bytes_;  // of weights that it doesn't map
};

}  // namespace stoker
