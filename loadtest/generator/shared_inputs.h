// The inputs of a load test's requests in POSIX shared memory: one file, in
// which they lie one after the other. Removed in the end.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "open_inference.pb.h"

namespace stoker::loadtest {

class SharedInputs {
 public:
  // An empty file of a name that nobody else has.
  static absl::StatusOr<std::unique_ptr<SharedInputs>> Make();
  ~SharedInputs();
  SharedInputs(const SharedInputs&) = delete;
  SharedInputs& operator=(const SharedInputs&) = delete;

  // Writes the request's raw contents to the file, and leaves in the request
  // where they are.
  absl::Status Move(inference::ModelInferRequest& request);

  // What the server is to register, under the name kRegion.
  static constexpr char kRegion[] = "stoker-loadtest";
  const std::string& key() const { return key_; }
  uint64_t size() const { return size_; }

 private:
  SharedInputs(std::string key, FileDescriptor file)
      : key_(std::move(key)), file_(std::move(file)) {}

  const std::string key_;
  const FileDescriptor file_;
  uint64_t size_ = 0;
};

}  // namespace stoker::loadtest
