// Keys and signatures: the examples of RFC 7515 and 8037, and what they become
// when something about them is wrong.
#include "access/jwk_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kN[] =
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-"
    "4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_"
    "YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-"
    "bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4"
    "uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_"
    "h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
constexpr char kX[] = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
constexpr char kY[] = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
constexpr char kEd[] = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

std::string Rsa(const std::string& more = "") {
  return absl::StrCat(R"({"kty":"RSA","e":"AQAB","n":")", kN, "\"", more, "}");
}
std::string Ec(const std::string& more = "") {
  return absl::StrCat(R"({"kty":"EC","crv":"P-256","x":")", kX, R"(","y":")",
                      kY, "\"", more, "}");
}
std::string Okp(const std::string& more = "") {
  return absl::StrCat(R"({"kty":"OKP","crv":"Ed25519","x":")", kEd, "\"", more,
                      "}");
}

absl::StatusOr<JwkSet> Set(const std::string& keys) {
  return JwkSet::Parse(absl::StrCat(R"({"keys":[)", keys, "]}"), "keys.json");
}
std::string Mistake(const absl::StatusOr<JwkSet>& set) {
  EXPECT_EQ(set.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(set.status().message());
}

struct Example {
  std::string algorithm, message, signature;
};
// RFC 7515, A.2 and A.3; RFC 8037, A.4.
constexpr char kClaims[] =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvb"
    "S9pc19yb290Ijp0cnVlfQ";
const Example& Rs256() {
  static const auto& example = *new Example{
      "RS256", absl::StrCat("eyJhbGciOiJSUzI1NiJ9.", kClaims),
      "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4B"
      "h-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_"
      "nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_"
      "eSN9383LcOLn6_dO--xi12jzDwusC-"
      "eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5"
      "AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"};
  return example;
}
const Example& Es256() {
  static const auto& example =
      *new Example{"ES256", absl::StrCat("eyJhbGciOiJFUzI1NiJ9.", kClaims),
                   "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-"
                   "F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"};
  return example;
}
const Example& EdDsa() {
  static const auto& example = *new Example{
      "EdDSA", "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
      "hgyY0il_MGCjP0JzlnLWG1PPOt7-"
      "09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"};
  return example;
}
std::vector<Example> Examples() { return {Rs256(), Es256(), EdDsa()}; }

absl::Status Verify(const JwkSet& set, const Example& example,
                    std::optional<std::string> key_id = std::nullopt) {
  const std::optional<std::string> signature =
      DecodeBase64Url(example.signature);
  EXPECT_TRUE(signature.has_value());
  absl::Status status = set.Verify(example.algorithm, key_id, example.message,
                                   signature.value_or(""));
  EXPECT_EQ(ERR_peek_error(), 0u);  // nothing is left for a connection
  return status;
}

TEST(JwkSet, TheExamplesOfTheStandards) {
  const auto set = Set(absl::StrCat(Rsa(), ",", Ec(), ",", Okp()));
  ASSERT_TRUE(set.ok()) << set.status();
  for (const Example& example : Examples()) {
    EXPECT_TRUE(Verify(*set, example).ok()) << example.algorithm;
  }
}

TEST(JwkSet, AnythingElseIsNoSignature) {
  const auto set = Set(absl::StrCat(Rsa(), ",", Ec(), ",", Okp()));
  ASSERT_TRUE(set.ok()) << set.status();
  for (const Example& example : Examples()) {
    Example other = example;
    other.message.back() = other.message.back() == 'A' ? 'B' : 'A';
    EXPECT_EQ(Verify(*set, other).code(), absl::StatusCode::kUnauthenticated);
    const std::string signature = *DecodeBase64Url(example.signature);
    for (size_t i = 0; i < signature.size(); ++i) {
      std::string changed = signature;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      EXPECT_FALSE(
          set->Verify(example.algorithm, std::nullopt, example.message, changed)
              .ok())
          << example.algorithm << " " << i;
    }
    for (const std::string& wrong :
         {std::string(), signature.substr(1), signature + "x",
          std::string(signature.size(), '\0'), std::string(10'000, 'x')}) {
      EXPECT_FALSE(
          set->Verify(example.algorithm, std::nullopt, example.message, wrong)
              .ok());
    }
    EXPECT_EQ(ERR_peek_error(), 0u);
  }
  // A good signature by another algorithm of the same key.
  Example pss = Rs256();
  pss.algorithm = "PS256";
  EXPECT_FALSE(Verify(*set, pss).ok());
}

TEST(JwkSet, AlgorithmsThatAreNone) {
  const auto set = Set(absl::StrCat(Rsa(), ",", Ec(), ",", Okp()));
  ASSERT_TRUE(set.ok()) << set.status();
  for (const char* algorithm : {"none", "None", "", "HS256", "HS512", "rs256",
                                "RS1", "ES512", "Ed448", "\n\xff"}) {
    Example example = Rs256();
    example.algorithm = algorithm;
    const absl::Status status = Verify(*set, example);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("expected a JWT signed by RS256, PS256, ES256 or "
                          "EdDSA, got alg '"));
  }
}

TEST(JwkSet, AKeyIsForItsAlgorithmAndItsName) {
  const auto set = Set(absl::StrCat(Rsa(R"(,"kid":"r","alg":"RS256")"), ",",
                                    Ec(R"(,"kid":"e")")));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_TRUE(Verify(*set, Rs256(), "r").ok());
  EXPECT_TRUE(Verify(*set, Es256(), "e").ok());
  EXPECT_EQ(std::string(Verify(*set, Rs256(), "e").message()),
            "expected a JWT signed by a key of the policy's key set, got RS256 "
            "by key 'e'");
  EXPECT_FALSE(Verify(*set, Rs256(), "").ok());
  Example pss = Rs256();
  pss.algorithm = "PS256";
  EXPECT_THAT(std::string(Verify(*set, pss).message()), HasSubstr("got PS256"));
  EXPECT_FALSE(Verify(*set, EdDsa()).ok());
}

// Keys are exchanged by having both for a while.
TEST(JwkSet, FewKeysAreTriedWithoutAName) {
  std::string other = Okp();
  absl::StrReplaceAll({{"11qY", "12qY"}}, &other);
  std::string keys = Okp();
  for (int i = 0; i < 3; ++i) keys = absl::StrCat(other, ",", keys);
  const auto few = Set(keys);
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_TRUE(Verify(*few, EdDsa()).ok());
  const auto many = Set(absl::StrCat(other, ",", keys));
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_THAT(std::string(Verify(*many, EdDsa()).message()),
              HasSubstr("names its key (kid)"));
}

TEST(JwkSet, OtherKeysAreLeftOut) {
  const auto set = Set(absl::StrCat(
      R"({"kty":"EC","crv":"P-521","x":"AA","y":"AA"},)",
      R"({"kty":"OKP","crv":"X25519","x":"AA"},{"kty":"new","kid":"x"},)",
      Rsa(R"(,"use":"enc")"), ",", Rsa(R"(,"alg":"RSA-OAEP")"), ",",
      Okp(R"(,"use":"sig","x5t":"ignored")")));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->size(), 1u);
  EXPECT_TRUE(Verify(*set, EdDsa()).ok());
}

TEST(JwkSet, Mistakes) {
  EXPECT_EQ(Mistake(JwkSet::Parse("-----BEGIN PUBLIC KEY-----", "keys.json")),
            "keys.json: expected a JWK Set, {\"keys\": [...]} in JSON, got no "
            "JSON");
  EXPECT_THAT(Mistake(JwkSet::Parse("[]", "k")), HasSubstr("got array"));
  EXPECT_THAT(Mistake(JwkSet::Parse("{}", "k")), HasSubstr("got no keys"));
  EXPECT_THAT(Mistake(JwkSet::Parse(R"({"keys":{}})", "k")),
              HasSubstr("got no keys"));
  EXPECT_THAT(Mistake(Set("")),
              HasSubstr("expected at least one key for RS256, PS256, ES256 or "
                        "EdDSA, got none among 0"));
  EXPECT_THAT(Mistake(Set("1")), HasSubstr("keys[0]: expected an object"));
  const std::string secret = Mistake(Set(absl::StrCat(
      Okp(), ",",
      Okp(R"(,"d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")"))));
  EXPECT_EQ(
      secret,
      "keys.json: keys[1]: expected a public key, got one with its secret "
      "part");
  EXPECT_THAT(Mistake(Set(R"({"kty":"oct","k":"c2VjcmV0"})")),
              Not(HasSubstr("c2Vj")));
  // Bits of RSA; a point that is not on the curve; half a key.
  EXPECT_THAT(Mistake(Set(R"({"kty":"RSA","e":"AQAB","n":"8J-Mow"})")),
              HasSubstr("of 2048 to 4096 bits, got 32 bits"));
  EXPECT_THAT(Mistake(Set(R"({"kty":"RSA","n":"!"})")), HasSubstr("got "));
  std::string point = Ec();
  absl::StrReplaceAll({{"f83O", "f83P"}}, &point);
  EXPECT_THAT(Mistake(Set(point)), HasSubstr("of a point of P-256"));
  EXPECT_THAT(Mistake(Set(R"({"kty":"EC","crv":"P-256","x":"AA"})")),
              HasSubstr("of a point of P-256"));
  EXPECT_THAT(Mistake(Set(R"({"kty":"OKP","crv":"Ed25519","x":"AA"})")),
              HasSubstr("x of Ed25519"));
  EXPECT_EQ(ERR_peek_error(), 0u);
}

TEST(JwkSet, AFileThatEverybodyMayWrite) {
  const TempFolder folder;
  const std::string path = folder / "keys.json";
  std::ofstream(path) << absl::StrCat(R"({"keys":[)", Okp(), "]}");
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_TRUE(JwkSet::Read(path).ok());
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_EQ(JwkSet::Read(path).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(JwkSet::Read(folder / "none").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(Base64Url, IsWrittenInOneWay) {
  EXPECT_EQ(DecodeBase64Url("TWE"), "Ma");
  EXPECT_EQ(DecodeBase64Url(""), "");
  EXPECT_EQ(DecodeBase64Url("-_8"), "\xfb\xff");
  for (const char* wrong :
       {"TWE=", "TWF", "TW E", "+/8", "T", "TWE.", "\xff"}) {
    EXPECT_EQ(DecodeBase64Url(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace stoker
