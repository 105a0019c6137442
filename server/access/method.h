// The methods that a server offers, by the groups in which a policy grants
// them.
//
// Thread-safe: values and functions.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace stoker {

enum class MethodGroup {
  kHealth,
  kMetadata,
  kInfer,
  kControl,
  kStatistics,
  kSharedMemory,
  kTrace,
  kMetrics,
};
inline constexpr size_t kMethodGroups = 8;

// "shared_memory"; in the order of the enumeration.
const std::array<std::string, kMethodGroups>& MethodGroupNames();
const std::string& NameOf(MethodGroup group);

struct Method {
  std::string_view path;  // "/inference.GRPCInferenceService/ModelInfer"
  MethodGroup group;
  // Whether it changes the server: each of its calls is worth a line of the
  // log.
  bool changes = false;
  // Whether its calls stay open for as long as the client likes: they are asked
  // about again and again.
  bool stays_open = false;

  // Whether it is a page of the metrics port, and no method of the others.
  bool is_page() const;
  // "ModelInfer"; of a page its path: "/metrics".
  std::string_view name() const;
};

// All of them; those of the metrics port are its paths.
absl::Span<const Method> AllMethods();

// By its path; or, for people, by its name. Null: there is no such method. A
// page has no name but its path.
const Method* FindMethod(std::string_view path);
const Method* FindMethodNamed(std::string_view name);

}  // namespace stoker
