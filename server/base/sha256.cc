#include "base/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "base/file_stream.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

// OpenSSL fails here only without memory or with a library that has no SHA-256.
void Check(bool done) {
  if (!done) std::abort();
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  Check(context_ != nullptr);
  Check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::Add(std::string_view bytes) {
  Check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  Check(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1);
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(digest.data()), size});
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 digest;
  digest.Add(bytes);
  return digest.Hex();
}

absl::StatusOr<std::string> Sha256File(const std::string& path) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  Sha256 digest;
  const auto add = [&digest](std::string_view piece) {
    digest.Add(piece);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(file.ReadTo(add).status());
  return digest.Hex();
}

}  // namespace stoker
