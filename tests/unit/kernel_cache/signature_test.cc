#include "kernel_cache/signature.h"

#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/kernel_cache/staged_artifact.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using Kind = SignatureVerdict::Kind;

class SignatureTest : public testing::Test {
 protected:
  // openssl's own command line, so that our reading of its files is real.
  void OpenSsl(const std::string& arguments) {
    const std::string command =
        "cd " + folder_.path() + " && openssl " + arguments + " 2>openssl.log";
    ASSERT_EQ(std::system(command.c_str()), 0)
        << command << "\n"
        << ReadBytes(folder_ / "openssl.log");
  }
  // <name>.pem and <name>.pub
  void MakeKey(const std::string& name,
               const std::string& algorithm = "ed25519") {
    OpenSsl("genpkey -algorithm " + algorithm + " -out " + name + ".pem");
    OpenSsl("pkey -in " + name + ".pem -pubout -out " + name + ".pub");
    ASSERT_EQ(chmod((folder_ / (name + ".pem")).c_str(), 0600), 0);
  }
  SigningKey Signer(const std::string& name) {
    return *SigningKey::Load(folder_ / (name + ".pem"));
  }
  PublicKey Public(const std::string& name) {
    return *PublicKey::Load(folder_ / (name + ".pub"));
  }

  TempFolder folder_{TempFolder::Where::kMemory};
};

// RFC 8032, section 7.1, test 3.
TEST(PublicKeyTest, KnownSignature) {
  const auto bytes = [](const std::string& hex) {
    return absl::HexStringToBytes(hex);
  };
  const PublicKey key = *PublicKey::FromRaw(bytes(
      "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"));
  std::string signature = bytes(
      "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
      "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a");
  EXPECT_TRUE(key.Verifies("\xaf\x82", signature));
  EXPECT_FALSE(key.Verifies("\xaf\x83", signature));
  EXPECT_FALSE(key.Verifies("", signature));
  EXPECT_FALSE(key.Verifies("\xaf\x82", ""));
  EXPECT_FALSE(key.Verifies("\xaf\x82", signature + "x"));
  for (char& byte : signature) {
    byte = static_cast<char>(byte ^ 4);
    EXPECT_FALSE(key.Verifies("\xaf\x82", signature));
    byte = static_cast<char>(byte ^ 4);
  }
}

TEST_F(SignatureTest, ReadsKeysThatOpenSslWrites) {
  MakeKey("a");
  MakeKey("b");
  EXPECT_EQ(*Signer("a").Public(), Public("a"));
  EXPECT_NE(Public("a"), Public("b"));
  EXPECT_EQ(Public("a").raw().size(), 32u);
  EXPECT_EQ(Public("a").Fingerprint().size(), 16u);
  EXPECT_NE(Public("a").Fingerprint(), Public("b").Fingerprint());
}

TEST_F(SignatureTest, OpenSslVerifiesWhatWeSign) {
  MakeKey("a");
  WriteBytes(folder_ / "message", "the message");
  WriteBytes(folder_ / "signature", *Signer("a").Sign("the message"));
  OpenSsl(
      "pkeyutl -verify -pubin -inkey a.pub -rawin -in message "
      "-sigfile signature >out");
}

TEST_F(SignatureTest, RefusesASigningKeyThatOthersMayRead) {
  MakeKey("a");
  for (const mode_t mode : {0640u, 0604u, 0660u, 0644u}) {
    ASSERT_EQ(chmod((folder_ / "a.pem").c_str(), mode), 0);
    const absl::Status loaded = SigningKey::Load(folder_ / "a.pem").status();
    EXPECT_EQ(loaded.code(), absl::StatusCode::kPermissionDenied) << loaded;
    EXPECT_THAT(loaded.message(), HasSubstr("a.pem may be read by others"));
  }
  ASSERT_EQ(chmod((folder_ / "a.pem").c_str(), 0644), 0);
  EXPECT_THAT(SigningKey::Load(folder_ / "a.pem").status().message(),
              HasSubstr("(mode 0644), expected 0600"));
  ASSERT_EQ(chmod((folder_ / "a.pem").c_str(), 0400), 0);
  EXPECT_TRUE(SigningKey::Load(folder_ / "a.pem").ok());
}

TEST_F(SignatureTest, RefusesFilesThatHoldNoSuchKey) {
  MakeKey("a");
  MakeKey("x", "x25519");
  WriteBytes(folder_ / "empty.pem", "");
  WriteBytes(folder_ / "text.pem", "-----BEGIN PRIVATE KEY-----\nnone\n");
  OpenSsl("pkey -in a.pem -aes256 -passout pass:secret -out locked.pem");
  for (const std::string name :
       {"x.pem", "empty.pem", "text.pem", "locked.pem"}) {
    ASSERT_EQ(chmod((folder_ / name).c_str(), 0600), 0);
    const absl::Status loaded = SigningKey::Load(folder_ / name).status();
    EXPECT_EQ(loaded.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(loaded.message(), HasSubstr(name));
  }
  EXPECT_THAT(SigningKey::Load(folder_ / "x.pem").status().message(),
              HasSubstr("found one of type X25519"));
  for (const std::string name : {"x.pub", "empty.pem", "a.pem"}) {
    EXPECT_EQ(PublicKey::Load(folder_ / name).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(PublicKey::Load(folder_ / "none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(SigningKey::Load(folder_ / "none").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(SignatureTest, Verdicts) {
  MakeKey("a");
  MakeKey("b");
  const std::string signature = *SignedBy(Signer("a"), "message");
  EXPECT_EQ(signature, *SignedBy(Signer("a"), "message"));

  const auto check = [&](const std::optional<std::string>& text,
                         const std::string& message = "message") {
    return CheckSignature(message, text, {Public("a")});
  };
  EXPECT_EQ(check(std::nullopt).kind, Kind::kUnsigned);
  EXPECT_EQ(check(signature).kind, Kind::kTrusted);
  EXPECT_EQ(check(signature).signer, Public("a").Fingerprint());
  EXPECT_EQ(check(*SignedBy(Signer("b"), "message")).kind, Kind::kUnknown);
  EXPECT_EQ(check(*SignedBy(Signer("b"), "message")).signer,
            Public("b").Fingerprint());
  EXPECT_EQ(check(signature, "massage").kind, Kind::kWrong);
  EXPECT_EQ(check("").kind, Kind::kWrong);
  EXPECT_EQ(check("[]").kind, Kind::kWrong);
  EXPECT_EQ(check(signature + " ").kind, Kind::kWrong);
}

TEST_F(SignatureTest, EveryChangedByteOfASignatureIsWrong) {
  MakeKey("a");
  const std::string good = *SignedBy(Signer("a"), "message");
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
      ASSERT_EQ(CheckSignature("message", bad, {Public("a")}).kind,
                Kind::kWrong)
          << bad;
    }
  }
}

TEST_F(SignatureTest, Policies) {
  using absl::StatusCode;
  const SignaturePolicy strict, lax{.allow_unsigned = true};
  struct Case {
    SignatureVerdict verdict;
    StatusCode strict, lax;
  };
  for (const Case& c : {
           Case{{.kind = Kind::kTrusted}, StatusCode::kOk, StatusCode::kOk},
           Case{{.kind = Kind::kUnknown, .signer = "5afe"},
                StatusCode::kPermissionDenied,
                StatusCode::kOk},
           Case{{.kind = Kind::kUnsigned},
                StatusCode::kPermissionDenied,
                StatusCode::kOk},
           Case{{.kind = Kind::kWrong},
                StatusCode::kInvalidArgument,
                StatusCode::kInvalidArgument},
       }) {
    EXPECT_EQ(Permit(strict, c.verdict).code(), c.strict);
    EXPECT_EQ(Permit(lax, c.verdict).code(), c.lax);
  }
  EXPECT_THAT(
      Permit(strict, {.kind = Kind::kUnknown, .signer = "5afe"}).message(),
      HasSubstr("signed by unknown key 5afe"));
}

}  // namespace
}  // namespace stoker
