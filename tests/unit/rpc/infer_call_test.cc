#include "rpc/infer_call.h"

#include <gmock/gmock.h>

#include "tests/unit/rpc/serving_fixture.h"

namespace stoker {
namespace {

class InferCallTest : public ServingTest {
 protected:
  // What a message that arrived in two slices is answered, for each place of
  // the cut.
  std::vector<absl::StatusCode> Codes(const std::string& message) {
    CompletionThread completion, reader("reader");
    std::atomic<int> submitted = 0;
    Admission admission(1 << 30, metrics_);
    const InferCall::Services services{*manager_,  Clock::Real(), metrics_,
                                       completion, submitted,     admission,
                                       reader};
    std::vector<absl::StatusCode> codes;
    for (size_t cut = 0; cut <= message.size(); ++cut) {
      const std::vector<std::string> pieces = {message.substr(0, cut),
                                               message.substr(cut)};
      Admission::Ticket ticket(admission);
      InferCall::Start(services, InSlices(pieces),
                       MonotonicTime::InfiniteFuture(), AnswerForm::kUnary,
                       ticket, 0, [&](const InferCall::Answer& answer) {
                         codes.push_back(answer.status.code());
                       });
    }
    return codes;
  }
};

TEST_F(InferCallTest, MessagesAreReadAcrossSlices) {
  Start();
  // Refused only for what the whole message says: the model's name.
  inference::ModelInferRequest request = Request(1, 32);
  request.set_model_name("nobody");
  EXPECT_THAT(Codes(request.SerializeAsString()),
              ::testing::Each(absl::StatusCode::kNotFound));
}

// Protobuf stops at the end of a group that was never opened, and hands back
// what it has looked ahead, which may be more than the last slice.
TEST_F(InferCallTest, MessagesThatEndEarlyAcrossSlices) {
  Start();
  const std::string request = Request(1, 2).SerializeAsString();
  for (const size_t rest : {0, 1, 20, 200}) {
    EXPECT_THAT(Codes(request + "\x0C" + std::string(rest, 'x')),
                ::testing::Each(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace stoker
