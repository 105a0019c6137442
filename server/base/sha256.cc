#include "base/sha256.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/errno_status.h"

namespace stoker {
namespace {

// Big enough that the read() call costs nothing beside the digest.
constexpr size_t kChunkBytes = size_t{256} * 1024;

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new()) {
    Check(context_ != nullptr);
    Check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }

  void Add(std::string_view bytes) {
    Check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }

  std::string Hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned int size = 0;
    Check(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1);
    return absl::BytesToHexString(
        {reinterpret_cast<const char*>(digest.data()), size});
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };

  // OpenSSL fails here only without memory or with a library that has no
  // SHA-256.
  static void Check(bool done) {
    if (!done) std::abort();
  }

  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  Digest digest;
  digest.Add(bytes);
  return digest.Hex();
}

absl::StatusOr<std::string> Sha256File(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  absl::Cleanup close_fd = [fd] { close(fd); };
  Digest digest;
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
