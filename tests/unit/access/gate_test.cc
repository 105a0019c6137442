#include "access/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/sha256.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Method& Infer() { return *FindMethodNamed("ModelInfer"); }
const Method& Live() { return *FindMethodNamed("ServerLive"); }

std::string PolicyText(const std::string& token, const std::string& models,
                       const std::string& more = "") {
  return absl::StrCat(
      "callers:\n  web:\n    names: [web.example.com]\n"
      "    tokens: [{sha256: ",
      Sha256Hex(token), more,
      "}]\nrules:\n"
      "  - {callers: [anonymous], groups: [health]}\n"
      "  - {callers: [web], groups: [infer], models: [",
      models, "]}\n");
}

class GateTest : public ::testing::Test {
 protected:
  // A file in place of the other, as whoever deploys exchanges it.
  void Write(const std::string& text) {
    const std::string fresh = path_ + ".new";
    std::ofstream(fresh) << text;
    ASSERT_EQ(chmod(fresh.c_str(), 0644), 0);
    std::filesystem::rename(fresh, path_);
  }
  void Open(const std::string& text) {
    Write(text);
    auto gate = Gate::Open(path_, metrics_, clock_);
    ASSERT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
  }

  std::shared_ptr<Peer> NewPeer() {
    auto peer = std::make_shared<Peer>();
    peer->address = "10.0.0.7";
    return peer;
  }
  absl::Status Ask(const std::string& authorization, const std::string& model) {
    return gate_->Check(gate_->Admit(peer_, &authorization), Infer(),
                        Target::Of(model));
  }
  absl::Status AskNameless(const std::string& model) {
    return gate_->Check(gate_->Admit(peer_, nullptr), Infer(),
                        Target::Of(model));
  }
  // The caller of the tokens "first" and "other".
  static std::string WithLimits(const std::string& limits) {
    return absl::StrCat(
        "callers:\n  web:\n    tokens: [{sha256: ", Sha256Hex("first"),
        "}, {sha256: ", Sha256Hex("other"), "}]\n    ",
        absl::StrReplaceAll(limits, {{", ", "\n    "}}),
        "\nrules: [{callers: [web], groups: [infer, health]}]\n");
  }
  absl::Status Enter(const std::string& authorization, const Method& method,
                     CallerPass& pass) {
    return gate_->Enter(gate_->Admit(NewConnection(), &authorization), method,
                        pass, retry_after_);
  }
  std::shared_ptr<Peer> NewConnection() {
    auto peer = NewPeer();
    peer->within = peer_->within;
    return peer;
  }
  double Refused(const char* reason) {
    return MetricValue(metrics_, "stoker_access_refused_total",
                       {{"reason", reason}});
  }
  double Reloads(const char* outcome) {
    return MetricValue(metrics_, "stoker_policy_reloads_total",
                       {{"outcome", outcome}});
  }

  const TempFolder folder_;
  const std::string path_ = folder_ / "policy.yaml";
  MetricRegistry metrics_;
  FakeClock clock_;
  absl::Duration retry_after_;
  std::unique_ptr<Gate> gate_;
  const std::shared_ptr<Peer> peer_ = NewPeer();
};

TEST_F(GateTest, ATokenIsItsCaller) {
  Open(PolicyText("first", "minilm"));
  EXPECT_TRUE(Ask("Bearer first", "minilm").ok());
  EXPECT_TRUE(Ask("bearer first", "minilm").ok());
  const absl::Status other = Ask("Bearer first", "other");
  EXPECT_EQ(other.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(other.message(),
            "caller 'web' may not call ModelInfer (group infer) on model "
            "'other'");
  EXPECT_EQ(Refused("permission"), 1);
}

TEST_F(GateTest, WhoIsNobodyIsUnauthenticated) {
  Open(PolicyText("first", "minilm"));
  for (const char* header :
       {"Bearer second", "Bearer", "Bearer ", "Basic Zmlyc3Q=", "first", "",
        "Bearer first second", "Bearer  first"}) {
    const absl::Status status = Ask(header, "minilm");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << header;
    for (const char* word : {"first", "second", "Zmly"}) {
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr(word)));
    }
  }
  EXPECT_EQ(Refused("unknown_token"), 1);
  EXPECT_EQ(Refused("malformed"), 7);
  const absl::Status nameless = AskNameless("minilm");
  EXPECT_EQ(nameless.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(nameless.message()),
              HasSubstr("'anonymous' may not call ModelInfer (group infer)"));
  EXPECT_EQ(Refused("no_credentials"), 1);
}

TEST_F(GateTest, AnonymousMayWhatItIsGranted) {
  Open(PolicyText("first", "minilm"));
  EXPECT_TRUE(
      gate_->Check(gate_->Admit(peer_, nullptr), Live(), Target::Server())
          .ok());
}

// What is wrong is not taken for nothing.
TEST_F(GateTest, AWrongTokenMayNotEvenWhatAnonymousMay) {
  Open(PolicyText("first", "minilm"));
  const std::string wrong = "Bearer second";
  EXPECT_EQ(gate_->Check(gate_->Admit(peer_, &wrong), Live(), Target::Server())
                .code(),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(GateTest, ANameOfACertificateIsItsCaller) {
  Open(PolicyText("first", "minilm"));
  peer_->names = {"other.example.com", "WEB.example.com"};
  EXPECT_TRUE(AskNameless("minilm").ok());
  EXPECT_EQ(AskNameless("other").code(), absl::StatusCode::kPermissionDenied);
  // A token says more.
  EXPECT_EQ(Ask("Bearer second", "minilm").code(),
            absl::StatusCode::kUnauthenticated);
}

// A proxy sends many users' calls over one connection.
TEST_F(GateTest, CallsOfOneConnectionAreNotTakenForEachOther) {
  Open(PolicyText("first", "minilm"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Ask("Bearer first", "minilm").ok());
    EXPECT_FALSE(Ask("Bearer firsT", "minilm").ok());
    EXPECT_FALSE(AskNameless("minilm").ok());
    EXPECT_FALSE(Ask("", "minilm").ok());
  }
}

TEST_F(GateTest, TokensExpire) {
  Open(PolicyText(
      "first", "minilm",
      absl::StrCat(
          ", expires: ",
          absl::FormatTime(absl::RFC3339_sec, clock_.WallNow() + absl::Hours(1),
                           absl::UTCTimeZone()))));
  const std::string header = "Bearer first";
  const Visitor visitor = gate_->Admit(peer_, &header);
  clock_.Advance(absl::Minutes(59));
  EXPECT_TRUE(gate_->Check(visitor, Infer(), Target::Of("minilm")).ok());
  clock_.Advance(absl::Minutes(1));
  const absl::Status status =
      gate_->Check(visitor, Infer(), Target::Of("minilm"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("got one of 'web' that has expired"));
  EXPECT_EQ(Refused("expired"), 1);
}

TEST_F(GateTest, TheProcessItselfMayEverything) {
  Open(PolicyText("first", "minilm"));
  peer_->within = true;
  EXPECT_TRUE(AskNameless("any").ok());
}

TEST_F(GateTest, AFileThatChangesIsReadAgain) {
  Open(PolicyText("first", "minilm"));
  const std::string header = "Bearer first";
  const Visitor open = gate_->Admit(peer_, &header);
  gate_->Look();
  EXPECT_EQ(Reloads("ok"), 0);

  Write(PolicyText("second", "other"));
  gate_->Look();
  EXPECT_EQ(Reloads("ok"), 1);
  EXPECT_EQ(Ask("Bearer first", "minilm").code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(Ask("Bearer second", "other").ok());
  // A stream that was opened before is asked about by the new one.
  EXPECT_EQ(gate_->Check(open, Infer(), Target::Of("minilm")).code(),
            absl::StatusCode::kUnauthenticated);

  Write(PolicyText("first", "third"));
  gate_->Look();
  EXPECT_TRUE(gate_->Check(open, Infer(), Target::Of("third")).ok());
}

TEST_F(GateTest, AWrongFileChangesNothing) {
  Open(PolicyText("first", "minilm"));
  Write("callers: [");
  for (int i = 0; i < 3; ++i) gate_->Look();
  EXPECT_EQ(Reloads("failed"), 1);
  EXPECT_TRUE(Ask("Bearer first", "minilm").ok());
  std::filesystem::remove(path_);
  for (int i = 0; i < 3; ++i) gate_->Look();
  EXPECT_EQ(Reloads("failed"), 2);
  EXPECT_TRUE(Ask("Bearer first", "minilm").ok());
  Write(PolicyText("first", "other"));
  gate_->Look();
  EXPECT_EQ(Reloads("ok"), 1);
  EXPECT_FALSE(Ask("Bearer first", "minilm").ok());
}

TEST_F(GateTest, ItDoesNotStartWithAWrongFile) {
  Write("rules: 1\n");
  const auto gate = Gate::Open(path_, metrics_, clock_);
  EXPECT_EQ(gate.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(gate.status().message()),
              HasSubstr("policy.yaml:1: rules: expected a list, got 1"));
}

// A caller's limits are his, whatever he connects by.
TEST_F(GateTest, LimitsAreOfTheCaller) {
  Open(WithLimits("requests_per_second: 2, burst: 1"));
  CallerPass pass;
  EXPECT_TRUE(Enter("Bearer first", Infer(), pass).ok());
  const absl::Status status = Enter("Bearer other", Infer(), pass);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "caller 'web' may ask for 2 requests a second, and has asked for "
            "more: try again later");
  EXPECT_EQ(retry_after_, absl::Milliseconds(500));
  EXPECT_EQ(MetricValue(metrics_, "stoker_access_refused_total",
                        {{"caller", "web"}, {"reason", "rate"}}),
            1);
  // Probes and scrapers ask for as much as they like.
  for (const char* name : {"ServerLive", "Check", "/metrics"}) {
    EXPECT_TRUE(Enter("Bearer first", *FindMethodNamed(name), pass).ok());
  }
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_TRUE(Enter("Bearer first", Infer(), pass).ok());
  peer_->within = true;
  EXPECT_TRUE(Enter("Bearer first", Infer(), pass).ok());
}

TEST_F(GateTest, WhatIsUnderWayOutlivesThePolicy) {
  Open(WithLimits("concurrent: 1"));
  CallerPass pass, none;
  EXPECT_TRUE(Enter("Bearer first", Infer(), pass).ok());
  Write(WithLimits("concurrent: 2"));
  gate_->Look();
  CallerPass second;
  EXPECT_TRUE(Enter("Bearer first", Infer(), second).ok());
  EXPECT_EQ(Enter("Bearer first", Infer(), none).code(),
            absl::StatusCode::kResourceExhausted);
  Write(PolicyText("first", "minilm"));
  gate_->Look();
  EXPECT_TRUE(Enter("Bearer first", Infer(), none).ok());
  pass = CallerPass();
  EXPECT_EQ(MetricValue(metrics_, "stoker_access_refused_total",
                        {{"caller", "web"}, {"reason", "concurrent"}}),
            1);
}

// Loops ask while the file changes; for ThreadSanitizer.
TEST_F(GateTest, ThreadsAskWhileItChanges) {
  Open(PolicyText("first", "minilm"));
  std::vector<std::thread> loops;
  loops.reserve(3);
  for (int i = 0; i < 3; ++i) {
    loops.emplace_back([this] {
      const std::shared_ptr<Peer> peer = NewPeer();
      const std::string header = "Bearer first";
      const Visitor open = gate_->Admit(peer, &header);
      for (int turn = 0; turn < 500; ++turn) {
        EXPECT_TRUE(gate_
                        ->Check(gate_->Admit(peer, &header), Infer(),
                                Target::Of("minilm"))
                        .ok());
        EXPECT_TRUE(gate_->Check(open, Infer(), Target::Of("minilm")).ok());
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    Write(PolicyText("first", absl::StrCat("minilm, m", i)));
    gate_->Look();
  }
  for (std::thread& loop : loops) loop.join();
  EXPECT_GE(Reloads("ok"), 1);
}

}  // namespace
}  // namespace stoker
