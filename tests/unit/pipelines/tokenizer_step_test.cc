// How a step makes tokens of strings, with functions in place of the library's:
// a token for each byte, its value.
#include "pipelines/tokenizer_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "pipelines/tokenizer_library.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Values {
  std::vector<uint32_t> ids, mask, types;
};

int Open(const uint8_t* json, size_t size, size_t /*max_length*/,
         StokerTokenizer** out, char* error, size_t error_size) {
  if (std::string(reinterpret_cast<const char*>(json), size) != "{}") {
    std::strncpy(error, "no braces", error_size);
    return STOKER_TOKENIZER_REFUSED;
  }
  *out = reinterpret_cast<StokerTokenizer*>(new int(0));
  return STOKER_TOKENIZER_OK;
}
void Close(StokerTokenizer* tokenizer) {
  delete reinterpret_cast<int*>(tokenizer);
}
void PadRight(const StokerTokenizer* /*tokenizer*/, uint32_t* id,
              uint32_t* type, int* left) {
  *id = 7;
  *type = 3;
  *left = 0;
}
void PadLeft(const StokerTokenizer* tokenizer, uint32_t* id, uint32_t* type,
             int* left) {
  PadRight(tokenizer, id, type, left);
  *left = 1;
}
int Encode(const StokerTokenizer* /*tokenizer*/, const uint8_t* text,
           size_t size, StokerTokens* out, char* error, size_t error_size) {
  if (text[0] == 0xFF) {
    std::strncpy(error, "byte 0", error_size);
    return STOKER_TOKENIZER_REFUSED;
  }
  if (text[0] == '!') {
    std::strncpy(error, "it panicked", error_size);
    return STOKER_TOKENIZER_FAILED;
  }
  auto values = std::make_unique<Values>();
  for (size_t i = 0; i < size && text[i] != '.'; ++i) {
    values->ids.push_back(text[i]);
    values->mask.push_back(1);
    values->types.push_back(0);
  }
  *out = {values->ids.size(), values->ids.data(), values->mask.data(),
          values->types.data(), values.get()};
  values.release();
  return STOKER_TOKENIZER_OK;
}
void Free(StokerTokens* tokens) { delete static_cast<Values*>(tokens->owner); }

class TokenizerStepTest : public ::testing::Test {
 protected:
  // With a thread of its own where work is posted.
  std::shared_ptr<StepModel> Make(const std::string& json = "{}") {
    PipelineStep step;
    step.name = "tokenizer";
    step.tokenizer_path = "p/tokenizer.json";
    auto made = TokenizerStep::Make(
        step, json, functions_,
        [this](std::function<void()> work) {
          if (full_) return false;
          later_.push_back(std::move(work));
          return true;
        },
        clock_);
    status_ = made.status();
    return made.ok() ? *std::move(made) : nullptr;
  }
  std::unique_ptr<InferTask> Task(const std::vector<std::string>& texts) {
    size_t longest = 0;
    for (const std::string& text : texts) {
      longest = std::max(longest, text.size());
    }
    std::vector<char> rows;
    for (std::string text : texts) {
      text.resize(longest, '\0');
      rows.insert(rows.end(), text.begin(), text.end());
    }
    auto task = std::make_unique<InferTask>();
    const auto count = static_cast<int64_t>(texts.size());
    task->inputs = {MakeTensor<char>(
        DataType::kUint8, {count, static_cast<int64_t>(longest)}, rows)};
    task->rows = count;
    task->on_done = [this](absl::StatusOr<InferResult> result) {
      EXPECT_FALSE(answer_.has_value());
      answer_ = std::move(result);
    };
    return task;
  }
  absl::Status ErrorOf(const std::vector<std::string>& texts) {
    answer_.reset();
    auto task = Task(texts);
    EXPECT_TRUE(Make()->Submit(task).ok());
    return answer_->status();
  }

  FakeClock clock_;
  TokenizerFunctions functions_{Open, Close, PadRight, Encode, Free};
  bool full_ = false;
  std::vector<std::function<void()>> later_;
  absl::Status status_;
  std::optional<absl::StatusOr<InferResult>> answer_;
};

TEST_F(TokenizerStepTest, RowsAreAsLongAsTheLongest) {
  auto task = Task({"ab", "c"});
  ASSERT_TRUE(Make()->Submit(task).ok());
  ASSERT_TRUE(answer_->ok()) << answer_->status();
  const std::vector<Tensor>& out = (*answer_)->outputs;
  EXPECT_EQ(out[0].shape, (Shape{2, 2}));
  EXPECT_THAT(ValuesOf<int64_t>(out[0]), ElementsAre('a', 'b', 'c', 7));
  EXPECT_THAT(ValuesOf<int64_t>(out[1]), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(ValuesOf<int64_t>(out[2]), ElementsAre(0, 0, 0, 3));
}

TEST_F(TokenizerStepTest, SomeAreFilledUpBefore) {
  functions_.padding = PadLeft;
  auto task = Task({"ab", "c"});
  ASSERT_TRUE(Make()->Submit(task).ok());
  EXPECT_THAT(ValuesOf<int64_t>((*answer_)->outputs[0]),
              ElementsAre('a', 'b', 7, 'c'));
}

TEST_F(TokenizerStepTest, BadStringsAreToldOfByTheirNumber) {
  EXPECT_EQ(ErrorOf({"a", ""}).message(),
            "string element 1: expected text with tokens, got an empty one");
  EXPECT_THAT(ErrorOf({"\xFF"}).message(),
              HasSubstr("string element 0: expected text with tokens, got "
                        "bytes that are not UTF-8: byte 0"));
  EXPECT_THAT(ErrorOf({"."}).message(), HasSubstr("got one without any"));
  const absl::Status failed = ErrorOf({"!"});
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(failed.message(), HasSubstr("it panicked"));
}

TEST_F(TokenizerStepTest, ADamagedFileIsRefused) {
  EXPECT_EQ(Make("?"), nullptr);
  EXPECT_EQ(status_.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status_.message(),
              HasSubstr("p/tokenizer.json: expected a tokenizer.json as "
                        "Hugging Face's tokenizers write it: no braces"));
}

TEST_F(TokenizerStepTest, WhatTakesLongIsDoneLater) {
  const auto step = Make();
  auto task = Task({std::string(5000, 'x')});
  ASSERT_TRUE(step->Submit(task).ok());
  EXPECT_FALSE(answer_.has_value());
  later_.front()();
  EXPECT_TRUE(answer_->ok());
  // As is what comes from a thread that has other things to do.
  answer_.reset();
  task = Task({"a"});
  task->may_run_here = false;
  ASSERT_TRUE(step->Submit(task).ok());
  EXPECT_FALSE(answer_.has_value());
  later_.back()();
  EXPECT_TRUE(answer_->ok());
}

TEST_F(TokenizerStepTest, WhoHasGoneMeanwhileGetsNoTokens) {
  const auto step = Make();
  auto task = Task({std::string(5000, 'x')});
  task->cancelled = std::make_shared<std::atomic<bool>>(true);
  ASSERT_TRUE(step->Submit(task).ok());
  later_.back()();
  EXPECT_EQ(answer_->status().code(), absl::StatusCode::kCancelled);
  answer_.reset();
  task = Task({std::string(5000, 'x')});
  task->deadline = clock_.Now();
  ASSERT_TRUE(step->Submit(task).ok());
  later_.back()();
  EXPECT_EQ(answer_->status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(TokenizerStepTest, AFullThreadRefusesAndLeavesTheTask) {
  full_ = true;
  auto task = Task({std::string(5000, 'x')});
  EXPECT_EQ(Make()->Submit(task).code(), absl::StatusCode::kUnavailable);
  ASSERT_NE(task, nullptr);
  EXPECT_FALSE(answer_.has_value());
}

TEST(TokenizerLibraryTest, ItsThreadDoesAllThatItTook) {
  FakeClock clock;
  std::atomic<int> done = 0;
  int taken = 0;
  {
    const TokenizerLibrary library("/nowhere", clock);
    for (int i = 0; i < 100; ++i) {
      taken += library.Run([&done] { ++done; }) ? 1 : 0;
    }
  }
  EXPECT_EQ(taken, 100);
  EXPECT_EQ(done, 100);
}

TEST(TokenizerLibraryTest, SaysWhatItLacks) {
  FakeClock clock;
  const TokenizerLibrary library("/nowhere/lib.so", clock);
  PipelineStep step;
  step.tokenizer_path = "/nowhere/tokenizer.json";
  EXPECT_THAT(library.Load(step).status().message(),
              HasSubstr("/nowhere/tokenizer.json: expected a tokenizer.json"));
  step.tokenizer_path = "/etc/hostname";
  const absl::Status status = library.Load(step).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("expected at /nowhere/lib.so "
                                          "(--tokenizer-library"));
}

}  // namespace
}  // namespace stoker
