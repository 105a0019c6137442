// Reads a serialised inference.ModelInferRequest where it lies. Generated code
// would copy each tensor into a string of its own, which for a 600 KB request
// costs more than everything else that is done with it.
//
// Two steps, so that the caller can decide in between whether it can afford the
// second: Scan finds the few fields that every request has and allocates next
// to nothing. What is left to generated code (parameters, typed contents, and a
// message that is not in the usual form as a whole) is read by Parse. Together
// they accept exactly what generated code accepts, with the same result: see
// tests/fuzz/request_reader.
//
// Not thread-safe while it reads; any thread may look at the view afterwards.
#pragma once

#include <google/protobuf/arena.h>

#include <cstdint>
#include <forward_list>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "open_inference.pb.h"
#include "rpc/message_bytes.h"
#include "rpc/request_parameters.h"
#include "tensor/tensor.h"
#include "wire/byte_chain.h"

namespace stoker {

// A `bytes` field: its content in one piece, or where it lies in the message.
struct RawContents {
  size_t size = 0;
  const std::byte* data = nullptr;          // null when scattered
  const MessageBytes* scattered = nullptr;  // null when in one piece
  size_t offset = 0;                        // in `scattered`
};

// The fields of a ModelInferRequest. Views of the bytes that were read.
struct RequestView {
  struct Input {
    std::string_view name;
    std::string_view datatype;
    Shape shape;
    const ParameterMap* parameters = nullptr;                  // null: none
    const inference::InferTensorContents* contents = nullptr;  // null: absent
  };
  struct Output {
    std::string_view name;
    const ParameterMap* parameters = nullptr;
  };
  std::string_view model_name;
  std::string_view model_version;
  std::string_view id;
  const ParameterMap* parameters = nullptr;
  absl::InlinedVector<Input, 4> inputs;
  absl::InlinedVector<Output, 4> outputs;
  absl::InlinedVector<RawContents, 4> raw_input_contents;
};

class RequestReader {
 public:
  explicit RequestReader(const ByteChain& message) : bytes_(message) {}
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Call once, first.
  void Scan();
  // How many bytes are left for Parse; 0: the view is complete.
  size_t bytes_to_parse() const { return bytes_to_parse_; }
  // More parts than anybody has a use for: not to be parsed.
  bool has_too_many_fields() const { return too_many_fields_; }
  static constexpr int kMaxFields = 1 << 16;
  // The most memory that Parse may take of these.
  size_t parse_limit() const {
    return bytes_to_parse_ == 0
               ? 0
               : kArenaBlock + kMaxExpansion * bytes_to_parse_ +
                     kPerRest * rests_.size();
  }
  // Call once, unless there is nothing to parse. False: the bytes are no
  // ModelInferRequest.
  bool Parse();

  // What it shows is there until Release.
  const RequestView& view() const { return view_; }
  void Release() {
    bytes_.Release();
    joined_.clear();
    arena_.reset();
  }
  const MessageBytes& bytes() const { return bytes_; }
  // Memory that Parse took, rather more than less: texts and tensors lie
  // outside of the arena, with up to as much again in reserve.
  size_t parsed_memory() const {
    return arena_.has_value() ? arena_->SpaceAllocated() + 2 * bytes_to_parse_
                              : 0;
  }

  // Of texts that lay in two slices and so were copied by Scan.
  size_t joined_bytes() const {
    return std::accumulate(
        joined_.begin(), joined_.end(), size_t{0},
        [](size_t sum, const std::string& text) { return sum + text.size(); });
  }

 private:
  class Scanner;

  // The largest block of an arena: of the last one little may be used.
  static constexpr size_t kArenaBlock = 8192;
  // Per byte that is parsed: an empty input is two on the wire.
  static constexpr size_t kMaxExpansion = 160;
  // A field that is left over gets a message of its own to be read into.
  static constexpr size_t kPerRest = 512;

  // A field that is left to generated code, its tag included.
  struct Rest {
    enum class Of { kRequest, kInput, kOutput };
    Of of;
    size_t index;  // of the input or output
    size_t offset;
    size_t size;
  };

  bool Merge(const Rest& rest, int depth,
             google::protobuf::Message& message) const;
  bool ParseRests();
  bool ParseAll();

  MessageBytes bytes_;
  bool usual_ = false;
  bool too_many_fields_ = false;
  size_t bytes_to_parse_ = 0;
  absl::InlinedVector<Rest, 2> rests_;
  std::forward_list<std::string> joined_;  // texts that lay in two slices
  std::optional<google::protobuf::Arena> arena_;
  RequestView view_;
};

}  // namespace stoker
