// POSIX shared memory of clients on this host: named parts of files in
// /dev/shm, which requests take inputs from and have outputs written to.
//
// What is in them is copied once, and looked at in the copy: a client may
// change a value between the check and the use. The copy takes the place of the
// one that batching makes of inputs which aren't aligned, as those in a message
// are not.
//
// A client may also cut its file at any moment, and files of shm_open can't be
// sealed against it. A region is mapped under a guard (base/lost_pages.h),
// since a copy from a mapping takes 85 us for 600 KB and one by pread 140 us;
// once pages were lost, pread and pwrite do it, which tell of a file that was
// cut by a short count.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/file_descriptor.h"
#include "base/lost_pages.h"
#include "metrics/metrics.h"
#include "tensor/tensor.h"

namespace stoker {

// Immutable. Whoever holds one may use it, registered or not.
class SharedMemoryRegion {
 public:
  struct Place {
    std::string name;
    std::string key;      // of shm_open
    uint64_t offset = 0;  // in the file
    uint64_t byte_size = 0;
  };

  // The file holds the place now.
  SharedMemoryRegion(Place place, FileDescriptor file, Counter read,
                     Counter written);
  ~SharedMemoryRegion();
  SharedMemoryRegion(const SharedMemoryRegion&) = delete;
  SharedMemoryRegion& operator=(const SharedMemoryRegion&) = delete;

  const Place& place() const { return place_; }

  // `size` bytes at `offset`, which lie within the region, in aligned memory.
  // INVALID_ARGUMENT: the file was cut.
  absl::StatusOr<Buffer> Read(uint64_t offset, size_t size) const;
  // INVALID_ARGUMENT: the file was cut; RESOURCE_EXHAUSTED: there is no memory
  // for its pages.
  absl::Status Write(uint64_t offset, const std::byte* data, size_t size) const;

 private:
  void Map();
  bool FileHolds(uint64_t end) const;  // of the region
  // Whether it is mapped, and no page of it was lost so far.
  bool IsWhole() const { return bytes_ != nullptr && !guard_->lost(); }
  absl::Status ReadFile(uint64_t offset, std::byte* data, size_t size) const;
  absl::Status WriteFile(uint64_t offset, const std::byte* data,
                         size_t size) const;

  const Place place_;
  const FileDescriptor file_;
  // From the page that holds the region's first byte on; null: not mapped.
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* bytes_ = nullptr;  // the region's first
  std::optional<PageGuard> guard_;
  mutable Counter read_;
  mutable Counter written_;
};

// Some bytes of a region, where a tensor lies or is to lie.
struct SharedMemoryRange {
  std::shared_ptr<const SharedMemoryRegion> region;
  uint64_t offset = 0;  // in the region
  size_t byte_size = 0;
};

// All that clients registered.
class SharedMemoryRegions {
 public:
  // Each takes a descriptor.
  static constexpr size_t kMaxRegions = 512;

  // `max_bytes`: of all regions together. Pages that nobody has touched yet
  // are counted as the server's when it writes an output to them.
  SharedMemoryRegions(uint64_t max_bytes, MetricRegistry& metrics);

  // INVALID_ARGUMENT: no such file, one that is too small, a bad name;
  // ALREADY_EXISTS: the name is taken; RESOURCE_EXHAUSTED: too many, or too
  // large. In Triton's words where its clients look for them.
  absl::Status Register(SharedMemoryRegion::Place place)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Those of an empty name: all. What is not there is no error. Requests that
  // were taken before are finished in the region.
  void Unregister(std::string_view name) ABSL_LOCKS_EXCLUDED(mu_);
  // The region of that name, or all for an empty one, by name. NOT_FOUND.
  absl::StatusOr<std::vector<SharedMemoryRegion::Place>> Status(
      std::string_view name) const ABSL_LOCKS_EXCLUDED(mu_);
  // NOT_FOUND; INVALID_ARGUMENT: not within the region.
  absl::StatusOr<SharedMemoryRange> Find(std::string_view name, uint64_t offset,
                                         uint64_t byte_size) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Regions =
      std::map<std::string, std::shared_ptr<const SharedMemoryRegion>,
               std::less<>>;

  void CountLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t max_bytes_;
  const Counter read_;
  const Counter written_;

  mutable absl::Mutex mu_;
  Gauge count_gauge_ ABSL_GUARDED_BY(mu_);
  Gauge bytes_gauge_ ABSL_GUARDED_BY(mu_);
  Regions regions_ ABSL_GUARDED_BY(mu_);
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace stoker
