// Values of an inference request's JSON, as simdjson finds them: for
// rpc/json_request.cc alone.
//
// Not thread-safe.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "rpc/append_bytes_element.h"
#include "rpc/json_elements.h"
#include "rpc/json_request.h"

namespace stoker {

namespace ondemand = simdjson::ondemand;

template <typename... Parts>
absl::Status BadJson(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

inline absl::Status Malformed(simdjson::error_code error) {
  return BadJson("failed to parse the request JSON buffer: ",
                 simdjson::error_message(error));
}

#define STOKER_RETURN_IF_MALFORMED(call)                                    \
  do {                                                                      \
    if (const simdjson::error_code error = (call)) return Malformed(error); \
  } while (false)

// A value's own text, without what is between it and the next.
inline std::string_view TextOf(ondemand::value& value) {
  std::string_view text = value.raw_json_token();
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') {
    text.remove_suffix(1);
  }
  return text;
}

// Data may be nested as its shape is; deeper it says nothing.
inline absl::Status CheckNesting(const JsonRequest::Entry& entry, int depth) {
  constexpr int kMaxNesting = 32;
  if (depth <= kMaxNesting) return absl::OkStatus();
  return BadJson("Unable to parse 'data' of input '", Excerpt(entry.name),
                 "': expected arrays nested at most ", kMaxNesting, " deep");
}

// Calls `take` with each element and its text, of arrays that may be nested.
// `depth`: of the outermost one.
template <typename Take>
absl::Status ForEachElement(const JsonRequest::Entry& entry,
                            ondemand::array array, int depth, Take& take) {
  RETURN_IF_ERROR(CheckNesting(entry, depth));
  for (auto found : array) {
    ondemand::value element;
    STOKER_RETURN_IF_MALFORMED(std::move(found).get(element));
    const std::string_view text = TextOf(element);
    if (!text.empty() && text.front() == '[') {
      ondemand::array inner;
      STOKER_RETURN_IF_MALFORMED(element.get_array().get(inner));
      RETURN_IF_ERROR(ForEachElement(entry, inner, depth + 1, take));
      continue;
    }
    RETURN_IF_ERROR(take(element, text));
  }
  return absl::OkStatus();
}

// Elements of BYTES, each behind its length.
inline absl::Status ReadTexts(const JsonRequest::Entry& entry,
                              ondemand::array array, int depth,
                              std::string& bytes) {
  const auto append = [&](ondemand::value& element,
                          std::string_view text) -> absl::Status {
    if (text.empty() || text.front() != '"') {
      return BadJson("Unable to parse 'data' of input '", Excerpt(entry.name),
                     "': expected strings, got ", Excerpt(text, 40));
    }
    std::string_view unescaped;
    STOKER_RETURN_IF_MALFORMED(element.get_string().get(unescaped));
    AppendBytesElement(unescaped, bytes);
    return absl::OkStatus();
  };
  return ForEachElement(entry, array, depth, append);
}

// Elements of one type, from arrays that may be nested, into memory that has
// room for so many.
template <typename T>
class Elements {
 public:
  Elements(const JsonRequest::Entry& entry, std::byte* out, size_t room)
      : entry_(entry), out_(out), room_(room) {}

  absl::Status Read(ondemand::array array, int depth) {
    const auto append = [this](ondemand::value& /*element*/,
                               std::string_view text) -> absl::Status {
      if (count_ == room_) return TooMany();
      T number;
      if (!ReadElement(text, number)) return Wrong(text);
      std::memcpy(out_ + count_ * sizeof(T), &number, sizeof(T));
      ++count_;
      return absl::OkStatus();
    };
    return ForEachElement(entry_, array, depth, append);
  }

  size_t count() const { return count_; }

 private:
  absl::Status TooMany() const {
    return BadJson("Shape does not match true shape of 'data' field of input '",
                   Excerpt(entry_.name), "': expected ", room_,
                   " elements, got more");
  }
  absl::Status Wrong(std::string_view text) const {
    return BadJson("Unable to parse 'data' of input '", Excerpt(entry_.name),
                   "': element ", count_, " is ", Excerpt(text, 40),
                   ", expected ", entry_.datatype);
  }

  const JsonRequest::Entry& entry_;
  std::byte* const out_;
  const size_t room_;
  size_t count_ = 0;
};

}  // namespace stoker
