#include "planning/request_samples.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

constexpr char kSizes[] = "sizes";

absl::Status BadSamples(const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("recorded requests: expected ", what));
}

// SplitMix64 (Steele, Lea and Flood, 2014): every number its own draw.
uint64_t Mixed(uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

Tensor Copied(const Tensor& tensor) {
  const Buffer buffer(tensor.byte_size);
  if (tensor.byte_size > 0) {
    std::memcpy(buffer.data(), tensor.data, tensor.byte_size);
  }
  Tensor copy = tensor;
  copy.data = buffer.data();
  copy.owner = buffer.share();
  return copy;
}

}  // namespace

RequestSamples::RequestSamples(size_t most, std::vector<SampledRequest> kept)
    : most_(std::min(most, kMost)), kept_(std::move(kept)) {
  kept_.resize(std::min(kept_.size(), most_));
  seen_ = kept_.size();
}

bool RequestSamples::Draw() {
  if (most_ == 0) return false;
  const uint64_t before = seen_.fetch_add(1, std::memory_order_relaxed);
  return Mixed(before) % (before + 1) < most_;
}

void RequestSamples::Keep(const DimensionSizes& sizes,
                          absl::Span<const std::string> names,
                          absl::Span<const Tensor> inputs) {
  size_t bytes = 0;
  for (const Tensor& input : inputs) bytes += input.byte_size;
  if (bytes > kMaxBytes) return;
  SampledRequest request{sizes, {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    request.inputs.emplace(names[i], Copied(inputs[i]));
  }
  absl::MutexLock lock(&mu_);
  ++changes_;
  if (kept_.size() < most_) {
    kept_.push_back(std::move(request));
  } else {
    kept_[Mixed(~changes_) % most_] = std::move(request);
  }
}

std::vector<SampledRequest> RequestSamples::Read() const {
  absl::MutexLock lock(&mu_);
  return kept_;
}

uint64_t RequestSamples::changes() const {
  absl::MutexLock lock(&mu_);
  return changes_;
}

absl::StatusOr<std::string> SamplesToBytes(
    const std::vector<SampledRequest>& samples) {
  NamedTensors tensors;
  for (size_t i = 0; i < samples.size(); ++i) {
    const SampledRequest& sample = samples[i];
    Tensor sizes;  // `samples` owns its bytes
    sizes.dtype = DataType::kInt64;
    sizes.shape = {static_cast<int64_t>(sample.sizes.size())};
    sizes.data = reinterpret_cast<const std::byte*>(sample.sizes.data());
    sizes.byte_size = sample.sizes.size() * sizeof(int64_t);
    tensors.emplace(absl::StrFormat("%d/%s", i, kSizes), sizes);
    for (const auto& [name, tensor] : sample.inputs) {
      tensors.emplace(absl::StrFormat("%d/input.%s", i, name), tensor);
    }
  }
  return TensorFileBytes(tensors);
}

absl::StatusOr<std::vector<SampledRequest>> ParseSamples(
    const std::string& bytes) {
  ASSIGN_OR_RETURN(const NamedTensors tensors, ParseTensorFile(bytes));
  std::vector<SampledRequest> samples(RequestSamples::kMost);
  size_t count = 0;
  for (const auto& [name, tensor] : tensors) {
    const size_t slash = name.find('/');
    size_t number = 0;
    if (slash == std::string::npos ||
        !absl::SimpleAtoi(name.substr(0, slash), &number) ||
        number >= samples.size()) {
      return BadSamples(absl::StrCat("NUMBER/input.NAME, got ", name));
    }
    count = std::max(count, number + 1);
    const std::string field = name.substr(slash + 1);
    SampledRequest& sample = samples[number];
    if (field == kSizes) {
      if (tensor.dtype != DataType::kInt64 || tensor.shape.size() != 1) {
        return BadSamples(absl::StrCat("a list of sizes in ", name));
      }
      sample.sizes.resize(static_cast<size_t>(tensor.shape[0]));
      if (tensor.byte_size > 0) {
        std::memcpy(sample.sizes.data(), tensor.data, tensor.byte_size);
      }
    } else if (field.starts_with("input.")) {
      sample.inputs.emplace(field.substr(6), tensor);
    } else {
      return BadSamples(absl::StrCat("NUMBER/input.NAME, got ", name));
    }
  }
  samples.resize(count);
  return samples;
}

}  // namespace stoker
