// Compiled artifacts: they answer like the eager form, tell rows apart whose
// values are refused, share one copy of the weights, and are not opened where
// they can't run.
#include "runner/aot_executable.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "base/free_cores.h"
#include "base/lost_pages.h"
#include "nlohmann/json.hpp"
#include "runner/convolution_weight.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/runner/dtype_inputs.h"
#include "tests/unit/runner/torch_fixture.h"

namespace stoker {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Bytes of this process that no file is behind.
int64_t AnonymousBytes() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    if (word != "RssAnon:") continue;
    int64_t kilobytes = 0;
    file >> kilobytes;
    return kilobytes * 1024;
  }
  return -1;
}

// The files mapped into this process whose name holds `part`.
std::set<std::string> MappedFiles(const std::string& part) {
  std::ifstream file("/proc/self/maps");
  std::set<std::string> files;
  for (std::string line; std::getline(file, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::string path = line.substr(slash);
    if (path.find(part) != std::string::npos) files.insert(path);
  }
  return files;
}

class AotExecutableTest : public TorchTest {
 protected:
  // A copy of an artifact whose manifest `change` has changed.
  template <typename Change>
  std::string Changed(const std::string& artifact, Change change) {
    const std::string copy = folder_ / artifact;
    std::filesystem::copy(Made(artifact), copy);
    json manifest = json::parse(std::ifstream(copy + "/manifest.json"));
    change(manifest);
    std::ofstream(copy + "/manifest.json") << manifest;
    return copy;
  }

  const TempFolder folder_;
};

TEST_F(AotExecutableTest, AnswersLikeTheEagerForm) {
  const auto eager = OpenEager("lookup");
  const auto compiled = OpenAot("lookup4", "lookup");
  ASSERT_TRUE(eager != nullptr && compiled != nullptr);
  EXPECT_EQ(compiled->tier(), "aot");
  const std::vector<Tensor> inputs =
      LookupInputs({1, 2, 3, 0, 0, 9, 4, 4, 4, 8, 7, 6}, {2, -4, 1, INT64_MAX});
  const RunResult expected = MustRun(*eager, inputs);
  const RunResult actual = MustRun(*compiled, inputs);
  EXPECT_THAT(actual.faults, IsEmpty());
  ASSERT_EQ(actual.outputs.size(), expected.outputs.size());
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    EXPECT_EQ(actual.outputs[i].dtype, expected.outputs[i].dtype);
    EXPECT_EQ(actual.outputs[i].shape, expected.outputs[i].shape);
    // Small integers in floating point: every order of additions gives the
    // same.
    EXPECT_EQ(ValuesOf<uint8_t>(actual.outputs[i]),
              ValuesOf<uint8_t>(expected.outputs[i]))
        << "output " << i;
  }
}

TEST_F(AotExecutableTest, EveryElementTypeGoesInAndComesOut) {
  const auto compiled = OpenAot("dtypes2", "dtypes");
  ASSERT_NE(compiled, nullptr);
  const std::vector<DtypeCase> cases = DtypeCases();
  std::vector<Tensor> inputs;
  for (const DtypeCase& one : cases) inputs.push_back(one.input);
  const RunResult result = MustRun(*compiled, inputs);
  ASSERT_THAT(result.outputs, SizeIs(cases.size() + 1));
  for (size_t i = 0; i < cases.size(); ++i) {
    const Tensor& expected = cases[i].expected;
    EXPECT_EQ(result.outputs[i].dtype, expected.dtype);
    EXPECT_EQ(ValuesOf<uint8_t>(result.outputs[i]), ValuesOf<uint8_t>(expected))
        << DataTypeName(expected.dtype);
  }
  EXPECT_THAT(result.outputs.back().shape, IsEmpty());
  EXPECT_THAT(ValuesOf<float>(result.outputs.back()), ElementsAre(18));
}

TEST_F(AotExecutableTest, ARefusedValueIsTheFaultOfItsRowOnly) {
  const auto compiled = OpenAot("lookup4", "lookup");
  ASSERT_NE(compiled, nullptr);
  const RunResult right =
      MustRun(*compiled,
              LookupInputs({1, 2, 3, 1, 1, 1, 4, 4, 4, 8, 7, 6}, {1, 1, 1, 1}));
  const RunResult result = MustRun(
      *compiled, LookupInputs({1, 2, 3, 1, 10, 1, 4, 4, 4, 8, INT64_MIN, 6},
                              {1, 1, 0, 0}));
  ASSERT_THAT(result.faults, SizeIs(3));
  EXPECT_EQ(result.faults[0].row, 1);
  EXPECT_THAT(result.faults[0].message,
              HasSubstr("ids: index out of range, expected 0 <= index < 10"));
  EXPECT_THAT(result.faults[0].message, HasSubstr("(aten.embedding"));
  EXPECT_EQ(result.faults[1].row, 2);
  EXPECT_THAT(result.faults[1].message, HasSubstr("divis"));
  EXPECT_EQ(result.faults[2].row, 3);
  EXPECT_THAT(result.faults[2].message, HasSubstr("; "));
  // The row beside them is what it always was.
  ASSERT_EQ(result.outputs.size(), right.outputs.size());
  for (size_t i = 0; i < right.outputs.size(); ++i) {
    const size_t row = right.outputs[i].byte_size / 4;
    EXPECT_EQ(
        std::string(reinterpret_cast<const char*>(result.outputs[i].data), row),
        std::string(reinterpret_cast<const char*>(right.outputs[i].data), row))
        << "output " << i;
  }
}

TEST_F(AotExecutableTest, OutputsOutliveTheExecutableAndItsInputs) {
  RunResult result;
  {
    const auto compiled = OpenAot("lookup4", "lookup");
    ASSERT_NE(compiled, nullptr);
    result = MustRun(
        *compiled,
        LookupInputs({1, 2, 3, 1, 1, 1, 4, 4, 4, 8, 7, 6}, {1, 1, 1, 1}));
  }
  ASSERT_THAT(result.outputs, SizeIs(5));
  EXPECT_EQ(ValuesOf<float>(result.outputs[0])[0], 12.5f);
  EXPECT_EQ(ValuesOf<int64_t>(result.outputs[4])[2], 3);
}

TEST_F(AotExecutableTest, ArtifactsShareOneCopyOfTheWeights) {
  constexpr int64_t kWeights = 16 << 20;
  const auto eager = OpenEager("wide");
  const auto weights = Map("wide");
  ASSERT_TRUE(eager != nullptr && weights != nullptr);
  const auto first = loader_->OpenAot(Made("wide2"), weights);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::vector<Tensor> two = {MakeTensor(
      DataType::kFp32, {2, 512}, std::vector<float>(2 * 512, 0.25f))};
  const std::vector<Tensor> three = {MakeTensor(
      DataType::kFp32, {3, 512}, std::vector<float>(3 * 512, 0.25f))};
  MustRun(**first, two);
  const int64_t before = AnonymousBytes();
  const auto second = loader_->OpenAot(Made("wide3"), weights);
  ASSERT_TRUE(second.ok()) << second.status();
  const RunResult actual = MustRun(**second, three);
  EXPECT_LT(AnonymousBytes() - before, kWeights / 4);
  const RunResult expected = MustRun(*eager, three);
  ASSERT_THAT(actual.outputs, SizeIs(1));
  const auto a = ValuesOf<float>(actual.outputs[0]);
  const auto b = ValuesOf<float>(expected.outputs[0]);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4) << i;
}

// Its products are large enough for oneDNN, which takes the weights packed.
TEST_F(AotExecutableTest, PackedWeightsGiveTheEagerFormsAnswers) {
  std::ifstream file(Made("wide2") + "/manifest.json");
  ASSERT_EQ(json::parse(file)["packed"],
            json::array({"down.weight", "up.weight"}));
  const auto eager = OpenEager("wide");
  const auto weights = Map("wide");
  ASSERT_TRUE(eager != nullptr && weights != nullptr);
  for (const int64_t rows : {2, 3}) {
    const auto compiled =
        loader_->OpenAot(Made("wide" + std::to_string(rows)), weights);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    std::vector<float> values(static_cast<size_t>(rows) * 512);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 37) / 37 - 0.5f;
    }
    const Tensor input = MakeTensor(DataType::kFp32, {rows, 512}, values);
    const std::vector<float> expected =
        ValuesOf<float>(MustRun(*eager, {input}).outputs[0]);
    const std::vector<float> actual =
        ValuesOf<float>(MustRun(**compiled, {input}).outputs[0]);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 1e-5) << i;
    }
  }
}

// Containers never let go of a constant's tensor; its memory must go all the
// same.
TEST_F(AotExecutableTest, PackedWeightsGoWithTheirVersion) {
  constexpr int64_t kWeights = 16 << 20;
  ASSERT_NE(OpenAot("wide2", "wide"), nullptr);
  const int64_t before = AnonymousBytes();
  for (int i = 0; i < 5; ++i) ASSERT_NE(OpenAot("wide2", "wide"), nullptr);
  // malloc may keep one of them for the next.
  EXPECT_LT(AnonymousBytes() - before, 2 * kWeights);
}

TEST_F(AotExecutableTest, PackedConvolutionsGiveTheEagerFormsAnswers) {
  std::ifstream file(Made("convolutions3") + "/manifest.json");
  const json manifest = json::parse(file);
  std::vector<std::string> packed;
  for (const json& one : manifest["convolutions"]) {
    packed.push_back(one["weight"]);
  }
  EXPECT_THAT(packed,
              ElementsAre("first.weight", "second.weight", "third.weight"));
  const auto eager = OpenEager("convolutions");
  const auto weights = Map("convolutions");
  ASSERT_TRUE(eager != nullptr && weights != nullptr);
  for (const int64_t rows : {1, 3}) {
    const auto compiled =
        loader_->OpenAot(Made("convolutions" + std::to_string(rows)), weights);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    std::vector<float> values(static_cast<size_t>(rows) * 3 * 64 * 64);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 37) / 37 - 0.5f;
    }
    const Tensor input = MakeTensor(DataType::kFp32, {rows, 3, 64, 64}, values);
    const std::vector<float> expected =
        ValuesOf<float>(MustRun(*eager, {input}).outputs[0]);
    const std::vector<float> actual =
        ValuesOf<float>(MustRun(**compiled, {input}).outputs[0]);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 1e-5) << i;
    }
  }
  for (const std::string& name : packed) {
    const auto* laid_out = ConvolutionWeight::Of(*weights->Find(name));
    ASSERT_NE(laid_out, nullptr) << name;
    EXPECT_GE(laid_out->layouts(), 1U) << name << " was taken as it lies";
  }
}

TEST_F(AotExecutableTest, WhatIsNoConvolutionIsNotPacked) {
  const std::string artifact = Changed("convolutions3", [](json& manifest) {
    manifest["convolutions"][0]["weight"] = "norm.weight";
  });
  const auto opened = loader_->OpenAot(artifact, Map("convolutions"));
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(opened.status().message()),
              HasSubstr("'norm.weight' can't be packed: expected a "
                        "convolution's float32 weights"));
}

TEST_F(AotExecutableTest, WhatIsNoMatrixIsNotPacked) {
  const std::string artifact = Changed(
      "wide2", [](json& manifest) { manifest["packed"] = {"up.bias"}; });
  const auto opened = loader_->OpenAot(artifact, Map("wide"));
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(opened.status().message()),
              HasSubstr("'up.bias' can't be packed"));
}

// Whoever copies a new model over the old one cuts it short first.
TEST_F(AotExecutableTest, WeightsThatWereWrittenToAnswerNothing) {
  OutliveLostPages();
  const std::string program = folder_ / "wide.pt2";
  std::filesystem::copy_file(Made("wide.pt2"), program);
  const auto weights = loader_->MapWeights(program);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto compiled = loader_->OpenAot(Made("wide2"), *weights);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Tensor input =
      MakeTensor(DataType::kFp32, {2, 512}, std::vector<float>(1024, 0.5f));
  MustRun(**compiled, {input});
  std::filesystem::resize_file(program, 100);
  for (int i = 0; i < 2; ++i) {
    const absl::Status lost = (*compiled)->Run(*context_, {input}).status();
    EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(lost.message()), HasSubstr("wide.pt2 was written"));
  }
}

// How many threads a run makes of a thread that has so many compute threads.
std::ptrdiff_t ThreadsOfARun(ExecutableLoader& loader, Executable& executable,
                             const Tensor& input, int threads) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
  };
  const std::ptrdiff_t before = count();
  std::ptrdiff_t after = 0;
  std::thread caller([&] {
    const auto context = loader.NewContext(threads);
    EXPECT_TRUE(executable.Run(*context, {input}).ok());
    after = count();
  });
  caller.join();
  return after - before;
}

TEST_F(AotExecutableTest, CompiledLoopsKeepToTheirContextsThreads) {
  const auto zeros = [](int64_t columns) {
    return MakeTensor(DataType::kFp32, {2, columns},
                      std::vector<float>(static_cast<size_t>(2 * columns)));
  };
  const auto wide = OpenAot("wide2", "wide");
  ASSERT_NE(wide, nullptr);
  EXPECT_TRUE(wide->KeepsToContext());
  EXPECT_EQ(ThreadsOfARun(*loader_, *wide, zeros(512), 1), 1);
  const auto wave = OpenAot("wave2", "wave");
  ASSERT_NE(wave, nullptr);
  EXPECT_TRUE(wave->KeepsToContext());
  EXPECT_EQ(ThreadsOfARun(*loader_, *wave, zeros(1 << 16), 1), 1);
  EXPECT_EQ(ThreadsOfARun(*loader_, *wave, zeros(1 << 16), 3), 3);
}

// In the layouts that runs of so many threads want.
TEST_F(AotExecutableTest, RunsWithConvolutionsTakeTheThreadsThatHaveACore) {
  FakeClock clock;
  std::atomic<double> to_be_had = 0;
  const auto read = [&]() -> std::optional<CpuTimes> {
    return CpuTimes{.cpus = {0, 1, 2}, .to_be_had = to_be_had.load()};
  };
  FreeCores cores(
      3, read, [] { return 3.0; }, clock);
  for (int i = 0; i < FreeCores::kReadings; ++i) {  // others leave one
    clock.BlockUntilWaiters(1);
    to_be_had.store(to_be_had.load() +
                    absl::ToDoubleSeconds(FreeCores::kPeriod));
    clock.Advance(FreeCores::kPeriod);
  }
  clock.BlockUntilWaiters(1);
  const auto loader = MakeCpuLoader(&cores);
  const auto weights = loader->MapWeights(Made("convolutions.pt2"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto convolved = loader->OpenAot(Made("convolutions1"), *weights);
  ASSERT_TRUE(convolved.ok()) << convolved.status();
  const Tensor input = MakeTensor(DataType::kFp32, {1, 3, 64, 64},
                                  std::vector<float>(3 * 64 * 64, 0.5f));
  std::thread([&] {
    const auto context = loader->NewContext(3);
    EXPECT_TRUE((*convolved)->Run(*context, {input}).ok());
    EXPECT_EQ(context->threads(), 1);
  }).join();
}

TEST_F(AotExecutableTest, OneOpenMpRuntimeAndNoCudaLibraries) {
  const auto compiled = OpenAot("lookup4", "lookup");
  ASSERT_NE(compiled, nullptr);
  EXPECT_THAT(MappedFiles("libgomp"), SizeIs(1));
  EXPECT_THAT(MappedFiles("libtorch_cuda"), IsEmpty());
  EXPECT_THAT(MappedFiles("libtorch.so"), IsEmpty());
}

TEST_F(AotExecutableTest, OtherInputsThanItWasCompiledForAreRefused) {
  const auto compiled = OpenAot("lookup4", "lookup");
  ASSERT_NE(compiled, nullptr);
  const absl::Status shape =
      compiled->Run(*context_, LookupInputs({1, 2, 3}, {1})).status();
  EXPECT_EQ(shape.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(shape.message()),
              HasSubstr("'ids': expected INT64 [4,3], got INT64 [1,3]"));
  std::vector<Tensor> inputs =
      LookupInputs({1, 2, 3, 1, 1, 1, 4, 4, 4, 8, 7, 6}, {1, 1, 1, 1});
  inputs[1] = MakeTensor<float>(DataType::kFp32, {4, 1}, {1, 1, 1, 1});
  EXPECT_THAT(std::string(compiled->Run(*context_, inputs).status().message()),
              HasSubstr("'divisor': expected INT64 [4,1], got FP32 [4,1]"));
  inputs.pop_back();
  EXPECT_THAT(std::string(compiled->Run(*context_, inputs).status().message()),
              HasSubstr("takes 2 inputs, got 1"));
}

TEST_F(AotExecutableTest, AnotherProgramsWeightsAreRefused) {
  const absl::Status status =
      loader_->OpenAot(Made("wide2"), Map("lookup")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs constant '"));
}

TEST_F(AotExecutableTest, TheContainersOwnListOfConstantsCounts) {
  const std::string silent = Changed(
      "wide2", [](json& manifest) { manifest["constants"] = json::array(); });
  const absl::Status status = loader_->OpenAot(silent, Map("lookup")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs constant '"));
}

TEST_F(AotExecutableTest, ConstantsThatTheProgramWritesAreRefused) {
  const std::string stateful = Changed("wide2", [](json& manifest) {
    manifest["constants"] = json::array({"count"});
  });
  const absl::Status status =
      loader_->OpenAot(stateful, Map("counter")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("writes into 'count'"));
}

TEST_F(AotExecutableTest, CodeForAnotherProcessorIsNotOpened) {
  const std::string foreign = Changed("lookup4", [](json& manifest) {
    manifest["toolchain"]["march"] = "x86-64-v9";
  });
  // Opening it would fail differently.
  std::filesystem::remove(foreign + "/model.so");
  const absl::Status status = loader_->OpenAot(foreign, Map("lookup")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("compiled for x86-64-v9"));
}

TEST_F(AotExecutableTest, CodeOfAnotherTorchIsNotOpened) {
  const std::string old = Changed("lookup4", [](json& manifest) {
    manifest["toolchain"]["torch"] = "2.10.1+cu130";
  });
  const absl::Status status = loader_->OpenAot(old, Map("lookup")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("torch 2.10.1+cu130"));
}

TEST_F(AotExecutableTest, ADamagedLibraryIsAnErrorAndNotAnEnd) {
  const std::string damaged = Changed("lookup4", [](json&) {});
  std::filesystem::resize_file(damaged + "/model.so", 100);
  const absl::Status status = loader_->OpenAot(damaged, Map("lookup")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr(damaged));
  EXPECT_EQ(loader_->OpenAot(folder_.path(), Map("lookup")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(AotExecutableTest, TheWrongNumberOfOutputsIsNoticed) {
  const std::string wrong =
      Changed("lookup4", [](json& manifest) { manifest["outputs"] = 6; });
  const auto compiled = loader_->OpenAot(wrong, Map("lookup"));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const absl::Status status =
      (*compiled)
          ->Run(*context_, LookupInputs({1, 2, 3, 1, 1, 1, 4, 4, 4, 8, 7, 6},
                                        {1, 1, 1, 1}))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("its manifest has 7"));
}

}  // namespace
}  // namespace stoker
