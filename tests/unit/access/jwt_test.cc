#include "access/jwt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/access/token_signer.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

class JwtTest : public ::testing::Test {
 protected:
  JwtTest() {
    auto keys = JwkSet::Parse(signer_.Jwks(), "keys.json");
    EXPECT_TRUE(keys.ok()) << keys.status();
    if (keys.ok()) keys_.emplace(*std::move(keys));
  }

  absl::StatusOr<Jwt> Read(const std::string& token) {
    return Jwt::Verify(token, *keys_, rules_);
  }
  absl::StatusOr<Jwt> Of(const std::string& claims,
                         const std::string& header = "") {
    return Read(signer_.Sign(claims, header));
  }
  std::string Why(const absl::StatusOr<Jwt>& token) {
    EXPECT_EQ(token.status().code(), absl::StatusCode::kUnauthenticated);
    return std::string(token.status().message());
  }

  static std::string Good(const std::string& more = "") {
    return absl::StrCat(
        R"({"iss":"https://id","aud":"stoker","exp":2000000000)", more, "}");
  }

  const TokenSigner signer_{"one"};
  std::optional<JwkSet> keys_;
  const JwtRules rules_{"keys.json", "https://id", "stoker", ""};
};

TEST_F(JwtTest, WhatItSays) {
  const auto token = Of(Good(
      R"(,"nbf":1600000000,"sub":"alice","groups":["a","b"],"email":"a@b",)"
      R"("scope":"infer read","realm_access":{"roles":["ml"]},"x.y":"z","n":1)"));
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->subject(), "alice");
  EXPECT_EQ(token->expires(), absl::FromUnixSeconds(2000000000 + 30));
  EXPECT_EQ(token->not_before(), absl::FromUnixSeconds(1600000000 - 30));
  for (const auto& [name, value] : {std::pair("groups", "a"),
                                    {"groups", "b"},
                                    {"email", "a@b"},
                                    {"scope", "infer"},
                                    {"scope", "read"},
                                    {"realm_access.roles", "ml"},
                                    {"x.y", "z"},
                                    {"sub", "alice"},
                                    {"aud", "stoker"}}) {
    EXPECT_TRUE(token->Claims(name, value)) << name;
  }
  for (const auto& [name, value] : {std::pair("groups", "c"),
                                    {"groups", "a,b"},
                                    {"groups", ""},
                                    {"email", "a"},
                                    {"scope", "infer read"},
                                    {"scope", "in"},
                                    {"realm_access", "ml"},
                                    {"realm_access.roles.x", "ml"},
                                    {"n", "1"},
                                    {"none", ""},
                                    {"", ""},
                                    {".", ""},
                                    {"aud.x", "stoker"}}) {
    EXPECT_FALSE(token->Claims(name, value)) << name;
  }
}

TEST_F(JwtTest, SeveralAudiences) {
  EXPECT_TRUE(Of(R"({"iss":"https://id","aud":["x","stoker"],"exp":1})").ok());
  EXPECT_FALSE(Of(R"({"iss":"https://id","aud":["x"],"exp":1})").ok());
  EXPECT_FALSE(Of(R"({"iss":"https://id","aud":[],"exp":1})").ok());
}

TEST_F(JwtTest, ClaimsThatAreWrong) {
  EXPECT_EQ(Why(Of(R"({"aud":"stoker","exp":2000000000})")),
            "expected a JWT of the policy's issuer (iss), got none");
  EXPECT_EQ(Why(Of(R"({"iss":"https://id/","aud":"stoker","exp":2000000000})")),
            "expected a JWT of the policy's issuer (iss), got another's");
  EXPECT_EQ(Why(Of(R"({"iss":"https://id","exp":2000000000})")),
            "expected a JWT for the policy's audience (aud), got none");
  EXPECT_EQ(Why(Of(R"({"iss":"https://id","aud":"STOKER","exp":1})")),
            "expected a JWT for the policy's audience (aud), got another");
  for (const char* exp : {"", R"(,"exp":"2000000000")", R"(,"exp":null)"}) {
    EXPECT_THAT(Why(Of(absl::StrCat(R"({"iss":"https://id","aud":"stoker")",
                                    exp, "}"))),
                HasSubstr("that expires (exp, a number)"));
  }
  EXPECT_THAT(Why(Of(Good(R"(,"nbf":"soon")"))), HasSubstr("nbf"));
  for (const char* claims : {"", "[]", "1", "{", "{\"iss\":\"\xff\"}"}) {
    EXPECT_THAT(Why(Of(claims)), HasSubstr("whose payload is a JSON object"))
        << claims;
  }
}

TEST_F(JwtTest, TimesFarAway) {
  EXPECT_EQ(Of(Good(R"(,"exp":1e300)"))->expires(), absl::InfiniteFuture());
  EXPECT_EQ(Of(Good(R"(,"exp":-1e300)"))->expires(), absl::InfinitePast());
  EXPECT_EQ(
      Of(Good(R"(,"exp":18446744073709551615)"))->expires(),
      absl::UnixEpoch() + absl::Seconds(18446744073709551616.0) + Jwt::kLeeway);
  EXPECT_EQ(Of(Good(R"(,"exp":2000000000.5)"))->expires(),
            absl::FromUnixMillis(2000000030500));
}

TEST_F(JwtTest, HeadersThatAreWrong) {
  EXPECT_THAT(Why(Of(Good(), "{}")), HasSubstr("whose header has an alg"));
  EXPECT_THAT(Why(Of(Good(), R"({"alg":["EdDSA"]})")), HasSubstr("an alg"));
  EXPECT_THAT(Why(Of(Good(), R"({"alg":"none"})")), HasSubstr("alg 'none'"));
  EXPECT_THAT(Why(Of(Good(), R"({"alg":"HS256"})")), HasSubstr("alg 'HS256'"));
  EXPECT_THAT(Why(Of(Good(), R"({"alg":"EdDSA","crit":["b64"],"b64":false})")),
              HasSubstr("without crit"));
  EXPECT_THAT(Why(Of(Good(), R"({"alg":"EdDSA","kid":1})")),
              HasSubstr("kid is a text"));
  EXPECT_THAT(Why(Of(Good(), R"({"alg":"EdDSA","kid":"two"})")),
              HasSubstr("got EdDSA by key 'two'"));
  EXPECT_THAT(Why(Of(Good(), R"([])")), HasSubstr("whose header is a JSON"));
  // A key that it brings itself is nobody's.
  const TokenSigner other("one");
  EXPECT_THAT(
      Why(Read(other.Sign(
          Good(), absl::StrCat(R"({"alg":"EdDSA","jwk":)", other.Jwk(), "}")))),
      HasSubstr("got another signature"));
  EXPECT_TRUE(Of(Good(), R"({"alg":"EdDSA","typ":"at+jwt"})").ok());
}

// Of RFC 7519: 3.1, with an HMAC, and 6.1, without a signature.
TEST_F(JwtTest, TheStandardsExamplesThatProveNothing) {
  const std::string claims =
      "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmN"
      "vbS9pc19yb290Ijp0cnVlfQ";
  EXPECT_THAT(
      Why(Read(absl::StrCat("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.", claims,
                            ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"))),
      HasSubstr("got alg 'HS256'"));
  EXPECT_THAT(Why(Read(absl::StrCat("eyJhbGciOiJub25lIn0.", claims, "."))),
              HasSubstr("got alg 'none'"));
}

TEST_F(JwtTest, WhatIsNoToken) {
  const std::string good = signer_.Sign(Good());
  EXPECT_TRUE(Jwt::IsOne(good));
  for (const std::string& text :
       {std::string(), std::string("abc"), std::string(".."),
        std::string("..."), std::string("a.b"), good + ".", good + "=",
        "." + good, good.substr(1), good.substr(0, good.size() - 1),
        std::string("e30.e30.e30"), std::string("{}.{}.{}")}) {
    EXPECT_FALSE(Read(text).ok()) << text;
  }
  // No piece of it is good, and no piece may be missing.
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(Read(good.substr(0, i)).ok()) << i;
    std::string changed = good;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(Read(changed).ok()) << i;
  }
}

TEST_F(JwtTest, NestedJsonIsNoTrouble) {
  EXPECT_FALSE(Of(std::string(100'000, '[')).ok());
  EXPECT_TRUE(Of(Good(absl::StrCat(R"(,"x":)", std::string(50'000, '['),
                                   std::string(50'000, ']'))))
                  .ok());
}

}  // namespace
}  // namespace stoker
