// A gate whose policy takes tokens of an identity provider.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "access/gate.h"
#include "base/sha256.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/access/token_signer.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Method& Infer() { return *FindMethodNamed("ModelInfer"); }

class SignedTokensTest : public ::testing::Test {
 protected:
  SignedTokensTest() {
    WriteKeys(signer_.Jwks());
    WritePolicy("");
    auto gate = Gate::Open(policy_, metrics_, clock_);
    EXPECT_TRUE(gate.ok()) << gate.status();
    if (gate.ok()) gate_ = *std::move(gate);
    peer_->address = "10.0.0.7";
  }

  static void Write(const std::string& path, const std::string& text) {
    const std::string fresh = path + ".new";
    std::ofstream(fresh) << text;
    ASSERT_EQ(chmod(fresh.c_str(), 0644), 0);
    std::filesystem::rename(fresh, path);
  }
  void WriteKeys(const std::string& text) { Write(keys_, text); }
  // `caller`: whose claims are nobody's.
  void WritePolicy(const std::string& caller,
                   const std::string& audience = "stoker") {
    Write(policy_,
          absl::StrCat(
              "jwt: {jwks: keys.json, issuer: https://id, audience: ", audience,
              caller.empty() ? "" : ", caller: ", caller, "}\ncallers:\n",
              "  ml: {claims: [{groups: ml}, {sub: robot, azp: ci}]}\n"
              "  opaque: {tokens: [{sha256: ",
              Sha256Hex("a.b.c"), "}]}\n",
              caller.empty() ? "" : absl::StrCat("  ", caller, ": {}\n"),
              "rules:\n  - {callers: [ml, opaque], groups: [infer]}\n"));
  }

  std::string Token(const std::string& claims,
                    absl::Duration lasts = absl::Minutes(5)) {
    return signer_.Sign(absl::StrCat(
        R"({"iss":"https://id","aud":"stoker",)", claims, R"(,"exp":)",
        absl::ToUnixSeconds(clock_.WallNow() + lasts), "}"));
  }
  Visitor Admit(const std::string& token) {
    const std::string header = absl::StrCat("Bearer ", token);
    return gate_->Admit(peer_, &header);
  }
  absl::Status Check(const Visitor& visitor) {
    return gate_->Check(visitor, Infer(), Target::Of("minilm"));
  }
  absl::Status Ask(const std::string& token) { return Check(Admit(token)); }
  void WriteLimits(const std::string& limits) {
    Write(policy_,
          absl::StrCat(
              "jwt: {jwks: keys.json, issuer: https://id, audience: stoker}\n"
              "callers:\n  ml: {claims: [{groups: ml}], ",
              limits, "}\nrules:\n  - {callers: [ml], groups: [infer]}\n"));
  }
  // By a new token and connection; what is let in stays under way.
  absl::Status Enter(const std::string& subject) {
    const std::string header = absl::StrCat(
        "Bearer ",
        Token(absl::StrCat(R"("jti":")", ++tokens_,
                           R"(","groups":"ml","sub":")", subject, "\"")));
    CallerPass pass;
    absl::Status entered =
        gate_->Enter(gate_->Admit(std::make_shared<Peer>(), &header), Infer(),
                     pass, retry_after_);
    if (entered.ok()) passes_.push_back(std::move(pass));
    return entered;
  }
  double Refused(const char* reason) {
    return MetricValue(metrics_, "stoker_access_refused_total",
                       {{"reason", reason}});
  }

  const TempFolder folder_;
  const std::string policy_ = folder_ / "policy.yaml";
  const std::string keys_ = folder_ / "keys.json";
  const TokenSigner signer_{"one"};
  const std::string ml_ = R"("sub":"alice","groups":["ml","x"])";
  MetricRegistry metrics_;
  FakeClock clock_;
  absl::Duration retry_after_;
  std::vector<CallerPass> passes_;
  int tokens_ = 0;
  std::unique_ptr<Gate> gate_;
  const std::shared_ptr<Peer> peer_ = std::make_shared<Peer>();
};

TEST_F(SignedTokensTest, ClaimsSayWhoItIs) {
  EXPECT_TRUE(Ask(Token(ml_)).ok());
  EXPECT_TRUE(Ask(Token(R"("sub":"robot","azp":"ci")")).ok());
  const absl::Status one = Ask(Token(R"("sub":"robot","azp":"other")"));
  EXPECT_EQ(one.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(one.message(),
            "expected a JWT with the claims of a caller whom the policy knows, "
            "got others");
  EXPECT_EQ(Refused("invalid_token"), 1);
  const Visitor alice = Admit(Token(ml_));
  EXPECT_EQ(alice.identity()->subject, "alice");
  EXPECT_EQ(alice.identity()->caller->name, "ml");
}

TEST_F(SignedTokensTest, OthersAreWhoTheyWere) {
  EXPECT_TRUE(Ask("a.b.c").ok());  // a hash in the policy is a hash
  EXPECT_EQ(Ask("nobody").code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Refused("unknown_token"), 1);
  const absl::Status wrong = Ask("a.b.d");
  EXPECT_EQ(wrong.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(wrong.message()), Not(HasSubstr("a.b")));
  EXPECT_EQ(Refused("invalid_token"), 1);
}

TEST_F(SignedTokensTest, TheyExpire) {
  const Visitor open = Admit(Token(ml_));
  clock_.Advance(absl::Minutes(5) + absl::Seconds(29));
  EXPECT_TRUE(Check(open).ok());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Check(open).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(Check(open).message()),
              HasSubstr("one of 'ml' that has expired"));
  EXPECT_EQ(Refused("expired"), 2);
  EXPECT_EQ(Ask(Token(ml_, -absl::Seconds(31))).code(),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(SignedTokensTest, TheyMayBeForLater) {
  const std::string later = Token(
      absl::StrCat(ml_, R"(,"nbf":)",
                   absl::ToUnixSeconds(clock_.WallNow() + absl::Seconds(90))));
  EXPECT_THAT(std::string(Ask(later).message()),
              HasSubstr("whose time (nbf) is to come"));
  clock_.Advance(absl::Minutes(1));
  EXPECT_TRUE(Ask(later).ok());  // on the same connection, too
}

TEST_F(SignedTokensTest, ACallerOfAllOthers) {
  WritePolicy("staff");
  gate_->Look();
  const absl::Status status = Ask(Token(R"("sub":"bob")"));
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("caller 'staff'"));
  EXPECT_TRUE(Ask(Token(ml_)).ok());
}

// What is open is asked about by the keys of the moment.
TEST_F(SignedTokensTest, KeysThatChange) {
  const TokenSigner next("two");
  const std::string token = Token(ml_);
  const Visitor open = Admit(token);
  WriteKeys(absl::StrCat(R"({"keys":[)", next.Jwk(), ",", signer_.Jwk(), "]}"));
  gate_->Look();
  EXPECT_TRUE(Check(open).ok());
  EXPECT_TRUE(Ask(token).ok());
  WriteKeys("half a fi");
  for (int i = 0; i < 3; ++i) gate_->Look();
  EXPECT_TRUE(Check(open).ok());
  EXPECT_EQ(MetricValue(metrics_, "stoker_policy_reloads_total",
                        {{"outcome", "failed"}}),
            1);
  WriteKeys(next.Jwks());
  gate_->Look();
  EXPECT_EQ(Check(open).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Ask(token).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(
      MetricValue(metrics_, "stoker_policy_reloads_total", {{"outcome", "ok"}}),
      2);
}

TEST_F(SignedTokensTest, RulesOfTokensThatChange) {
  const Visitor open = Admit(Token(ml_));
  EXPECT_TRUE(Check(open).ok());
  WritePolicy("", "another");
  gate_->Look();
  EXPECT_THAT(std::string(Check(open).message()), HasSubstr("(aud)"));
  // Without its keys no policy comes into force.
  std::filesystem::remove(keys_);
  WritePolicy("");
  gate_->Look();
  EXPECT_FALSE(Check(open).ok());
  WriteKeys(signer_.Jwks());
  gate_->Look();
  EXPECT_TRUE(Check(open).ok());
}

TEST_F(SignedTokensTest, WithoutKeysThereIsNoStart) {
  std::filesystem::remove(keys_);
  const auto gate = Gate::Open(policy_, metrics_, clock_);
  EXPECT_EQ(gate.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(gate.status().message()), HasSubstr("keys.json"));
}

// More than are remembered: each is verified again, and is who it is.
TEST_F(SignedTokensTest, ManySubjects) {
  for (int i = 0; i < 5'000; ++i) {
    const Visitor one =
        Admit(Token(absl::StrCat(R"("sub":"s)", i, R"(","groups":"ml")")));
    ASSERT_EQ(one.identity()->subject, absl::StrCat("s", i));
    ASSERT_TRUE(Check(one).ok());
  }
}

// Loops verify with the same keys while they change; for ThreadSanitizer.
TEST_F(SignedTokensTest, ThreadsAskWhileKeysChange) {
  const TokenSigner next("two");
  std::vector<std::string> tokens;
  for (int i = 0; i < 8; ++i) {
    tokens.push_back(Token(absl::StrCat(R"("groups":"ml","jti":)", i)));
  }
  std::vector<std::thread> loops;
  loops.reserve(3);
  for (int i = 0; i < 3; ++i) {
    loops.emplace_back([&] {
      const auto peer = std::make_shared<Peer>();
      const std::string first = absl::StrCat("Bearer ", tokens.front());
      const Visitor open = gate_->Admit(peer, &first);
      for (size_t turn = 0; turn < 100; ++turn) {
        const std::string header =
            absl::StrCat("Bearer ", tokens[turn % tokens.size()]);
        EXPECT_TRUE(Check(gate_->Admit(peer, &header)).ok());
        EXPECT_TRUE(Check(open).ok());
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    WriteKeys(absl::StrCat(R"({"keys":[)", signer_.Jwk(),
                           i % 2 == 0 ? "," + next.Jwk() : "", "]}"));
    gate_->Look();
  }
  for (std::thread& loop : loops) loop.join();
}

// Below the caller's limits each subject has its own, by whatever token and
// connection it comes.
TEST_F(SignedTokensTest, LimitsOfASubject) {
  WriteLimits(
      "requests_per_second: 100, burst: 3, per_subject: {"
      "requests_per_second: 1, burst: 1, concurrent: 2}");
  gate_->Look();
  EXPECT_TRUE(Enter("alice").ok());
  clock_.Advance(absl::Milliseconds(600));
  const absl::Status status = Enter("alice");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "subject 'alice' of caller 'ml' may ask for 1 requests a second, "
            "and has asked for more: try again later");
  EXPECT_EQ(retry_after_, absl::Milliseconds(400));
  EXPECT_TRUE(Enter("bob").ok());
  EXPECT_TRUE(Enter("").ok());  // who has no subject is one as well
  EXPECT_FALSE(Enter("").ok());
  EXPECT_EQ(Refused("subject_rate"), 2);
  // Under way, until they are answered.
  clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(Enter("alice").ok());
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(Enter("alice").message(),
            "subject 'alice' of caller 'ml' may have 2 requests under way, and "
            "has as many: try again later");
  EXPECT_EQ(Refused("subject_concurrent"), 1);
  passes_.clear();
  EXPECT_TRUE(Enter("alice").ok());
  // What is shown is cut; who it is is not.
  const std::string longest(300, 'x');
  EXPECT_TRUE(Enter(longest + "1").ok());
  EXPECT_TRUE(Enter(longest + "2").ok());
  EXPECT_FALSE(Enter(longest + "2").ok());
}

// All subjects together have the caller's limits, and what those refuse costs
// no subject anything.
TEST_F(SignedTokensTest, LimitsOfAllSubjects) {
  WriteLimits(
      "requests_per_second: 1, burst: 2, per_subject: {"
      "requests_per_second: 0.001, burst: 1, concurrent: 1}");
  gate_->Look();
  EXPECT_TRUE(Enter("alice").ok());
  EXPECT_TRUE(Enter("bob").ok());
  const absl::Status status = Enter("carol");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "caller 'ml' may ask for 1 requests a second, and has asked for "
            "more: try again later");
  EXPECT_EQ(Refused("rate"), 1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Enter("carol").ok());
  EXPECT_FALSE(Enter("carol").ok());
}

TEST_F(SignedTokensTest, LimitsOfASubjectChangeWithThePolicy) {
  WriteLimits("per_subject: {concurrent: 1}");
  gate_->Look();
  EXPECT_TRUE(Enter("alice").ok());
  EXPECT_FALSE(Enter("alice").ok());
  WriteLimits("per_subject: {concurrent: 2}");
  gate_->Look();
  EXPECT_TRUE(Enter("alice").ok());
  EXPECT_FALSE(Enter("alice").ok());
  WriteLimits("priority: 1");
  gate_->Look();
  EXPECT_TRUE(Enter("alice").ok());
}

}  // namespace
}  // namespace stoker
