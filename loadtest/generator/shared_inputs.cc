#include "loadtest/generator/shared_inputs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/errno_status.h"
#include "base/status_macros.h"

namespace stoker::loadtest {
namespace {

constexpr uint64_t kAlignment = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<SharedInputs>> SharedInputs::Make() {
  for (int number = 0;; ++number) {
    std::string key = absl::StrCat("/stoker-loadtest-", getpid(), "-", number);
    stoker::FileDescriptor file(
        shm_open(key.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
    if (file.ok()) {
      return std::unique_ptr<SharedInputs>(
          new SharedInputs(std::move(key), std::move(file)));
    }
    if (errno != EEXIST) return ErrnoStatus(errno, "shm_open " + key);
  }
}

SharedInputs::~SharedInputs() { shm_unlink(key_.c_str()); }

absl::Status SharedInputs::Move(inference::ModelInferRequest& request) {
  for (int i = 0; i < request.inputs_size(); ++i) {
    const std::string& bytes = request.raw_input_contents(i);
    const uint64_t begin = (size_ + kAlignment - 1) / kAlignment * kAlignment;
    if (ftruncate(file_.get(), static_cast<off_t>(begin)) != 0) {
      return ErrnoStatus(errno, "ftruncate " + key_);
    }
    if (lseek(file_.get(), 0, SEEK_END) < 0) {
      return ErrnoStatus(errno, "lseek " + key_);
    }
    RETURN_IF_ERROR(WriteAll(file_.get(), bytes, key_));
    size_ = begin + bytes.size();
    auto& parameters = *request.mutable_inputs(i)->mutable_parameters();
    parameters["shared_memory_region"].set_string_param(kRegion);
    parameters["shared_memory_offset"].set_int64_param(
        static_cast<int64_t>(begin));
    parameters["shared_memory_byte_size"].set_int64_param(
        static_cast<int64_t>(bytes.size()));
  }
  request.clear_raw_input_contents();
  return absl::OkStatus();
}

}  // namespace stoker::loadtest
