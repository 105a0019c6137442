#include "rpc/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/errno_status.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

constexpr size_t kMaxName = 256;

std::string Quoted(std::string_view name) {
  return absl::StrCat("'", Excerpt(name), "'");
}

absl::Status CheckName(const std::string& name) {
  if (!name.empty() && name.size() <= kMaxName) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "expected a name of 1 to ", kMaxName,
      " bytes for a shared memory region, got one of ", name.size()));
}

absl::StatusOr<FileDescriptor> OpenFile(const std::string& key) {
  // Whatever follows a zero byte would not be looked at.
  const bool whole = key.find('\0') == std::string::npos;
  FileDescriptor file(whole ? shm_open(key.c_str(), O_RDWR, 0) : -1);
  if (file.ok()) return file;
  const int error = whole ? errno : EINVAL;
  if (error == EMFILE || error == ENFILE) return ErrnoStatus(error, "shm_open");
  return absl::InvalidArgumentError(
      absl::StrCat("Unable to open shared memory region: ", Quoted(key), ": ",
                   ErrnoStatus(error, "shm_open").message()));
}

absl::Status CheckSize(const SharedMemoryRegion::Place& place, int file) {
  const std::string failed =
      absl::StrCat("failed to register shared memory region ",
                   Quoted(place.name), ": invalid args");
  struct stat info = {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        failed, ", expected ", Quoted(place.key), " to be shared memory"));
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  if (place.byte_size > 0 && place.offset <= size &&
      place.byte_size <= size - place.offset) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      failed, ", expected at least one byte within the ", size, " of ",
      Quoted(place.key), ", got ", place.byte_size, " at ", place.offset));
}

absl::Status WasCut(const SharedMemoryRegion::Place& place, uint64_t end) {
  return absl::InvalidArgumentError(absl::StrCat(
      "shared memory region ", Quoted(place.name), ": expected ", end,
      " bytes or more in ", Quoted(place.key), ", which has become smaller"));
}

}  // namespace

SharedMemoryRegion::SharedMemoryRegion(Place place, FileDescriptor file,
                                       Counter read, Counter written)
    : place_(std::move(place)),
      file_(std::move(file)),
      read_(read),
      written_(written) {
  Map();
}

SharedMemoryRegion::~SharedMemoryRegion() {
  guard_.reset();
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
}

// Where that fails the file is as good, only slower.
void SharedMemoryRegion::Map() {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t before = place_.offset % page;
  mapped_bytes_ = static_cast<size_t>(before + place_.byte_size);
  void* const mapping =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED,
           file_.get(), static_cast<off_t>(place_.offset - before));
  if (mapping == MAP_FAILED) return;
  mapping_ = mapping;
  guard_.emplace(mapping_, mapped_bytes_);
  if (guard_->holds()) bytes_ = static_cast<std::byte*>(mapping_) + before;
}

// The rest of a file's last page is zeros that nobody else sees.
bool SharedMemoryRegion::FileHolds(uint64_t end) const {
  struct stat info = {};
  return fstat(file_.get(), &info) == 0 &&
         static_cast<uint64_t>(info.st_size) >= place_.offset + end;
}

absl::StatusOr<Buffer> SharedMemoryRegion::Read(uint64_t offset,
                                                size_t size) const {
  Buffer buffer(size);
  bool copied = false;
  if (IsWhole()) {
    std::memcpy(buffer.data(), bytes_ + offset, size);
    copied = IsWhole() && FileHolds(offset + size);
  }
  if (!copied) RETURN_IF_ERROR(ReadFile(offset, buffer.data(), size));
  read_.Add(static_cast<double>(size));
  return buffer;
}

absl::Status SharedMemoryRegion::Write(uint64_t offset, const std::byte* data,
                                       size_t size) const {
  if (size == 0) return absl::OkStatus();
  bool copied = false;
  if (IsWhole()) {
    std::memcpy(bytes_ + offset, data, size);
    copied = IsWhole() && FileHolds(offset + size);
  }
  if (!copied) RETURN_IF_ERROR(WriteFile(offset, data, size));
  written_.Add(static_cast<double>(size));
  return absl::OkStatus();
}

absl::Status SharedMemoryRegion::ReadFile(uint64_t offset, std::byte* data,
                                          size_t size) const {
  const uint64_t begin = place_.offset + offset;
  for (size_t done = 0; done < size;) {
    const ssize_t got = pread(file_.get(), data + done, size - done,
                              static_cast<off_t>(begin + done));
    if (got == 0) return WasCut(place_, begin + size);
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, absl::StrCat("read shared memory region ",
                                             Quoted(place_.name)));
    }
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryRegion::WriteFile(uint64_t offset,
                                           const std::byte* data,
                                           size_t size) const {
  const uint64_t begin = place_.offset + offset;
  // A file that was cut would grow again. One that is cut just now does, which
  // harms nobody: to no more than it had.
  if (!FileHolds(offset + size)) return WasCut(place_, begin + size);
  for (size_t done = 0; done < size;) {
    const ssize_t put = pwrite(file_.get(), data + done, size - done,
                               static_cast<off_t>(begin + done));
    if (put > 0) {
      done += static_cast<size_t>(put);
    } else if (put == 0 || errno != EINTR) {
      return ErrnoStatus(
          put == 0 ? ENOSPC : errno,
          absl::StrCat("write shared memory region ", Quoted(place_.name)));
    }
  }
  return absl::OkStatus();
}

SharedMemoryRegions::SharedMemoryRegions(uint64_t max_bytes,
                                         MetricRegistry& metrics)
    : max_bytes_(max_bytes),
      read_(metrics.Counter(metric::kSharedMemoryCopied,
                            {{"direction", "read"}})),
      written_(metrics.Counter(metric::kSharedMemoryCopied,
                               {{"direction", "written"}})),
      count_gauge_(metrics.Gauge(metric::kSharedMemoryRegions)),
      bytes_gauge_(metrics.Gauge(metric::kSharedMemoryBytes)) {
  OutliveLostPages();
}

void SharedMemoryRegions::CountLocked() {
  count_gauge_.Set(static_cast<double>(regions_.size()));
  bytes_gauge_.Set(static_cast<double>(bytes_));
}

absl::Status SharedMemoryRegions::Register(SharedMemoryRegion::Place place) {
  RETURN_IF_ERROR(CheckName(place.name));
  ASSIGN_OR_RETURN(FileDescriptor file, OpenFile(place.key));
  RETURN_IF_ERROR(CheckSize(place, file.get()));
  auto region = std::make_shared<const SharedMemoryRegion>(
      place, std::move(file), read_, written_);

  absl::MutexLock lock(&mu_);
  if (regions_.contains(place.name)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "shared memory region ", Quoted(place.name), " already in manager"));
  }
  if (regions_.size() >= kMaxRegions) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "expected at most ", kMaxRegions, " shared memory regions, and ",
        Quoted(place.name), " would be one more: unregister some"));
  }
  if (place.byte_size > max_bytes_ - bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("expected at most ", max_bytes_,
                     " bytes of shared memory regions, and there are ", bytes_,
                     " without ", Quoted(place.name), " of ", place.byte_size));
  }
  bytes_ += place.byte_size;
  regions_.emplace(std::move(place.name), std::move(region));
  CountLocked();
  return absl::OkStatus();
}

void SharedMemoryRegions::Unregister(std::string_view name) {
  Regions gone;  // closed without the lock
  absl::MutexLock lock(&mu_);
  if (name.empty()) {
    gone.swap(regions_);
    bytes_ = 0;
  } else if (const auto found = regions_.find(name); found != regions_.end()) {
    bytes_ -= found->second->place().byte_size;
    gone.insert(regions_.extract(found));
  }
  CountLocked();
}

absl::StatusOr<std::vector<SharedMemoryRegion::Place>>
SharedMemoryRegions::Status(std::string_view name) const {
  std::vector<SharedMemoryRegion::Place> places;
  absl::MutexLock lock(&mu_);
  for (const auto& [known, region] : regions_) {
    if (name.empty() || name == known) places.push_back(region->place());
  }
  if (!name.empty() && places.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "Unable to find system shared memory region: ", Quoted(name)));
  }
  return places;
}

absl::StatusOr<SharedMemoryRange> SharedMemoryRegions::Find(
    std::string_view name, uint64_t offset, uint64_t byte_size) const {
  std::shared_ptr<const SharedMemoryRegion> region;
  {
    absl::MutexLock lock(&mu_);
    if (const auto found = regions_.find(name); found != regions_.end()) {
      region = found->second;
    }
  }
  if (region == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("Unable to find shared memory region: ", Quoted(name)));
  }
  const uint64_t size = region->place().byte_size;
  if (offset > size || (offset == size && byte_size > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Invalid offset for shared memory region: ", Quoted(name),
                     ", expected less than ", size, ", got ", offset));
  }
  if (byte_size > size - offset) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Invalid offset + byte size for shared memory region: ", Quoted(name),
        ", expected at most ", size, ", got ", offset, " + ", byte_size));
  }
  return SharedMemoryRange{std::move(region), offset,
                           static_cast<size_t>(byte_size)};
}

}  // namespace stoker
