#include "rpc/http_form.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "repository/model_spec.h"
#include "rpc/http_answer.h"
#include "rpc/json_answer.h"
#include "wire/deflater.h"

namespace stoker {
namespace {

// What is read, and copied together, without another thread: less than a
// millisecond of work.
constexpr size_t kQuickJson = 32 << 10;
constexpr size_t kQuickBody = 1 << 20;

// Of an output besides its elements: names, shape, punctuation.
constexpr size_t kPerOutput = 512;

}  // namespace

HttpForm::HttpForm(const ByteChain& body, std::string model,
                   std::string version, std::optional<size_t> json_size,
                   Encoding coding)
    : bytes_(body),
      model_(std::move(model)),
      version_(std::move(version)),
      json_size_(json_size.value_or(body.size())),
      has_binary_(json_size.has_value()),
      coding_(coding) {}

absl::Status HttpForm::Scan() {
  if (json_size_ <= bytes_.size()) return absl::OkStatus();
  const size_t claimed = std::exchange(json_size_, 0);
  return absl::InvalidArgumentError(absl::StrCat(
      "invalid header length ", claimed,
      " in Inference-Header-Content-Length, expected at most the body's ",
      bytes_.size()));
}

bool HttpForm::TakesLong() const {
  return json_size_ > kQuickJson ||
         (bytes_.size() > kQuickBody &&
          bytes_.Contiguous(0, bytes_.size()) == nullptr);
}

// In place where enough follows it in the same piece.
std::string_view HttpForm::Text(std::string& copy) const {
  if (json_size_ + kJsonPadding <= bytes_.size()) {
    if (const std::byte* whole =
            bytes_.Contiguous(0, json_size_ + kJsonPadding)) {
      return {reinterpret_cast<const char*>(whole), json_size_};
    }
  }
  copy.resize(json_size_ + kJsonPadding);
  bytes_.CopyTo(0, json_size_, reinterpret_cast<std::byte*>(copy.data()));
  return std::string_view(copy).substr(0, json_size_);
}

absl::Status HttpForm::Parse() {
  std::string copy;
  RETURN_IF_ERROR(ReadJsonRequest(Text(copy), json_));
  view_.model_name = model_;
  view_.model_version = version_;
  view_.id = json_.id;
  if (!json_.parameters.empty()) view_.parameters = &json_.parameters;
  binary_outputs_ = json_.binary_outputs;
  for (const JsonRequest::Entry& entry : json_.outputs) {
    view_.outputs.push_back(
        {entry.name, entry.parameters.empty() ? nullptr : &entry.parameters});
    places_.push_back(entry.shared_memory                      ? Place::kShared
                      : entry.binary.value_or(binary_outputs_) ? Place::kBinary
                                                               : Place::kJson);
  }
  return FindElements();
}

absl::Status HttpForm::FindElements() {
  size_t offset = json_size_;
  for (const JsonRequest::Entry& entry : json_.inputs) {
    view_.inputs.push_back(
        {entry.name, entry.datatype, entry.shape,
         entry.parameters.empty() ? nullptr : &entry.parameters});
    const int places = int{entry.shared_memory} + int{entry.data.has_value()} +
                       int{entry.binary_size.has_value()};
    if (places != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          places == 0 ? "unable to find data for input tensor '"
                      : "expected one place of the data of input tensor '",
          Excerpt(entry.name), "' for model '", Excerpt(model_),
          "' in request."));
    }
    if (entry.shared_memory) continue;
    RawContents& raw = view_.raw_input_contents.emplace_back();
    if (entry.data.has_value()) {
      raw.size = entry.data_size;
      raw.data = entry.data->data();
      continue;
    }
    raw.size = *entry.binary_size;
    if (!has_binary_ || raw.size > bytes_.size() - offset) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected binary_data_size ", raw.size, " of input '",
          Excerpt(entry.name), "' for model '", Excerpt(model_), "', got ",
          has_binary_ ? bytes_.size() - offset : 0, " bytes behind the JSON",
          has_binary_ ? ""
                      : " (the header Inference-Header-Content-Length says "
                        "where that ends)"));
    }
    raw.data = bytes_.Contiguous(offset, raw.size);
    if (raw.data == nullptr) {
      raw.scattered = &bytes_;
      raw.offset = offset;
    }
    offset += raw.size;
  }
  if (offset == bytes_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "unexpected additional input data for model '", Excerpt(model_),
      "': ", bytes_.size() - offset, " bytes behind the last input's"));
}

void HttpForm::Release() {
  bytes_.Release();
  json_.inputs.clear();
  json_.outputs.clear();
}

HttpForm::Place HttpForm::PlaceOf(size_t position) const {
  if (position < places_.size()) return places_[position];
  return binary_outputs_ ? Place::kBinary : Place::kJson;
}

size_t HttpForm::AnswerLimit(absl::Span<const int> outputs,
                             absl::Span<const Tensor> tensors) const {
  size_t size = 0;
  size_t binary = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& tensor = tensors[static_cast<size_t>(outputs[i])];
    size += kPerOutput;
    if (PlaceOf(i) == Place::kJson) size += JsonLimit(tensor);
    if (PlaceOf(i) == Place::kBinary) binary += tensor.byte_size;
  }
  // Compressed, it is there twice.
  return coding_ == Encoding::kIdentity ? size : 2 * (size + binary);
}

absl::Status HttpForm::Write(const ModelSpec& spec, std::string_view id,
                             absl::Span<const int> outputs,
                             absl::Span<const Tensor> tensors,
                             ByteChain& message) {
  JsonAnswer answer(spec, id);
  std::vector<const Tensor*> behind;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto index = static_cast<size_t>(outputs[i]);
    const Tensor& tensor = tensors[index];
    const Place place = PlaceOf(i);
    answer.BeginOutput(spec.outputs[index].name, tensor);
    if (place == Place::kJson) {
      RETURN_IF_ERROR(answer.AddElements(spec.outputs[index].name, tensor));
    } else if (place == Place::kBinary) {
      answer.AddBinarySize(tensor.byte_size);
      behind.push_back(&tensor);
    }
    answer.EndOutput();
  }
  const std::string json = answer.Take();
  message.Append(ByteChain::Copy(json).slices().front());
  if (!behind.empty()) answer_json_size_ = json.size();
  for (const Tensor* tensor : behind) AppendTensor(*tensor, message);
  if (coding_ != Encoding::kIdentity && message.size() >= kLeastDeflated &&
      Deflate(coding_, message)) {
    answer_coding_ = coding_;
  }
  return absl::OkStatus();
}

}  // namespace stoker
