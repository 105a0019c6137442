#include "rpc/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "rpc/status_mapping.h"
#include "rpc_status.pb.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = 1 << 20;
constexpr size_t kMax = 64 * kMiB;

class AdmissionTest : public ::testing::Test {
 protected:
  using Tickets = std::vector<std::unique_ptr<Admission::Ticket>>;

  // Requests of `bytes` for the model until one is refused; it comes last.
  absl::Status Flood(const std::string& model, size_t bytes, Tickets& tickets) {
    for (int i = 0; i < 10'000; ++i) {
      auto ticket = std::make_unique<Admission::Ticket>(admission_);
      absl::Status status = ticket->Take(bytes);
      if (status.ok()) status = ticket->Assign(model);
      if (!status.ok()) return status;
      tickets.push_back(std::move(ticket));
    }
    return absl::OkStatus();
  }

  double Refused(const std::string& model, const std::string& reason) {
    return MetricValue(metrics_, "stoker_refused_requests_total",
                       {{"model", model}, {"reason", reason}});
  }

  MetricRegistry metrics_;
  Admission admission_{kMax, metrics_};
};

TEST_F(AdmissionTest, TicketsGiveBackWhatTheyHold) {
  {
    Admission::Ticket ticket(admission_);
    ASSERT_TRUE(ticket.Take(10).ok());
    ASSERT_TRUE(ticket.Take(5).ok());
    EXPECT_EQ(admission_.bytes(), 15u);
    ASSERT_TRUE(ticket.Assign("m").ok());
    ticket.Resize(7);
    EXPECT_EQ(admission_.bytes(), 7u);
    ticket.Resize(70);
    EXPECT_EQ(admission_.bytes(), 70u);
    EXPECT_EQ(MetricValue(metrics_, "stoker_request_memory_bytes"), 70);
  }
  EXPECT_EQ(admission_.bytes(), 0u);
  EXPECT_EQ(MetricValue(metrics_, "stoker_request_memory_bytes"), 0);
}

TEST_F(AdmissionTest, NothingIsTakenBeyondTheCeiling) {
  Admission::Ticket first(admission_), second(admission_);
  ASSERT_TRUE(first.Take(kMax - 10).ok());
  const absl::Status refused = second.Take(11);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("try again later"));
  EXPECT_EQ(second.bytes(), 0u);
  EXPECT_EQ(Refused("", "memory"), 1);
  EXPECT_TRUE(second.Take(10).ok());
  EXPECT_EQ(admission_.bytes(), kMax);
}

// Waiting would not help.
TEST_F(AdmissionTest, RequestsThatNeverFitGetNoHint) {
  Admission::Ticket ticket(admission_);
  ASSERT_TRUE(ticket.Take(kMax / 2).ok());
  const absl::Status refused = ticket.Take(kMax / 2 + 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("expected at most"));
  EXPECT_EQ(ToCallStatus(refused).details, "");
  EXPECT_EQ(Refused("", "memory"), 0);
}

TEST_F(AdmissionTest, AFloodedModelLeavesHalfToTheOthers) {
  Tickets flood, others;
  const absl::Status refused = Flood("busy", kMiB, flood);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("model 'busy'"));
  EXPECT_EQ(flood.size(), 32u);
  EXPECT_EQ(Refused("busy", "model_memory"), 1);

  // A second flood gets half of what the first one left, and so on; the first
  // may not grow back what it frees while they last.
  EXPECT_FALSE(Flood("second", kMiB, others).ok());
  EXPECT_EQ(others.size(), 16u);
  flood.pop_back();
  Tickets more;
  EXPECT_FALSE(Flood("busy", kMiB, more).ok());
  EXPECT_EQ(more.size(), 0u);

  Admission::Ticket quiet(admission_);
  ASSERT_TRUE(quiet.Take(kMiB).ok());
  EXPECT_TRUE(quiet.Assign("quiet").ok());
  EXPECT_EQ(Refused("quiet", "model_memory"), 0);
}

TEST_F(AdmissionTest, ALoneRequestMayTakeItAll) {
  Admission::Ticket ticket(admission_);
  ASSERT_TRUE(ticket.Take(kMax / 4 * 3).ok());
  ASSERT_TRUE(ticket.Assign("m").ok());
  EXPECT_TRUE(ticket.Take(kMax / 4).ok());
}

TEST_F(AdmissionTest, MessagesMayBeHeldTwice) {
  Admission::Ticket ticket(admission_);
  ASSERT_TRUE(ticket.Take(Admission::kCallBytes).ok());
  ASSERT_TRUE(ticket.Take(admission_.max_message_bytes()).ok());
  ASSERT_TRUE(ticket.Assign("m").ok());
  EXPECT_TRUE(ticket.Take(admission_.max_message_bytes()).ok());
}

absl::Duration Hint(const absl::Status& status) {
  google::rpc::Status details;
  google::rpc::RetryInfo info;
  EXPECT_TRUE(details.ParseFromString(ToCallStatus(status).details));
  EXPECT_EQ(details.details_size(), 1);
  EXPECT_TRUE(details.details(0).UnpackTo(&info));
  return absl::Seconds(info.retry_delay().seconds()) +
         absl::Nanoseconds(info.retry_delay().nanos());
}

TEST_F(AdmissionTest, AloneUntilAnotherHoldsSomething) {
  Admission::Ticket ticket(admission_);
  ASSERT_TRUE(ticket.Take(10).ok());
  EXPECT_TRUE(ticket.Alone());
  {
    Admission::Ticket other(admission_);
    EXPECT_TRUE(ticket.Alone());
    ASSERT_TRUE(other.Take(1).ok());
    EXPECT_FALSE(ticket.Alone());
  }
  EXPECT_TRUE(ticket.Alone());
}

TEST_F(AdmissionTest, HintsFollowTheTimeThatAnswersTake) {
  Admission::Ticket ticket(admission_);
  ASSERT_TRUE(ticket.Assign("m").ok());
  const auto refuse = [&] {
    return ticket.Refuse(Refusal::kQueue, absl::UnavailableError("full"));
  };
  for (int i = 0; i < 200; ++i) ticket.RecordAnswer(absl::Milliseconds(250));
  EXPECT_GT(Hint(refuse()), absl::Milliseconds(240));
  EXPECT_LT(Hint(refuse()), absl::Milliseconds(260));
  for (int i = 0; i < 200; ++i) ticket.RecordAnswer(absl::Microseconds(50));
  EXPECT_EQ(Hint(refuse()), absl::Milliseconds(10));
  for (int i = 0; i < 200; ++i) ticket.RecordAnswer(absl::Hours(1));
  EXPECT_EQ(Hint(refuse()), absl::Seconds(10));
  EXPECT_EQ(refuse().message(), "full");
  EXPECT_EQ(Refused("m", "queue"), 5);
}

}  // namespace
}  // namespace stoker
