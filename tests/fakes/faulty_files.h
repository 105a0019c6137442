// Files with faults in between. Every call is one operation, counted from 0. A
// test first runs its subject to see how many operations it takes, then once
// per operation with a fault there:
//
//   FaultyFiles files(Files::Real());
//   files.FailAt(3, absl::ResourceExhaustedError("disk full"));
//   files.DieAt(3, FaultyFiles::Moment::kHalfway);  // like kill -9
//
// After a simulated death every operation is refused and changes nothing, which
// is what the disk sees of a killed process. LosePower() then takes away what
// no fsync has made durable, which is what the disk sees of a power failure.
//
// Thread-safe. The wrapped Files must outlive this object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/files.h"

namespace stoker {

class FaultyFiles : public Files {
 public:
  // Where in the operation the process dies. Halfway, a Write leaves half of
  // the bytes, a SyncTree has made nothing durable, a Remove has removed some
  // of a tree and a Rename is done but not durable; other operations have not
  // happened.
  enum class Moment { kBefore, kHalfway, kAfter };

  explicit FaultyFiles(Files& real) : real_(real) {}

  // Operation `n` returns `error` and does nothing; later ones work.
  void FailAt(int n, absl::Status error) {
    absl::MutexLock lock(&mu_);
    fail_at_ = n;
    error_ = std::move(error);
  }
  // Every operation that changes the disk returns `error`: a full or read-only
  // disk.
  void FailAllChanges(absl::Status error) {
    absl::MutexLock lock(&mu_);
    fail_changes_ = std::move(error);
  }
  // A file system without locks: everybody gets every lock.
  void HaveNoLocks() {
    absl::MutexLock lock(&mu_);
    no_locks_ = true;
  }
  void DieAt(int n, Moment moment) {
    absl::MutexLock lock(&mu_);
    die_at_ = n;
    moment_ = moment;
  }

  int operations() const {
    absl::MutexLock lock(&mu_);
    return next_;
  }
  bool dead() const {
    absl::MutexLock lock(&mu_);
    return dead_;
  }

  // Empties every file below `folder` that was not made durable through this
  // object (by Write or SyncTree); renames keep what they move durable.
  void LosePower(const std::string& folder) {
    absl::MutexLock lock(&mu_);
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() && !durable_.contains(entry.path())) {
        std::filesystem::resize_file(entry.path(), 0);
      }
    }
  }

  absl::StatusOr<std::string> Read(const std::string& path) override {
    return Get<std::string>([&] { return real_.Read(path); });
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) override {
    return Get<std::vector<std::string>>([&] { return real_.List(folder); });
  }
  absl::StatusOr<int64_t> Size(const std::string& path) override {
    return Get<int64_t>([&] { return real_.Size(path); });
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    return Get<FileInfo>([&] { return real_.Stat(path); });
  }

  absl::StatusOr<std::unique_ptr<OpenFolder>> Hold(
      const std::string& folder) override {
    return Get<std::unique_ptr<OpenFolder>>([&] { return real_.Hold(folder); });
  }

  absl::Status Write(const std::string& path, std::string_view bytes) override {
    return Change(
        [&] {
          absl::Status done = real_.Write(path, bytes);
          if (done.ok()) NoteDurable(path);
          return done;
        },
        [&] {
          std::ofstream(path, std::ios::binary)
              << bytes.substr(0, bytes.size() / 2);
        });
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    const auto rename = [&] {
      absl::Status done = real_.Rename(from, to);
      if (done.ok()) MoveDurable(from, to);
      return done;
    };
    return Change(rename, [&] { rename().IgnoreError(); });
  }
  absl::Status SyncTree(const std::string& path) override {
    return Change(
        [&] {
          absl::Status done = real_.SyncTree(path);
          if (done.ok()) NoteDurable(path);
          return done;
        },
        [] {});
  }
  absl::Status MakeFolders(const std::string& path) override {
    return Change([&] { return real_.MakeFolders(path); }, [] {});
  }
  absl::Status Remove(const std::string& path) override {
    return Change([&] { return real_.Remove(path); },
                  [&] { RemoveSome(path); });
  }
  absl::Status Touch(const std::string& path) override {
    return Change([&] { return real_.Touch(path); }, [] {});
  }
  absl::StatusOr<std::unique_ptr<FileLock>> TryLock(
      const std::string& path) override {
    return Take([&] { return real_.TryLock(path); });
  }
  absl::StatusOr<std::unique_ptr<FileLock>> TryShare(
      const std::string& path) override {
    return Take([&] { return real_.TryShare(path); });
  }

 private:
  class NoLock : public FileLock {
    bool excludes() const override { return false; }
  };
  bool HasLocks() const {
    absl::MutexLock lock(&mu_);
    return !no_locks_;
  }

  using Lock = absl::StatusOr<std::unique_ptr<FileLock>>;
  Lock Take(const std::function<Lock()>& take) {
    std::unique_ptr<FileLock> lock;
    const absl::Status done = Change(
        [&] {
          Lock taken = take();
          if (!taken.ok()) return taken.status();
          lock = *std::move(taken);
          if (!HasLocks()) lock = std::make_unique<NoLock>();
          return absl::OkStatus();
        },
        [] {});
    if (!done.ok()) return done;
    return lock;
  }

  static absl::Status Dead() {
    return absl::AbortedError("the process was killed");
  }

  // What happens to the operation that begins now.
  struct Fate {
    absl::Status error;           // not OK: return this and do nothing
    std::optional<Moment> death;  // otherwise: die in it
  };
  Fate Begin(bool is_change) {
    absl::MutexLock lock(&mu_);
    if (dead_) return {Dead(), {}};
    const int n = next_++;
    if (n == die_at_) {
      dead_ = true;
      return {absl::OkStatus(), moment_};
    }
    if (n == fail_at_) return {error_, {}};
    return {is_change ? fail_changes_ : absl::OkStatus(), {}};
  }

  template <typename T>
  absl::StatusOr<T> Get(const std::function<absl::StatusOr<T>()>& operation) {
    const Fate fate = Begin(/*is_change=*/false);
    if (!fate.error.ok()) return fate.error;
    if (fate.death.has_value()) return Dead();
    return operation();
  }

  absl::Status Change(const std::function<absl::Status()>& whole,
                      const std::function<void()>& half) {
    const Fate fate = Begin(/*is_change=*/true);
    if (!fate.error.ok()) return fate.error;
    if (!fate.death.has_value()) return whole();
    if (*fate.death == Moment::kHalfway) half();
    if (*fate.death == Moment::kAfter) whole().IgnoreError();
    return Dead();
  }

  // Every second name of a tree, or nothing of a single file.
  void RemoveSome(const std::string& path) {
    const absl::StatusOr<std::vector<std::string>> names = real_.List(path);
    if (!names.ok()) return;
    for (size_t i = 0; i < names->size(); i += 2) {
      real_.Remove(path + "/" + (*names)[i]).IgnoreError();
    }
  }

  void NoteDurable(const std::string& path) {
    absl::MutexLock lock(&mu_);
    durable_.insert(path);
    std::error_code error;  // not a folder: nothing below it
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path, error)) {
      durable_.insert(entry.path());
    }
  }
  void MoveDurable(const std::string& from, const std::string& to) {
    absl::MutexLock lock(&mu_);
    std::set<std::string> moved;
    for (const std::string& path : durable_) {
      const bool is_below =
          path == from || path.compare(0, from.size() + 1, from + "/") == 0;
      moved.insert(is_below ? to + path.substr(from.size()) : path);
    }
    durable_ = std::move(moved);
  }

  static constexpr int kNever = std::numeric_limits<int>::max();

  Files& real_;
  mutable absl::Mutex mu_;
  int next_ ABSL_GUARDED_BY(mu_) = 0;
  int fail_at_ ABSL_GUARDED_BY(mu_) = kNever;
  int die_at_ ABSL_GUARDED_BY(mu_) = kNever;
  Moment moment_ ABSL_GUARDED_BY(mu_) = Moment::kBefore;
  bool dead_ ABSL_GUARDED_BY(mu_) = false;
  bool no_locks_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  absl::Status fail_changes_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> durable_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
