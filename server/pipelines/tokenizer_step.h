// A step that makes tokens of strings, as a tokenizer.json says. Private to
// this room: tokenizer_library.h makes them.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "batching/infer_task.h"
#include "pipelines/step_model.h"
#include "pipelines/tokenizer_functions.h"
#include "repository/model_spec.h"
#include "repository/pipeline_spec.h"

namespace stoker {

class TokenizerStep final : public StepModel {
 public:
  // Of one string.
  static constexpr int64_t kMaxTextBytes = 1 << 20;
  // Does `work` on another thread. False: it has too much to do.
  using RunLater = std::function<bool(std::function<void()> work)>;

  // INVALID_ARGUMENT, with the step's path: `json` is no tokenizer.json.
  // `functions` and `clock` outlive it.
  static absl::StatusOr<std::shared_ptr<StepModel>> Make(
      const PipelineStep& step, std::string_view json,
      const TokenizerFunctions& functions, RunLater later, Clock& clock);
  ~TokenizerStep() override;

  const ModelSpec& spec() const override { return spec_; }
  // Ends the task at once where it takes no time, or has the thread do so.
  // INVALID_ARGUMENT in its on_done: a string is empty, isn't UTF-8, or has no
  // tokens; UNAVAILABLE: the thread has too much to do.
  absl::Status Submit(std::unique_ptr<InferTask>& task) override;
  // What waits ends when its turn comes, soon.
  void SweepCancelled() override {}

 private:
  struct Encoded;
  TokenizerStep(ModelSpec spec, StokerTokenizer* tokenizer,
                const TokenizerFunctions& functions, RunLater later,
                Clock& clock);
  void Run(const InferTask& task, MonotonicTime began) const;
  absl::StatusOr<InferResult> Tokenize(const InferTask& task) const;
  absl::Status Encode(std::string_view text, int64_t row,
                      Encoded& encoded) const;

  const ModelSpec spec_;
  StokerTokenizer* const tokenizer_;
  const TokenizerFunctions& functions_;
  const RunLater later_;
  Clock& clock_;
  uint32_t pad_id_ = 0;
  uint32_t pad_type_id_ = 0;
  bool pads_left_ = false;
};

}  // namespace stoker
