#include "base/sha256.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/errno_status.h"

namespace stoker {
namespace {

// Big enough that the read() call costs nothing beside the digest.
constexpr size_t kChunkBytes = size_t{256} * 1024;

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
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  absl::Cleanup close_fd = [fd] { close(fd); };
  Sha256 digest;
  std::vector<char> chunk(kChunkBytes);
  while (true) {
    const ssize_t got = read(fd, chunk.data(), chunk.size());
    if (got == 0) return digest.Hex();
    if (got > 0) {
      digest.Add({chunk.data(), static_cast<size_t>(got)});
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, absl::StrCat("read ", path));
    }
  }
}

}  // namespace stoker
