#include "access/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string& kHash = *new std::string(Sha256Hex("first"));

std::string Mistake(const std::string& text) {
  const absl::StatusOr<AccessPolicy> policy =
      AccessPolicy::Parse(text, "p.yaml");
  EXPECT_FALSE(policy.ok()) << text;
  EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(policy.status().message());
}

// A policy whose only caller, a, is what `caller` says.
std::string WithCaller(const std::string& caller) {
  return absl::StrCat("callers:\n  a: ", caller,
                      "\nrules:\n  - {callers: [a], groups: [infer]}\n");
}
std::string WithRule(const std::string& rule) {
  return absl::StrCat("callers:\n  a: {names: [a.example.com]}\nrules:\n  - ",
                      rule, "\n");
}

class PolicyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<AccessPolicy> policy =
        AccessPolicy::Parse(absl::StrCat(R"(
callers:
  web:
    tokens:
      - {sha256: )",
                                         Sha256Hex("first"), R"(}
      - {sha256: )",
                                         Sha256Hex("second"),
                                         R"(, expires: 2027-01-31T00:00:00Z}
  batch:
    names: [Batch.example.com, spiffe://cluster/batch]
rules:
  - name: probes
    callers: [anonymous]
    groups: [health]
  - callers: [web]
    groups: [infer, metadata]
    models: [minilm, "team-a-*"]
  - name: batch may
    callers: [batch, web]
    groups: [statistics]
)"),
                            "p.yaml");
    ASSERT_TRUE(policy.ok()) << policy.status();
    policy_ = std::make_unique<AccessPolicy>(*std::move(policy));
  }

  std::string RuleFor(const AccessPolicy::Caller& caller, MethodGroup group,
                      const Target& target) const {
    const AccessPolicy::Rule* const rule =
        AccessPolicy::Grant(caller, group, target);
    return rule == nullptr ? "" : rule->name;
  }
  const AccessPolicy::Caller& Web() const {
    return *policy_->FindToken(HashToken("first"))->caller;
  }

  std::unique_ptr<AccessPolicy> policy_;
};

TEST_F(PolicyTest, TokensAreTheirCallers) {
  const AccessPolicy::Token* const first =
      policy_->FindToken(HashToken("first"));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->caller->name, "web");
  EXPECT_EQ(first->expires, absl::InfiniteFuture());
  const AccessPolicy::Token* const second =
      policy_->FindToken(HashToken("second"));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->caller, first->caller);
  EXPECT_EQ(absl::FormatTime(second->expires, absl::UTCTimeZone()),
            "2027-01-31T00:00:00+00:00");
  EXPECT_EQ(policy_->FindToken(HashToken("third")), nullptr);
  EXPECT_EQ(policy_->FindToken(HashToken("")), nullptr);
}

TEST_F(PolicyTest, NamesAreTheirCallersInEitherCase) {
  EXPECT_EQ(policy_->FindNamed({"other", "batch.EXAMPLE.com"})->name, "batch");
  EXPECT_EQ(policy_->FindNamed({"spiffe://cluster/batch"})->name, "batch");
  EXPECT_EQ(policy_->FindNamed({"x.batch.example.com"}), nullptr);
  EXPECT_EQ(policy_->FindNamed({}), nullptr);
}

TEST_F(PolicyTest, RulesGrantGroupsOnModels) {
  EXPECT_EQ(RuleFor(Web(), MethodGroup::kInfer, Target::Of("minilm")),
            "rule 2");
  EXPECT_EQ(RuleFor(Web(), MethodGroup::kInfer, Target::Of("team-a-x")),
            "rule 2");
  EXPECT_EQ(RuleFor(Web(), MethodGroup::kInfer, Target::Of("team-b-x")), "");
  EXPECT_EQ(RuleFor(Web(), MethodGroup::kInfer, Target::Of("")), "");
  EXPECT_EQ(RuleFor(Web(), MethodGroup::kControl, Target::Of("minilm")), "");
}

TEST_F(PolicyTest, WhatIsAboutNoModelTakesAnyRule) {
  EXPECT_EQ(RuleFor(Web(), MethodGroup::kMetadata, Target::Server()), "rule 2");
  EXPECT_EQ(RuleFor(Web(), MethodGroup::kTrace, Target::Server()), "");
}

TEST_F(PolicyTest, WhatIsAboutAllModelsTakesARuleForAll) {
  EXPECT_EQ(RuleFor(Web(), MethodGroup::kMetadata, Target::Every()), "");
  EXPECT_EQ(RuleFor(Web(), MethodGroup::kStatistics, Target::Every()),
            "batch may");
}

TEST(PolicyModelsTest, RulesAboutModelsThatAreNone) {
  const auto policy = AccessPolicy::Parse(R"(
rules:
- {callers: [anonymous], groups: [infer], models: [bert, bret, 'v?-*']}
- {name: all, callers: [anonymous], groups: [health], models: ['*', 'x*']}
)",
                                          "policy.yaml");
  ASSERT_TRUE(policy.ok()) << policy.status();
  const std::vector<std::string> models = {"bert", "v1-small"};
  EXPECT_THAT(policy->UnknownModels(models),
              testing::ElementsAre("'bret' (rule 1)", "'x*' (all)"));
}

TEST_F(PolicyTest, WhatAnybodyMayEverybodyMay) {
  EXPECT_EQ(
      RuleFor(policy_->anonymous(), MethodGroup::kHealth, Target::Of("m")),
      "probes");
  EXPECT_EQ(RuleFor(Web(), MethodGroup::kHealth, Target::Of("m")), "probes");
  EXPECT_EQ(
      RuleFor(policy_->anonymous(), MethodGroup::kInfer, Target::Of("minilm")),
      "");
}

TEST(PolicyMistakeTest, EachHasItsLine) {
  EXPECT_THAT(Mistake("callers: {}\nrule: []\n"),
              HasSubstr("p.yaml:2: rule: expected one of callers, rules, jwt, "
                        "got an unknown field (did you mean rules?)"));
  EXPECT_THAT(Mistake(""), HasSubstr("expected rules"));
  EXPECT_THAT(Mistake("rules: []\n"), HasSubstr("expected rules"));
  EXPECT_THAT(Mistake("a: [\n"), HasSubstr("p.yaml:2: expected YAML"));
  EXPECT_THAT(Mistake("- a\n"), HasSubstr("p.yaml:1: expected a map"));
  EXPECT_THAT(
      Mistake(WithRule("{callers: [a], groups: [infer, inference]}")),
      HasSubstr("p.yaml:4: rules[0].groups[1]: expected health or metadata or "
                "infer or control or statistics or shared_memory or trace or "
                "metrics, got inference"));
  EXPECT_THAT(Mistake(WithRule("{callers: [b], groups: [infer]}")),
              HasSubstr("p.yaml:4: rules[0].callers[0]: expected anonymous or "
                        "the name of a caller, got b"));
  EXPECT_THAT(Mistake(WithRule("{callers: [a]}")),
              HasSubstr("p.yaml:4: rules[0]: expected groups, got none"));
  EXPECT_THAT(Mistake(WithRule("{groups: [infer]}")),
              HasSubstr("p.yaml:4: rules[0]: expected callers, got none"));
  EXPECT_THAT(Mistake(WithRule("{callers: [], groups: [infer]}")),
              HasSubstr("expected at least one caller"));
  EXPECT_THAT(Mistake(WithRule("{callers: [a], groups: []}")),
              HasSubstr("expected at least one group"));
  EXPECT_THAT(Mistake(WithRule("{callers: [a], groups: [infer], models: []}")),
              HasSubstr("expected at least one model"));
  EXPECT_THAT(
      Mistake(WithRule("{callers: [a], groups: [infer], models: minilm}")),
      HasSubstr("rules[0].models: expected a list, got minilm"));
  EXPECT_THAT(Mistake(WithRule("{callers: [a], groups: [infer], name: x}\n  - "
                               "{callers: [a], groups: [infer], name: x}")),
              HasSubstr("p.yaml:5: rules[1]: expected a name of its own"));
}

TEST(PolicyMistakeTest, Callers) {
  EXPECT_THAT(Mistake("callers:\n  anonymous: {names: [a]}\n"),
              HasSubstr("p.yaml:2: callers.anonymous.names: expected one of "
                        "requests_per_second"));
  EXPECT_THAT(Mistake("callers:\n  'a b': {names: [a]}\n"),
              HasSubstr("expected a name of 1 to 64 letters"));
  EXPECT_THAT(Mistake("callers:\n  a: {names: [a]}\n  a: {names: [b]}\n"),
              HasSubstr("p.yaml:3: callers.a: expected it once"));
  EXPECT_THAT(Mistake(WithCaller("{}")),
              HasSubstr("p.yaml:2: callers.a: expected tokens, names or "
                        "claims"));
  EXPECT_THAT(Mistake("callers:\n  a: {names: [x]}\n  b: {names: [X]}\n"),
              HasSubstr("p.yaml:3: callers.b.names[0]: expected a name of its "
                        "own, got one that a has too"));
  EXPECT_THAT(Mistake(WithCaller("{names: ['*.example.com']}")),
              HasSubstr("without *"));
}

TEST(PolicyMistakeTest, Tokens) {
  EXPECT_THAT(Mistake(WithCaller("{tokens: [{sha256: abc}]}")),
              HasSubstr("p.yaml:2: callers.a.tokens[0].sha256: expected 64 "
                        "hexadecimal digits"));
  EXPECT_THAT(Mistake(WithCaller("{tokens: [{}]}")),
              HasSubstr("expected sha256"));
  EXPECT_THAT(
      Mistake(WithCaller(absl::StrCat("{tokens: [{sha256: ", kHash,
                                      ", expires: tomorrow}]}"))),
      HasSubstr("expected a time such as 2027-01-31T00:00:00Z, got tomorrow"));
  EXPECT_THAT(Mistake(WithCaller(absl::StrCat("{tokens: [{sha256: ", kHash,
                                              "}, {sha256: ", kHash, "}]}"))),
              HasSubstr("expected a token of its own, got one that a has too"));
}

TEST(PolicyMistakeTest, Limits) {
  for (const char* wrong :
       {"requests_per_second: 0", "requests_per_second: -1",
        "requests_per_second: .inf", "requests_per_second: .nan",
        "requests_per_second: many",
        "burst: 0, "
        "requests_per_second: 1",
        "concurrent: 0", "concurrent: 1.5", "priority: 0", "priority: high"}) {
    const std::string field(wrong, std::strchr(wrong, ':'));
    EXPECT_THAT(
        Mistake(
            WithCaller(absl::StrCat("{names: [a.example.com], ", wrong, "}"))),
        HasSubstr(absl::StrCat("p.yaml:2: callers.a.", field, ": expected")))
        << wrong;
  }
  EXPECT_THAT(Mistake(WithCaller("{names: [a.example.com], burst: 3}")),
              HasSubstr("expected requests_per_second beside burst"));
}

TEST(PolicyMistakeTest, SignedTokens) {
  const auto with = [](const std::string& jwt, const std::string& caller) {
    return Mistake(absl::StrCat("jwt: ", jwt, "\n", WithCaller(caller)));
  };
  const std::string claims = "{claims: [{groups: ml}]}";
  EXPECT_THAT(with("{jwks: k, issuer: i}", claims),
              HasSubstr("p.yaml:1: jwt: expected audience, got none"));
  EXPECT_THAT(with("{jwks: k, audience: i}", claims),
              HasSubstr("p.yaml:1: jwt: expected issuer, got none"));
  EXPECT_THAT(with("{issuer: k, audience: i}", claims),
              HasSubstr("p.yaml:1: jwt: expected jwks, got none"));
  EXPECT_THAT(with("{jwks: k, issuer: [i], audience: a}", claims),
              HasSubstr("p.yaml:1: jwt.issuer: expected a text"));
  EXPECT_THAT(with("{jwks: k, issuer: i, audience: a, secret: s}", claims),
              HasSubstr("jwt.secret: expected one of jwks, issuer"));
  EXPECT_THAT(with("{jwks: k, issuer: i, audience: a, caller: b}", claims),
              HasSubstr("expected jwt.caller to be one of callers, got b"));
  EXPECT_THAT(with("{jwks: k, issuer: i, audience: a}", "{claims: [{}]}"),
              HasSubstr("callers.a.claims[0]: expected at least one claim"));
  EXPECT_THAT(with("{jwks: k, issuer: i, audience: a}", "{claims: [{x: []}]}"),
              HasSubstr("callers.a.claims[0].x: expected a text"));
  EXPECT_THAT(Mistake(WithCaller(claims)),
              HasSubstr("p.yaml:2: callers.a.claims[0]: expected jwt"));
}

TEST(PolicyMistakeTest, LimitsOfSubjects) {
  const auto with = [](const std::string& limits) {
    return Mistake(absl::StrCat(
        "jwt: {jwks: k, issuer: i, audience: a}\n",
        WithCaller("{claims: [{groups: ml}], per_subject: " + limits + "}")));
  };
  EXPECT_THAT(with("{}"), HasSubstr("callers.a.per_subject: expected "
                                    "requests_per_second or concurrent"));
  EXPECT_THAT(with("{burst: 2}"),
              HasSubstr("callers.a.per_subject: expected requests_per_second "
                        "beside burst"));
  EXPECT_THAT(with("{concurrent: 0}"),
              HasSubstr("callers.a.per_subject.concurrent: expected"));
  EXPECT_THAT(with("{priority: 1}"),
              HasSubstr("callers.a.per_subject.priority: expected one of"));
  EXPECT_THAT(with("3"), HasSubstr("callers.a.per_subject: expected a map"));
  EXPECT_THAT(Mistake(WithCaller(
                  "{names: [a.example.com], per_subject: {concurrent: 1}}")),
              HasSubstr("callers.a: expected claims beside per_subject"));
}

TEST(PolicyLimitsTest, AreRead) {
  const auto policy = AccessPolicy::Parse(
      "callers:\n"
      "  anonymous: {concurrent: 2}\n"
      "  a: {names: [a.x], requests_per_second: 0.5, priority: 3}\n"
      "  b: {names: [b.x], requests_per_second: 20, burst: 50, concurrent: 8}\n"
      "  c: {names: [c.x]}\n"
      "rules: [{callers: [a], groups: [infer]}]\n",
      "p.yaml");
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->anonymous().limits, (CallerLimits{0, 1, 2}));
  EXPECT_EQ(policy->FindNamed({"a.x"})->limits, (CallerLimits{0.5, 1, 0}));
  EXPECT_EQ(policy->FindNamed({"a.x"})->priority, 3u);
  EXPECT_EQ(policy->FindNamed({"b.x"})->limits, (CallerLimits{20, 50, 8}));
  EXPECT_EQ(policy->FindNamed({"c.x"})->limits, std::nullopt);
  EXPECT_EQ(policy->LimitedCallers().size(), 3u);
}

// Whoever puts one where its hash belongs must not find it in the log.
TEST(PolicyMistakeTest, NoneShowsAToken) {
  for (const char* caller :
       {"{tokens: [{sha256: hunter2}]}", "{tokens: [hunter2]}",
        "{tokens: hunter2}", "hunter2", "{tokens: {hunter2: 1}}"}) {
    EXPECT_THAT(Mistake(WithCaller(caller)), Not(HasSubstr("hunter2")))
        << caller;
  }
}

TEST(PolicyMistakeTest, AllAreSaidAtOnce) {
  const std::string text = Mistake(
      "rules:\n  - {callers: [x], groups: [infer]}\n"
      "  - {callers: [anonymous], groups: [y]}\n");
  EXPECT_THAT(text, HasSubstr("p.yaml:2: "));
  EXPECT_THAT(text, HasSubstr("p.yaml:3: "));
}

TEST(PolicyFileTest, NotEverybodyMayWriteIt) {
  const TempFolder folder;
  const std::string path = folder / "p.yaml";
  std::ofstream(path) << "rules: [{callers: [anonymous], groups: [infer]}]\n";
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_TRUE(AccessPolicy::Read(path).ok());
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_THAT(
      std::string(AccessPolicy::Read(path).status().message()),
      HasSubstr("expected a file that not everybody may write, got mode 666"));
  EXPECT_EQ(AccessPolicy::Read(path + "x").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(TokenTest, WhatOneMayBe) {
  EXPECT_TRUE(CheckToken("aB3-._~+/=").ok());
  EXPECT_TRUE(CheckToken(std::string(kMaxTokenBytes, 'a')).ok());
  for (const std::string& bad :
       {std::string(), std::string("secret word"), std::string("secret\n"),
        std::string("secret\xc3\xa4"), std::string(kMaxTokenBytes + 1, 'a')}) {
    const absl::Status status = CheckToken(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
}

TEST(TokenTest, TheHashIsSha256) {
  const TokenHash hash = HashToken("abc");
  EXPECT_EQ(absl::BytesToHexString(absl::string_view(
                reinterpret_cast<const char*>(hash.data()), hash.size())),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace stoker
