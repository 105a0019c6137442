#include "tests/fuzz/jwt/jwt_fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "access/jwk_set.h"
#include "access/jwt.h"

namespace stoker {
namespace {

// Of what is wrong with a token, which may show its alg and kid.
constexpr size_t kMaxMessage = 2048;
// The least of a token that is no chance.
constexpr size_t kShown = 200;

void Hold(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace

FuzzedJwt FuzzJwt(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find("\n\n");
  const std::string_view token = end == text.npos ? text : text.substr(end + 2);
  const absl::StatusOr<JwkSet> keys =
      JwkSet::Parse(text.substr(0, end), "keys.json");
  if (!keys.ok()) {
    Hold(keys.status().code() == absl::StatusCode::kInvalidArgument,
         "another code than a mistake's");
    return FuzzedJwt::kNoKeys;
  }
  Hold(keys->size() > 0, "a set without keys");
  const JwtRules rules{"keys.json", "joe", "stoker", ""};
  const absl::StatusOr<Jwt> jwt = Jwt::Verify(token, *keys, rules);
  if (jwt.ok()) {
    Hold(jwt->Claims("iss", "joe"), "an issuer that is another");
    Hold(jwt->Claims("aud", "stoker"), "an audience that is another");
    return FuzzedJwt::kGood;
  }
  const std::string message(jwt.status().message());
  Hold(jwt.status().code() == absl::StatusCode::kUnauthenticated,
       "another code than a refusal's");
  Hold(message.size() <= kMaxMessage, "a long message");
  Hold(token.size() < kShown || message.find(token) == message.npos,
       "a message that shows the token");
  const bool signed_well = message.find("(iss)") != message.npos ||
                           message.find("(aud)") != message.npos ||
                           message.find("(exp") != message.npos ||
                           message.find("nbf") != message.npos ||
                           message.find("payload") != message.npos;
  return signed_well ? FuzzedJwt::kRefused : FuzzedJwt::kNoToken;
}

}  // namespace stoker
