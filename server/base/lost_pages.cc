#include "base/lost_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

namespace stoker {
namespace {

// What the handler looks at: it may run at any time on any thread, so nothing
// here is locked. A place is taken when `begin` is not 0, and looked at when
// `end` isn't either.
struct Guarded {
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
  std::atomic<bool> lost = false;
};
// A process uses a few dozen, and one for each region that clients share.
std::array<Guarded, 2048> guarded;

struct sigaction before;

// Async-signal-safe.
bool FillWithZeros(uintptr_t address) {
  for (Guarded& range : guarded) {
    const uintptr_t end = range.end.load();
    if (address < range.begin.load() || address >= end) continue;
    // Before the zeros can be seen.
    range.lost.store(true);
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

void OnLostPage(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  if (!FillWithZeros(reinterpret_cast<uintptr_t>(info->si_addr))) {
    if ((before.sa_flags & SA_SIGINFO) != 0) {
      before.sa_sigaction(signal, info, context);  // it may know the page
    } else {
      sigaction(SIGBUS, &before, nullptr);  // the access is made again
    }
  }
  errno = saved;
}

int TakePlace(const void* data, size_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  for (size_t i = 0; i < guarded.size(); ++i) {
    uintptr_t none = 0;
    if (!guarded[i].begin.compare_exchange_strong(none, begin)) continue;
    guarded[i].lost.store(false);
    guarded[i].end.store(begin + size);
    return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

void OutliveLostPages() {
  static const int installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = OnLostPage;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGBUS, &action, &before);
  }();
  static_cast<void>(installed);
}

PageGuard::PageGuard(const void* data, size_t size)
    : place_(TakePlace(data, size)) {}

PageGuard::~PageGuard() {
  if (place_ < 0) return;
  Guarded& range = guarded[static_cast<size_t>(place_)];
  range.end.store(0);
  range.begin.store(0);
}

bool PageGuard::lost() const {
  return place_ >= 0 && guarded[static_cast<size_t>(place_)].lost.load();
}

}  // namespace stoker
