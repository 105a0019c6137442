// Programs in their eager form: the answers, refusals of values and of
// archives.
#include "runner/eager_executable.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/lost_pages.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/runner/dtype_inputs.h"
#include "tests/unit/runner/torch_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EagerExecutableTest : public TorchTest {};

TEST_F(EagerExecutableTest, AnswersInTheProgramsOrder) {
  const auto eager = OpenEager("lookup");
  ASSERT_NE(eager, nullptr);
  EXPECT_EQ(eager->tier(), "eager");
  const RunResult result =
      MustRun(*eager, LookupInputs({1, 2, 3, 0, 0, 9}, {2, -4}));
  EXPECT_THAT(result.faults, IsEmpty());
  ASSERT_THAT(result.outputs, SizeIs(5));
  EXPECT_THAT(result.outputs[0].shape, ElementsAre(2, 2));
  EXPECT_THAT(ValuesOf<float>(result.outputs[0]),
              ElementsAre(12.5f, 60.5f, 18.5f, 90.5f));
  EXPECT_EQ(result.outputs[1].dtype, DataType::kInt64);
  EXPECT_THAT(ValuesOf<int64_t>(result.outputs[1]),
              ElementsAre(0, 1, 1, 0, 0, -3));
  // A transposed output is made contiguous.
  EXPECT_THAT(result.outputs[2].shape, ElementsAre(2, 2, 3));
  EXPECT_THAT(ValuesOf<float>(result.outputs[2]),
              ElementsAre(1, 2, 3, 10, 20, 30, 0, 0, 9, 0, 0, 90));
  EXPECT_EQ(ValuesOf<float>(result.outputs[3])[2], 202);
}

TEST_F(EagerExecutableTest, AnOutputThatIsAnInputIsACopy) {
  const auto eager = OpenEager("lookup");
  ASSERT_NE(eager, nullptr);
  const std::vector<Tensor> inputs = LookupInputs({1, 2, 3}, {1});
  const RunResult result = MustRun(*eager, inputs);
  ASSERT_THAT(result.outputs, SizeIs(5));
  EXPECT_NE(result.outputs[4].data, inputs[0].data);
  EXPECT_THAT(ValuesOf<int64_t>(result.outputs[4]), ElementsAre(1, 2, 3));
}

TEST_F(EagerExecutableTest, EveryElementTypeGoesInAndComesOut) {
  const auto eager = OpenEager("dtypes");
  ASSERT_NE(eager, nullptr);
  const std::vector<DtypeCase> cases = DtypeCases();
  std::vector<Tensor> inputs;
  for (const DtypeCase& one : cases) inputs.push_back(one.input);
  const RunResult result = MustRun(*eager, inputs);
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

// Named tuples, dataclasses and other dictionaries, going in and coming out.
TEST_F(EagerExecutableTest, ValuesMayBeInContainersOfAnyClass) {
  const auto eager = OpenEager("containers");
  ASSERT_NE(eager, nullptr);
  const auto row = [](float first) {
    return MakeTensor<float>(DataType::kFp32, {1, 3},
                             {first, first + 1, first + 2});
  };
  const RunResult result = MustRun(*eager, {row(10), row(20), row(1)});
  ASSERT_THAT(result.outputs, SizeIs(5));
  const std::vector<float> expected[] = {
      {9, 10, 11}, {2, 3, 4}, {40, 42, 44}, {30, 32, 34}, {10, 22, 36}};
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    EXPECT_EQ(ValuesOf<float>(result.outputs[i]), expected[i]) << i;
  }
}

TEST_F(EagerExecutableTest, ValuesThatItRefusesAreTheRequestsFault) {
  const auto eager = OpenEager("lookup");
  ASSERT_NE(eager, nullptr);
  for (const int64_t id : {int64_t{10}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    const absl::Status status =
        eager->Run(*context_, LookupInputs({1, id, 3}, {1})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("index out of range in self (aten.embedding.default)"));
  }
  const absl::Status status =
      eager->Run(*context_, LookupInputs({1, 2, 3}, {0})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ZeroDivisionError (aten.floor_divide.default)"));
  // The next request is answered.
  MustRun(*eager, LookupInputs({1, 2, 3}, {1}));
}

TEST_F(EagerExecutableTest, AMessageIsOneLineWithoutAStackTrace) {
  const auto eager = OpenEager("lookup");
  ASSERT_NE(eager, nullptr);
  const absl::Status status =
      eager->Run(*context_, LookupInputs({1, 99, 3}, {1})).status();
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("frame #")));
}

// Torch's interpreter has a kernel for this that is wrong (static_kernels.h).
TEST_F(EagerExecutableTest, ANumberTimesAViewIsRight) {
  const auto eager = OpenEager("views");
  ASSERT_NE(eager, nullptr);
  const std::vector<float> rows = {0, 1, 2,  3,  4,  5,  6,  7,
                                   8, 9, 10, 11, 12, 13, 14, 15};
  const RunResult result =
      MustRun(*eager, {MakeTensor<float>(DataType::kFp32, {2, 8}, rows)});
  ASSERT_THAT(result.outputs, SizeIs(5));
  EXPECT_THAT(ValuesOf<float>(result.outputs[0]), ElementsAre(10, 20, 90, 100));
  EXPECT_THAT(ValuesOf<float>(result.outputs[1]), ElementsAre(0, 40, 80, 120));
  EXPECT_THAT(ValuesOf<float>(result.outputs[2]), ElementsAre(50, 130));
  EXPECT_THAT(ValuesOf<float>(result.outputs[3]),
              ElementsAre(10, 10, 10, 90, 90, 90));
  EXPECT_THAT(ValuesOf<float>(result.outputs[4]),
              ElementsAre(40, 50, 60, 70, 120, 130, 140, 150));
}

TEST_F(EagerExecutableTest, AProgramThatWritesIntoItsInputGetsACopy) {
  const auto eager = OpenEager("doubling");
  ASSERT_NE(eager, nullptr);
  const std::vector<Tensor> inputs = {
      MakeTensor<float>(DataType::kFp32, {2, 3}, {1, 2, 3, 4, 5, 6})};
  const RunResult result = MustRun(*eager, inputs);
  EXPECT_THAT(ValuesOf<float>(result.outputs[0]),
              ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THAT(ValuesOf<float>(inputs[0]), ElementsAre(1, 2, 3, 4, 5, 6));
}

// nativert knows no wrappers: the program is another one, over the same
// weights.
class WrappedProgramTest : public EagerExecutableTest {
 protected:
  static std::vector<Tensor> Rows() {
    return {MakeTensor<float>(DataType::kFp32, {2, 2}, {1, 0, 1, 1})};
  }
};

TEST_F(WrappedProgramTest, AnswersOverTheMappedWeights) {
  auto eager = OpenEager("wrapped");
  ASSERT_NE(eager, nullptr);
  const RunResult result = MustRun(*eager, Rows());
  ASSERT_THAT(result.outputs, SizeIs(3));
  eager.reset();  // what shows a weight keeps it
  EXPECT_THAT(ValuesOf<float>(result.outputs[0]), ElementsAre(3, 4));
  EXPECT_THAT(ValuesOf<float>(result.outputs[1]), ElementsAre(11, 22, 14, 26));
  EXPECT_THAT(ValuesOf<float>(result.outputs[2]),
              ElementsAre(11, -22, 14, -26));
}

TEST_F(WrappedProgramTest, OtherInputsThanItsOwnAreAnError) {
  const auto eager = OpenEager("wrapped");
  ASSERT_NE(eager, nullptr);
  std::vector<Tensor> two = Rows();
  two.push_back(Rows()[0]);
  for (const std::vector<Tensor>& inputs : {std::vector<Tensor>(), two}) {
    EXPECT_EQ(eager->Run(*context_, inputs).status().code(),
              absl::StatusCode::kInternal);
  }
}

TEST_F(WrappedProgramTest, AFileThatIsWrittenToIsNotBelieved) {
  const TempFolder folder;
  const std::string path = folder / "model.pt2";
  OutliveLostPages();
  std::filesystem::copy_file(Made("wrapped.pt2"), path);
  const auto eager = loader_->OpenEager(path, nullptr);
  ASSERT_TRUE(eager.ok()) << eager.status();
  std::filesystem::resize_file(path, 100);
  const absl::Status status = (*eager)->Run(*context_, Rows()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("was written to"));
}

TEST_F(EagerExecutableTest, TooLittleMemoryIsSaidSo) {
  const auto eager = OpenEager("wide");
  ASSERT_NE(eager, nullptr);
  // One row that claims to be 2^45: 4096 columns of it are 2^59 bytes, which no
  // machine has. The program reads none of the rows before it asks for that.
  Tensor row =
      MakeTensor<float>(DataType::kFp32, {1, 512}, std::vector<float>(512));
  row.shape = {int64_t{1} << 45, 512};
  row.byte_size = size_t{512 * 4} << 45;
  const absl::Status status = eager->Run(*context_, {row}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST_F(EagerExecutableTest, SampleInputsAreNotRead) {
  const auto eager = loader_->OpenEager(Made("sample_inputs.pt2"), nullptr);
  ASSERT_TRUE(eager.ok()) << eager.status();
  MustRun(**eager, LookupInputs({1, 2, 3}, {1}));
  EXPECT_FALSE(std::ifstream(Made("sample_inputs.pt2.executed")).good());
}

TEST_F(EagerExecutableTest, HostileArchivesAreRefused) {
  for (const char* kind : {"pickled_weight", "pickled_constant",
                           "file_operator", "wrong_shape", "huge_weight"}) {
    const std::string path = Made(std::string(kind) + ".pt2");
    const absl::Status eager = loader_->OpenEager(path, nullptr).status();
    EXPECT_EQ(eager.code(), absl::StatusCode::kInvalidArgument) << kind;
    EXPECT_THAT(std::string(eager.message()), HasSubstr(path));
    EXPECT_EQ(loader_->MapWeights(path).status(), eager);
    EXPECT_FALSE(std::ifstream(path + ".executed").good()) << kind;
  }
}

TEST_F(EagerExecutableTest, AMissingFileIsNotFound) {
  EXPECT_EQ(loader_->OpenEager(Made("nothing.pt2"), nullptr).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stoker
