// What the torch tests of this room share: the programs and artifacts that
// make_artifacts.py made, and plain tensors to run them with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runner/executable_loader.h"
#include "tests/fakes/tensors.h"

namespace stoker {

// The path of a program or artifact.
inline std::string Made(const std::string& name) {
  return std::string(RUNNER_TESTDATA) + "/" + name;
}

// Inputs of "lookup": three ids a row and one divisor.
inline std::vector<Tensor> LookupInputs(const std::vector<int64_t>& ids,
                                        const std::vector<int64_t>& divisors) {
  const auto rows = static_cast<int64_t>(divisors.size());
  return {MakeTensor(DataType::kInt64, {rows, 3}, ids),
          MakeTensor(DataType::kInt64, {rows, 1}, divisors)};
}

class TorchTest : public ::testing::Test {
 protected:
  std::shared_ptr<Executable> OpenEager(const std::string& program) {
    auto opened = loader_->OpenEager(Made(program + ".pt2"), nullptr);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *opened : nullptr;
  }

  std::shared_ptr<WeightStore> Map(const std::string& program) {
    auto mapped = loader_->MapWeights(Made(program + ".pt2"));
    EXPECT_TRUE(mapped.ok()) << mapped.status();
    return mapped.ok() ? *mapped : nullptr;
  }

  std::shared_ptr<Executable> OpenAot(const std::string& artifact,
                                      const std::string& program) {
    auto opened = loader_->OpenAot(Made(artifact), Map(program));
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *opened : nullptr;
  }

  RunResult MustRun(Executable& executable, const std::vector<Tensor>& inputs) {
    auto result = executable.Run(*context_, inputs);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : RunResult();
  }

  const std::unique_ptr<ExecutableLoader> loader_ = MakeCpuLoader();
  const std::unique_ptr<ExecutionContext> context_ = loader_->NewContext(2);
};

}  // namespace stoker
