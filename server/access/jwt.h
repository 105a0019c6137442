// Tokens that an identity provider has signed: JSON Web Tokens (RFC 7519) in
// the compact form of a JSON Web Signature (RFC 7515).
//
// Immutable once verified.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "access/jwk_set.h"
#include "nlohmann/json_fwd.hpp"

namespace stoker {

// What a policy's `jwt` says.
struct JwtRules {
  std::string jwks;      // the file with the keys
  std::string issuer;    // `iss`
  std::string audience;  // one of `aud`
  std::string caller;    // whose claims are no caller's; empty: nobody
};

class Jwt {
 public:
  // How far the clocks of server and provider may be apart.
  static constexpr absl::Duration kLeeway = absl::Seconds(30);

  // Whether it has the form of one: three parts.
  static bool IsOne(std::string_view token);

  // UNAUTHENTICATED: what is wrong with it, without the token; its time is not
  // looked at.
  static absl::StatusOr<Jwt> Verify(std::string_view token, const JwkSet& keys,
                                    const JwtRules& rules);

  Jwt(Jwt&&) noexcept;
  Jwt& operator=(Jwt&&) = delete;
  ~Jwt();

  // It is good from then on, and until then; with the leeway.
  absl::Time not_before() const { return not_before_; }
  absl::Time expires() const { return expires_; }
  const std::string& subject() const { return subject_; }  // may be empty

  // Whether the claim is that text, or a list with that text in it; of `scope`
  // and `scp` one of the words. A name with dots leads into objects where there
  // is no claim of that name: "realm_access.roles".
  bool Claims(std::string_view name, std::string_view value) const;

 private:
  explicit Jwt(nlohmann::json claims);
  absl::Status Read(const JwtRules& rules);

  std::unique_ptr<const nlohmann::json> claims_;  // an object
  std::string subject_;
  absl::Time not_before_ = absl::InfinitePast();
  absl::Time expires_;
};

}  // namespace stoker
