// What any bytes may do to ZipArchive: be refused, or be an archive whose
// members all lie inside the file. Also the entry point of libFuzzer, see
// CMakeLists.txt.
#include "tests/fuzz/zip_archive/zip_archive_fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "program/zip_archive.h"

namespace stoker {
namespace {

#define FUZZ_CHECK(condition)                             \
  do {                                                    \
    if (!(condition)) {                                   \
      fprintf(stderr, "does not hold: %s\n", #condition); \
      abort();                                            \
    }                                                     \
  } while (false)

// A file in memory that lives as long as this object.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size)
      : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    FUZZ_CHECK(fd_ >= 0);
    FUZZ_CHECK(write(fd_, data, size) == static_cast<ssize_t>(size));
  }
  ~MemoryFile() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

}  // namespace

bool FuzzZipArchive(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  const auto archive = ZipArchive::Open(file.path());
  if (!archive.ok()) {
    FUZZ_CHECK(archive.status().code() == absl::StatusCode::kInvalidArgument);
    return false;
  }
  uint64_t total = 0;
  for (const auto& [name, member] : (*archive)->members()) {
    FUZZ_CHECK(!name.empty() && name.front() != '/');
    FUZZ_CHECK(name.find('\\') == std::string::npos);
    FUZZ_CHECK(("/" + name + "/").find("/../") == std::string::npos);
    FUZZ_CHECK(member.offset <= size && member.size <= size - member.offset);
    const auto view = (*archive)->View(name);
    FUZZ_CHECK(view.ok() && view->size() == member.size);
    // Reads every byte, which an address sanitizer watches.
    const auto checked = (*archive)->ReadChecked(name, size);
    FUZZ_CHECK(!checked.ok() || checked->data() == view->data());
    total += member.size;
  }
  FUZZ_CHECK(total <= size);  // nothing overlaps
  return true;
}

}  // namespace stoker
