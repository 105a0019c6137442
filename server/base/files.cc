#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/errno_status.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

FileDescriptor OpenFile(const std::string& path, int flags) {
  return FileDescriptor(open(path.c_str(), flags | O_CLOEXEC, 0600));
}

class FlockLock : public FileLock {
 public:
  FlockLock(FileDescriptor descriptor, bool excludes)
      : descriptor_(std::move(descriptor)), excludes_(excludes) {}
  bool excludes() const override { return excludes_; }

 private:
  const FileDescriptor descriptor_;  // closing it releases the lock
  const bool excludes_;
};

bool MeansNoLocks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS;
}

class ProcFolder : public OpenFolder {
 public:
  explicit ProcFolder(FileDescriptor descriptor)
      : OpenFolder(UniqueSpelling(descriptor.get())),
        descriptor_(std::move(descriptor)) {}

 private:
  // Descriptors are used again, so a counter goes into the name: each of its
  // bits is a step that leads nowhere, "/." for 1 and "/" for 0.
  static std::string UniqueSpelling(int fd) {
    static std::atomic<uint32_t> counter = 0;
    std::string path = absl::StrCat("/proc/self/fd/", fd);
    for (uint32_t n = counter.fetch_add(1); n != 0; n >>= 1) {
      path += (n & 1) != 0 ? "/." : "/";
    }
    return path;
  }

  const FileDescriptor descriptor_;
};

std::string ParentOf(const std::string& path) {
  std::string parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

absl::Status Sync(const std::string& path, int flags) {
  const FileDescriptor file = OpenFile(path, O_RDONLY | O_NOFOLLOW | flags);
  if (!file.ok()) return LastError("open", path);
  // Some network file systems refuse fsync on folders; there the rename itself
  // is all the durability there is.
  if (fsync(file.get()) != 0 && !(errno == EINVAL && flags == O_DIRECTORY)) {
    return LastError("fsync", path);
  }
  return absl::OkStatus();
}

absl::Status SyncFolder(const std::string& path) {
  return Sync(path, O_DIRECTORY);
}

bool IsFolder(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// A folder that lies in an image can't be renamed in a container
// (overlayfs.rst, "renaming directories"): not at once, then.
absl::Status MoveFolder(const std::string& from, const std::string& to) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(to, error))) {
    return ErrnoStatus(EEXIST, absl::StrCat("rename ", from, " to ", to));
  }
  fs::copy(from, to, fs::copy_options::recursive, error);
  if (error) {
    std::error_code ignored;
    fs::remove_all(to, ignored);
    return ErrnoStatus(error.value(), absl::StrCat("copy ", from, " to ", to));
  }
  fs::remove_all(from, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", from));
  return SyncFolder(ParentOf(to));
}

// Whether `path` still names the file behind `fd`.
bool StillNamed(const std::string& path, int fd) {
  struct stat opened, named;
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

FileInfo::Type TypeOf(mode_t mode) {
  if (S_ISREG(mode)) return FileInfo::Type::kFile;
  if (S_ISDIR(mode)) return FileInfo::Type::kFolder;
  if (S_ISLNK(mode)) return FileInfo::Type::kLink;
  return FileInfo::Type::kOther;
}

class RealFiles : public Files {
 public:
  absl::StatusOr<std::string> Read(const std::string& path) override {
    const FileDescriptor file = OpenFile(path, O_RDONLY);
    if (!file.ok()) return LastError("open", path);
    struct stat info;
    if (fstat(file.get(), &info) != 0) return LastError("stat", path);
    std::string bytes;
    // One byte more than the size, so that a file which did not grow takes one
    // read and one that ends it.
    size_t room = static_cast<size_t>(std::max<off_t>(info.st_size, 0)) + 1;
    while (true) {
      const size_t used = bytes.size();
      bytes.resize(used + room);
      const ssize_t got = read(file.get(), bytes.data() + used, room);
      if (got < 0 && errno != EINTR) return LastError("read", path);
      bytes.resize(used + static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (got == 0) return bytes;
      room = 4096;
    }
  }

  absl::Status Write(const std::string& path, std::string_view bytes) override {
    const FileDescriptor file = OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.ok()) return LastError("create", path);
    RETURN_IF_ERROR(WriteAll(file.get(), bytes, path));
    if (fsync(file.get()) != 0) return LastError("fsync", path);
    return absl::OkStatus();
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) {
      if (errno == EXDEV && IsFolder(from)) return MoveFolder(from, to);
      return LastError(absl::StrCat("rename ", from, " to"), to);
    }
    return SyncFolder(ParentOf(to));
  }

  absl::Status SyncTree(const std::string& path) override {
    ASSIGN_OR_RETURN(const FileInfo info, Stat(path));
    if (info.type == FileInfo::Type::kFile) return Sync(path, 0);
    if (info.type != FileInfo::Type::kFolder) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<std::string> names, List(path));
    for (const std::string& name : names) {
      RETURN_IF_ERROR(SyncTree(absl::StrCat(path, "/", name)));
    }
    return SyncFolder(path);
  }

  absl::Status MakeFolders(const std::string& path) override {
    if (mkdir(path.c_str(), 0700) == 0) return SyncFolder(ParentOf(path));
    if (errno == ENOENT && ParentOf(path) != path) {
      RETURN_IF_ERROR(MakeFolders(ParentOf(path)));
      if (mkdir(path.c_str(), 0700) == 0) return SyncFolder(ParentOf(path));
    }
    if (errno != EEXIST) return LastError("create folder", path);
    std::error_code error;
    if (fs::is_directory(path, error)) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat("create folder ", path, ": something else has that name"));
  }

  absl::Status Remove(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", path));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) override {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator it(folder, error), end; !error && it != end;
         it.increment(error)) {
      names.push_back(it->path().filename());
    }
    if (error) return ErrnoStatus(error.value(), absl::StrCat("list ", folder));
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<int64_t> Size(const std::string& path) override {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return LastError("stat", path);
    return info.st_size;
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) return LastError("stat", path);
    return FileInfo{.type = TypeOf(info.st_mode),
                    .bytes = info.st_size,
                    .owner = info.st_uid,
                    .permissions = info.st_mode & 07777,
                    .modified = absl::TimeFromTimespec(info.st_mtim)};
  }

  absl::StatusOr<std::unique_ptr<OpenFolder>> Hold(
      const std::string& folder) override {
    FileDescriptor held = OpenFile(folder, O_PATH | O_DIRECTORY);
    if (!held.ok()) return LastError("open folder", folder);
    return std::make_unique<ProcFolder>(std::move(held));
  }

  absl::Status Touch(const std::string& path) override {
    if (utimensat(AT_FDCWD, path.c_str(), nullptr, 0) != 0) {
      return LastError("touch", path);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<FileLock>> TryLock(
      const std::string& path) override {
    return TryFlock(path, LOCK_EX);
  }

  absl::StatusOr<std::unique_ptr<FileLock>> TryShare(
      const std::string& path) override {
    return TryFlock(path, LOCK_SH);
  }

 private:
  // On NFS a lock for one holder takes a descriptor that may write (flock(2),
  // notes). Elsewhere an existing file on a read-only disk will do.
  static FileDescriptor OpenLockFile(const std::string& path, int kind) {
    if (kind == LOCK_EX) {
      FileDescriptor file = OpenFile(path, O_RDWR | O_CREAT);
      if (file.ok() || (errno != EACCES && errno != EROFS && errno != EPERM)) {
        return file;
      }
    }
    return OpenFile(path, O_RDONLY | O_CREAT);
  }

  static absl::StatusOr<std::unique_ptr<FileLock>> TryFlock(
      const std::string& path, int kind) {
    while (true) {
      FileDescriptor file = OpenLockFile(path, kind);
      if (!file.ok()) return LastError("open lock file", path);
      if (flock(file.get(), kind | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) return nullptr;
        if (errno == EINTR) continue;
        if (!MeansNoLocks(errno)) return LastError("lock", path);
        return std::make_unique<FlockLock>(std::move(file),
                                           /*excludes=*/false);
      }
      // The previous holder may have removed the file between open and flock.
      if (StillNamed(path, file.get())) {
        return std::make_unique<FlockLock>(std::move(file), /*excludes=*/true);
      }
    }
  }
};

}  // namespace

absl::Status CheckOnlyOwnerWrites(const FileInfo& info, std::string_view what,
                                  bool root_may_own, std::string_view mode) {
  if (info.owner != geteuid() && !(root_may_own && info.owner == 0)) {
    return absl::PermissionDeniedError(
        absl::StrCat(Absl(what), " belongs to user ", info.owner, ", expected ",
                     geteuid(), root_may_own ? " or 0" : ""));
  }
  if ((info.permissions & 022) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        Absl(what), " may be written by others (mode 0",
        absl::Hex(info.permissions >> 6 & 7),
        absl::Hex(info.permissions >> 3 & 7), absl::Hex(info.permissions & 7),
        "), expected ", Absl(mode)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAtMost(Files& files, const std::string& path,
                                       int64_t most) {
  ASSIGN_OR_RETURN(const int64_t bytes, files.Size(path));
  if (bytes > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected at most ", most, " bytes, got ", bytes));
  }
  return files.Read(path);
}

Files& Files::Real() {
  // Leaked on purpose: it has no state and outlives every user.
  static Files& files = *new RealFiles;
  return files;
}

}  // namespace stoker
