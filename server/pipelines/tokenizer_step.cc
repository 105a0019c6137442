#include "pipelines/tokenizer_step.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "batching/queue_timeout.h"

namespace stoker {
namespace {

// A loop of the ports is kept for as long as these take: 0.2 ms or so.
constexpr size_t kQuickBytes = 1024;
// What a byte of a string takes while it is tokenized, at most.
constexpr size_t kWorkPerByte = 128;
constexpr int64_t kMaxRows = 1 << 20;
constexpr size_t kErrorBytes = 512;

constexpr std::array<const char*, 3> kOutputs = {kInputIds, kAttentionMask,
                                                 kTokenTypeIds};

ModelSpec SpecOf(const PipelineStep& step) {
  ModelSpec spec;
  spec.name = step.name;
  spec.program_path = step.tokenizer_path;
  spec.dimensions = {{"batch", "", 1, kMaxRows, false},
                     {"bytes", "", 0, TokenizerStep::kMaxTextBytes, false}};
  spec.batch_dimension = 0;
  InputSpec& text = spec.inputs.emplace_back();
  text.name = kTokenizerInput;
  text.dtype = DataType::kUint8;
  text.is_bytes = true;
  text.dims = {DimExpr::Dimension(0), DimExpr::Dimension(1)};
  for (const char* const name : kOutputs) {
    spec.outputs.push_back(
        {name, DataType::kInt64, {DimExpr::Dimension(0), DimExpr::Unknown()}});
  }
  return spec;
}

// Without the zero bytes that fill it up.
std::string_view TextOf(const Tensor& rows, int64_t row) {
  const auto width = static_cast<size_t>(rows.shape[1]);
  std::string_view text(reinterpret_cast<const char*>(rows.data) +
                            static_cast<size_t>(row) * width,
                        width);
  return text.substr(0, text.find_last_not_of('\0') + 1);
}

}  // namespace

// Tokens of one text: of each output.
struct TokenizerStep::Encoded {
  std::array<std::vector<uint32_t>, kOutputs.size()> values;
};

absl::StatusOr<std::shared_ptr<StepModel>> TokenizerStep::Make(
    const PipelineStep& step, std::string_view json,
    const TokenizerFunctions& functions, RunLater later, Clock& clock) {
  StokerTokenizer* tokenizer = nullptr;
  char error[kErrorBytes] = "";
  const int code = functions.open(
      reinterpret_cast<const uint8_t*>(json.data()), json.size(),
      static_cast<size_t>(step.max_length), &tokenizer, error, sizeof(error));
  if (code != STOKER_TOKENIZER_OK) {
    return absl::InvalidArgumentError(
        absl::StrCat(step.tokenizer_path,
                     ": expected a tokenizer.json as "
                     "Hugging Face's tokenizers write it: ",
                     ValidUtf8(error)));
  }
  return std::shared_ptr<StepModel>(new TokenizerStep(
      SpecOf(step), tokenizer, functions, std::move(later), clock));
}

TokenizerStep::TokenizerStep(ModelSpec spec, StokerTokenizer* tokenizer,
                             const TokenizerFunctions& functions,
                             RunLater later, Clock& clock)
    : spec_(std::move(spec)),
      tokenizer_(tokenizer),
      functions_(functions),
      later_(std::move(later)),
      clock_(clock) {
  int left = 0;
  functions_.padding(tokenizer_, &pad_id_, &pad_type_id_, &left);
  pads_left_ = left != 0;
}

TokenizerStep::~TokenizerStep() { functions_.close(tokenizer_); }

absl::Status TokenizerStep::Submit(std::unique_ptr<InferTask>& task) {
  const MonotonicTime began = clock_.Now();
  if (task->inputs[0].byte_size <= kQuickBytes && task->may_run_here) {
    const std::unique_ptr<InferTask> taken = std::move(task);
    Run(*taken, began);
    return absl::OkStatus();
  }
  // A std::function has to be copied.
  const auto shared = std::make_shared<std::unique_ptr<InferTask>>();
  *shared = std::move(task);
  // The task's on_done holds this.
  if (later_([this, shared, began] { Run(**shared, began); })) {
    return absl::OkStatus();
  }
  task = std::move(*shared);
  return absl::UnavailableError(
      "Exceeds maximum queue size: as many strings wait for a tokenizer as "
      "may");
}

void TokenizerStep::Run(const InferTask& task, MonotonicTime began) const {
  const MonotonicTime now = clock_.Now();
  if (task.cancelled != nullptr && task.cancelled->load()) {
    return task.on_done(absl::CancelledError("cancelled while it waited"));
  }
  if (now >= task.deadline) {
    return task.on_done(QueueTimeoutError());
  }
  absl::StatusOr<InferResult> result = Tokenize(task);
  if (result.ok()) {
    result->tier = "tokenizer";
    result->batch_rows = task.rows;
    result->queue = now - began;
    result->started = result->begun = now;
    result->run = clock_.Now() - now;
  }
  task.on_done(std::move(result));
}

absl::Status TokenizerStep::Encode(std::string_view text, int64_t row,
                                   Encoded& encoded) const {
  const auto refuse = [row](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "string element ", row, ": expected text with tokens, got ", why));
  };
  if (text.empty()) return refuse("an empty one");
  StokerTokens tokens = {};
  char error[kErrorBytes] = "";
  const int code = functions_.encode(
      tokenizer_, reinterpret_cast<const uint8_t*>(text.data()), text.size(),
      &tokens, error, sizeof(error));
  if (code == STOKER_TOKENIZER_REFUSED) {
    return refuse(absl::StrCat("bytes that are not UTF-8: ", ValidUtf8(error)));
  }
  if (code != STOKER_TOKENIZER_OK) {
    return absl::InternalError(absl::StrCat(
        "string element ", row, " was not tokenized: ", ValidUtf8(error)));
  }
  // It holds more than what is needed here.
  const std::array<const uint32_t*, kOutputs.size()> made = {
      tokens.input_ids, tokens.attention_mask, tokens.token_type_ids};
  for (size_t i = 0; i < made.size(); ++i) {
    encoded.values[i].assign(made[i], made[i] + tokens.length);
  }
  functions_.free(&tokens);
  return encoded.values[0].empty() ? refuse("one without any")
                                   : absl::OkStatus();
}

absl::StatusOr<InferResult> TokenizerStep::Tokenize(
    const InferTask& task) const {
  const Tensor& texts = task.inputs[0];
  const int64_t rows = texts.shape[0];
  size_t held = static_cast<size_t>(texts.shape[1]) * kWorkPerByte +
                texts.byte_size * kOutputs.size() * sizeof(uint32_t);
  if (task.memory != nullptr) RETURN_IF_ERROR(task.memory->Take(held));
  const auto give = [memory = task.memory](const size_t* bytes) {
    if (memory != nullptr) memory->Give(*bytes);
  };
  const std::unique_ptr<size_t, decltype(give)> taken(&held, give);

  std::vector<Encoded> encoded(static_cast<size_t>(rows));
  size_t longest = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (task.cancelled != nullptr && task.cancelled->load()) {
      return absl::CancelledError("cancelled while it ran");
    }
    Encoded& its = encoded[static_cast<size_t>(row)];
    RETURN_IF_ERROR(Encode(TextOf(texts, row), row, its));
    longest = std::max(longest, its.values[0].size());
  }

  InferResult result;
  const size_t elements = static_cast<size_t>(rows) * longest;
  for (size_t i = 0; i < kOutputs.size(); ++i) {
    const Buffer buffer(elements * sizeof(int64_t));
    auto* out = reinterpret_cast<int64_t*>(buffer.data());
    const uint32_t fill = i == 0 ? pad_id_ : i == 1 ? 0 : pad_type_id_;
    for (const Encoded& row : encoded) {
      const std::vector<uint32_t>& values = row.values[i];
      const size_t gap = longest - values.size();
      if (pads_left_) out = std::fill_n(out, gap, fill);
      out = std::copy(values.begin(), values.end(), out);
      if (!pads_left_) out = std::fill_n(out, gap, fill);
    }
    result.outputs.push_back({DataType::kInt64,
                              {rows, static_cast<int64_t>(longest)},
                              buffer.data(),
                              buffer.size(),
                              buffer.share()});
  }
  return result;
}

}  // namespace stoker
