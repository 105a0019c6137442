// Tells ThreadSanitizer about absl::Mutex and absl::Status. The distribution's
// abseil is built without instrumentation: TSan sees none of its
// synchronisation and takes all that mutexes guard for races. The definitions
// here belong to the executable and so come before the shared library's. Each
// calls the library's and adds the order that it makes: who locks acquires what
// those who unlocked before released.
//
// The library evaluates the conditions of waiting threads on whichever thread
// gives the mutex up, hence the one of Condition::Eval.
//
// Copies of a Status share what they say. The last of them to go frees it, and
// sees by a count kept in the library that the others are gone.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdint>
#include <string>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace {

#define STOKER_STRING_INNER(name) #name
#define STOKER_STRING(name) STOKER_STRING_INNER(name)

// The library's own function, by the part of its mangled name that follows the
// namespaces.
template <typename Function>
Function* Next(const char* prefix, const char* name) {
  const std::string abi = STOKER_STRING(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string symbol =
      std::string(prefix) + "4absl" + std::to_string(abi.size()) + abi + name;
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, symbol.c_str()));
}

// The library's own search for deadlocks keeps a graph under a lock that TSan
// can't see. TSan searches for deadlocks itself.
[[maybe_unused]] const bool no_graph = [] {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return true;
}();

// The mutex in one of whose functions this thread is; null outside.
thread_local absl::Mutex* current = nullptr;

template <typename Result, typename... Args>
Result CallWith(absl::Mutex* mu, Result (*next)(Args...), Args... args) {
  absl::Mutex* const outer = current;
  current = mu;
  struct Restore {
    absl::Mutex* outer;
    ~Restore() { current = outer; }
  } restore{outer};
  return next(args...);
}

}  // namespace

#define NEXT(type, name) static auto* const next = Next<type>("_ZN", name)

namespace absl {
ABSL_NAMESPACE_BEGIN

void Status::UnrefNonInlined(uintptr_t rep) {
  NEXT(void(uintptr_t), "6Status15UnrefNonInlinedEm");
  void* const shared = reinterpret_cast<void*>(rep);
  __tsan_release(shared);
  __tsan_acquire(shared);
  next(rep);
}

void Mutex::Lock() {
  NEXT(void(Mutex*), "5Mutex4LockEv");
  CallWith(this, next, this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  NEXT(void(Mutex*), "5Mutex6UnlockEv");
  __tsan_release(this);
  CallWith(this, next, this);
}

bool Mutex::TryLock() {
  NEXT(bool(Mutex*), "5Mutex7TryLockEv");
  const bool locked = CallWith(this, next, this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::ReaderLock() {
  NEXT(void(Mutex*), "5Mutex10ReaderLockEv");
  CallWith(this, next, this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  NEXT(void(Mutex*), "5Mutex12ReaderUnlockEv");
  __tsan_release(this);
  CallWith(this, next, this);
}

bool Mutex::ReaderTryLock() {
  NEXT(bool(Mutex*), "5Mutex13ReaderTryLockEv");
  const bool locked = CallWith(this, next, this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::LockWhen(const Condition& cond) {
  NEXT(void(Mutex*, const Condition&), "5Mutex8LockWhenERKNS0_9ConditionE");
  CallWith<void, Mutex*, const Condition&>(this, next, this, cond);
  __tsan_acquire(this);
}

void Mutex::ReaderLockWhen(const Condition& cond) {
  NEXT(void(Mutex*, const Condition&),
       "5Mutex14ReaderLockWhenERKNS0_9ConditionE");
  CallWith<void, Mutex*, const Condition&>(this, next, this, cond);
  __tsan_acquire(this);
}

bool Mutex::LockWhenWithTimeout(const Condition& cond, Duration timeout) {
  NEXT(bool(Mutex*, const Condition&, Duration),
       "5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  const bool met = CallWith<bool, Mutex*, const Condition&, Duration>(
      this, next, this, cond, timeout);
  __tsan_acquire(this);
  return met;
}

bool Mutex::LockWhenWithDeadline(const Condition& cond, Time deadline) {
  NEXT(bool(Mutex*, const Condition&, Time),
       "5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const bool met = CallWith<bool, Mutex*, const Condition&, Time>(
      this, next, this, cond, deadline);
  __tsan_acquire(this);
  return met;
}

void Mutex::Await(const Condition& cond) {
  NEXT(void(Mutex*, const Condition&), "5Mutex5AwaitERKNS0_9ConditionE");
  __tsan_release(this);
  CallWith<void, Mutex*, const Condition&>(this, next, this, cond);
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& cond, Duration timeout) {
  NEXT(bool(Mutex*, const Condition&, Duration),
       "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  __tsan_release(this);
  const bool met = CallWith<bool, Mutex*, const Condition&, Duration>(
      this, next, this, cond, timeout);
  __tsan_acquire(this);
  return met;
}

bool Mutex::AwaitWithDeadline(const Condition& cond, Time deadline) {
  NEXT(bool(Mutex*, const Condition&, Time),
       "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  __tsan_release(this);
  const bool met = CallWith<bool, Mutex*, const Condition&, Time>(
      this, next, this, cond, deadline);
  __tsan_acquire(this);
  return met;
}

void CondVar::Wait(Mutex* mu) {
  NEXT(void(CondVar*, Mutex*), "7CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mu);
  CallWith(mu, next, this, mu);
  __tsan_acquire(mu);
}

bool CondVar::WaitWithTimeout(Mutex* mu, Duration timeout) {
  NEXT(bool(CondVar*, Mutex*, Duration),
       "7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mu);
  const bool expired = CallWith(mu, next, this, mu, timeout);
  __tsan_acquire(mu);
  return expired;
}

bool CondVar::WaitWithDeadline(Mutex* mu, Time deadline) {
  NEXT(bool(CondVar*, Mutex*, Time),
       "7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mu);
  const bool expired = CallWith(mu, next, this, mu, deadline);
  __tsan_acquire(mu);
  return expired;
}

bool Condition::Eval() const {
  static auto* const next =
      Next<bool(const Condition*)>("_ZNK", "9Condition4EvalEv");
  Mutex* const mu = current;
  if (mu != nullptr) __tsan_acquire(mu);
  const bool met = next(this);
  if (mu != nullptr) __tsan_release(mu);
  return met;
}

ABSL_NAMESPACE_END
}  // namespace absl
