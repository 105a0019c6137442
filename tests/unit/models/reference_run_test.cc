#include "models/reference_run.h"

#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <future>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/tensor_file.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/tensors.h"
#include "tests/unit/kernel_cache/staged_artifact.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

class ReferenceRunTest : public ::testing::Test {
 protected:
  // As in the daemon: a process may end before it has read the request.
  ReferenceRunTest() { signal(SIGPIPE, SIG_IGN); }
};

ReferenceRun Script(const std::string& script) {
  return ReferenceRun({.argv = {"/bin/sh", "-c", script}});
}

absl::Status RunOnce(const ReferenceRun& reference, std::stop_token stop = {}) {
  const std::vector<Tensor> inputs = {
      MakeTensor<float>(DataType::kFp32, {1}, {1})};
  return reference.Run("model.pt2", inputs, std::move(stop)).status();
}

TEST_F(ReferenceRunTest, AnswersWithWhatTheProcessReplies) {
  // The request is a tensor file of the inputs, by position, and so is the
  // reply.
  const std::vector<Tensor> inputs = {
      MakeTensor<double>(DataType::kFp64, {2}, {1, 2})};
  const auto outputs = Script("cat >&3").Run("model.pt2", inputs, {});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 1u);
  EXPECT_EQ(ValuesOf<double>(outputs->front()), (std::vector<double>{1, 2}));
}

TEST_F(ReferenceRunTest, AFailureHasTheLastWords) {
  const absl::Status status = RunOnce(Script("echo no torch >&2; exit 3"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("exit status 3: no torch"));
}

TEST_F(ReferenceRunTest, OneThatTakesTooLongOrIsKilledHasSaidNothing) {
  const ReferenceRun slow({.argv = {"/bin/sh", "-c", "exec sleep 600"},
                           .time_limit = absl::Milliseconds(1)});
  EXPECT_EQ(RunOnce(slow).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(RunOnce(Script("kill -9 $$")).code(), absl::StatusCode::kInternal);
}

// The program's fault, and nobody else's.
TEST_F(ReferenceRunTest, ARefusalHasTheReasonInOneLine) {
  const TempFolder folder;
  const std::string said = "TypeError: no such kernel\nat line 3";
  std::vector<uint8_t> bytes(said.begin(), said.end());
  const auto length = static_cast<int64_t>(bytes.size());
  WriteBytes(
      folder / "refusal",
      *TensorFileBytes({{"refused", MakeTensor<uint8_t>(DataType::kUint8,
                                                        {length}, bytes)}}));
  EXPECT_EQ(RunOnce(Script("cat " + (folder / "refusal") + " >&3")),
            absl::FailedPreconditionError("TypeError: no such kernel"));
  // Not when it is cut short.
  EXPECT_EQ(
      RunOnce(Script("head -c 40 " + (folder / "refusal") + " >&3")).code(),
      absl::StatusCode::kInternal);
}

TEST_F(ReferenceRunTest, WithoutPythonThereIsNone) {
  EXPECT_TRUE(absl::IsUnavailable(RunOnce(ReferenceRun({}))));
}

TEST_F(ReferenceRunTest, OneThatHangsEndsWhenItIsStopped) {
  const TempFolder folder;
  const std::string begun = folder / "begun";
  ASSERT_EQ(mkfifo(begun.c_str(), 0600), 0);
  const ReferenceRun reference = Script("echo > " + begun + "; sleep 600");
  std::stop_source stop;
  auto ran = std::async(std::launch::async,
                        [&] { return RunOnce(reference, stop.get_token()); });
  std::ifstream(begun).get();  // blocks until it writes
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(ran.get()));
}

TEST_F(ReferenceRunTest, OneThatIsStoppedBeforeItBeginsEndsAtOnce) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(
      absl::IsCancelled(RunOnce(Script("sleep 600"), stop.get_token())));
}

}  // namespace
}  // namespace stoker
