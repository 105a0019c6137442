#include "base/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errno_status.h"

namespace stoker {
namespace {

// What the handler looks at: it may run at any time on any thread, so nothing
// here is locked. A place is taken when `end` is not 0.
struct Guarded {
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
};
std::array<Guarded, 1024> guarded;  // of which a process uses a few dozen

struct sigaction before;

// Async-signal-safe.
bool FillWithZeros(uintptr_t address) {
  for (const Guarded& range : guarded) {
    const uintptr_t end = range.end.load();
    if (address < range.begin.load() || address >= end) continue;
    const auto page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t page = address & ~(page_size - 1);
    // Writable, as a copy's pages are: nobody else sees them.
    // NOLINTNEXTLINE(performance-no-int-to-ptr): rounded down to its page
    return mmap(reinterpret_cast<void*>(page), end - page,
                PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1, 0) != MAP_FAILED;
  }
  return false;
}

void OnLostPage(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const int saved = errno;
  if (!FillWithZeros(reinterpret_cast<uintptr_t>(info->si_addr))) {
    sigaction(SIGBUS, &before, nullptr);  // the access is made again
  }
  errno = saved;
}

int Guard(const char* data, size_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  for (size_t i = 0; i < guarded.size(); ++i) {
    uintptr_t none = 0;
    if (!guarded[i].begin.compare_exchange_strong(none, begin)) continue;
    guarded[i].end.store(begin + size);
    return static_cast<int>(i);
  }
  return -1;
}

void Unguard(int guard) {
  if (guard < 0) return;
  Guarded& range = guarded[static_cast<size_t>(guard)];
  range.end.store(0);
  range.begin.store(0);
}

}  // namespace

void MappedFile::OutliveLostPages() {
  static const int installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = OnLostPage;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGBUS, &action, &before);
  }();
  static_cast<void>(installed);
}

absl::StatusOr<std::unique_ptr<const MappedFile>> MappedFile::Open(
    const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat info;
  if (fstat(file.get(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("stat ", path));
  }
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", S_ISREG(info.st_mode) ? "an empty file" : "not a file",
        ", expected a file with content"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    return ErrnoStatus(errno, absl::StrCat("map ", path));
  }
  return std::unique_ptr<const MappedFile>(
      new MappedFile(std::move(file), static_cast<const char*>(data), size));
}

MappedFile::MappedFile(FileDescriptor file, const char* data, size_t size)
    : file_(std::move(file)),
      data_(data),
      size_(size),
      guard_(Guard(data, size)) {}

MappedFile::~MappedFile() {
  Unguard(guard_);
  munmap(const_cast<char*>(data_), size_);
}

absl::StatusOr<std::shared_ptr<std::byte>> MappedFile::CopyOnWrite() const {
  // Of memory that is never written to none is to be set aside.
  void* data = mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_NORESERVE, file_.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "map a file to be written");
  const int guard = Guard(static_cast<const char*>(data), size_);
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(data),
                                    [guard, size = size_](std::byte* begin) {
                                      Unguard(guard);
                                      munmap(begin, size);
                                    });
}

std::string MappedFile::held_path() const {
  return absl::StrCat("/proc/", getpid(), "/fd/", file_.get());
}

MappedFile::Stamp MappedFile::stamp() const {
  struct stat now;
  if (fstat(file_.get(), &now) != 0) return {};
  return {now.st_size, now.st_mtim.tv_sec, now.st_mtim.tv_nsec};
}

}  // namespace stoker
