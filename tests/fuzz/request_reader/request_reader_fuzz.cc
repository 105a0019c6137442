#include "tests/fuzz/request_reader/request_reader_fuzz.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "rpc/request_reader.h"

namespace stoker {
namespace {

using inference::ModelInferRequest;

void Hold(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// Bit for bit, maps in order; without the fields that nobody knows.
std::string Canonical(ModelInferRequest& request) {
  request.DiscardUnknownFields();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    request.SerializeToCodedStream(&out);
  }
  return bytes;
}

std::string Content(const RawContents& raw) {
  if (raw.scattered == nullptr) {
    return std::string(reinterpret_cast<const char*>(raw.data), raw.size);
  }
  std::string content(raw.size, '\0');
  raw.scattered->CopyTo(raw.offset, raw.size,
                        reinterpret_cast<std::byte*>(content.data()));
  return content;
}

ModelInferRequest ToMessage(const RequestView& view) {
  ModelInferRequest request;
  request.set_model_name(std::string(view.model_name));
  request.set_model_version(std::string(view.model_version));
  request.set_id(std::string(view.id));
  if (view.parameters != nullptr) {
    *request.mutable_parameters() = *view.parameters;
  }
  for (const RequestView::Input& input : view.inputs) {
    auto* out = request.add_inputs();
    out->set_name(std::string(input.name));
    out->set_datatype(std::string(input.datatype));
    out->mutable_shape()->Add(input.shape.begin(), input.shape.end());
    if (input.parameters != nullptr) {
      *out->mutable_parameters() = *input.parameters;
    }
    if (input.contents != nullptr) *out->mutable_contents() = *input.contents;
  }
  for (const RequestView::Output& output : view.outputs) {
    auto* out = request.add_outputs();
    out->set_name(std::string(output.name));
    if (output.parameters != nullptr) {
      *out->mutable_parameters() = *output.parameters;
    }
  }
  for (const RawContents& raw : view.raw_input_contents) {
    request.add_raw_input_contents(Content(raw));
  }
  return request;
}

Reading Check(const ByteChain& buffer, size_t size,
              const std::optional<std::string>& expected) {
  RequestReader reader(buffer);
  reader.Scan();
  const size_t left = reader.bytes_to_parse();
  if (left > 0 && !reader.Parse()) {
    Hold(!expected.has_value(), "generated code takes what was refused");
    return Reading::kRefused;
  }
  Hold(expected.has_value(), "generated code refuses what was taken");
  ModelInferRequest got = ToMessage(reader.view());
  Hold(Canonical(got) == *expected, "generated code reads other values");
  Hold(reader.parsed_memory() <= reader.parse_limit(),
       "parsing took more memory than it may");
  if (left == 0) return Reading::kInPlace;
  return left < size ? Reading::kPartlyParsed : Reading::kParsed;
}

// Cuts are drawn from the content, so that a failure repeats. The slices show
// `bytes`: gRPC puts small ones together when it may copy them.
ByteChain Cut(const std::string& bytes, std::mt19937& random) {
  const size_t longest = size_t{1} << (random() % 8);
  ByteChain slices;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size =
        std::min<size_t>(random() % (longest + 1), bytes.size() - at);
    slices.Append(
        {nullptr, reinterpret_cast<const std::byte*>(bytes.data() + at), size});
    at += size;
  }
  return slices;
}

}  // namespace

Reading FuzzRequestReader(const uint8_t* data, size_t size) {
  // Both parsers complain about each text that is no UTF-8.
  static const bool quiet = [] {
    google::protobuf::SetLogHandler(nullptr);
    return true;
  }();
  static_cast<void>(quiet);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  std::optional<std::string> expected;
  if (ModelInferRequest request; request.ParseFromString(bytes)) {
    expected = Canonical(request);
  }
  const ByteChain whole = ByteChain::Copy(bytes);
  const Reading reading = Check(whole, size, expected);
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(bytes)));
  for (int i = 0; i < 2; ++i) {
    Check(Cut(bytes, random), size, expected);
  }
  return reading;
}

}  // namespace stoker
