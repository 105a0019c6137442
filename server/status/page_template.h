// Fills a page's template with values. A part of Mustache, and no more of it
// than the page needs:
//
//   {{name}}                the value as text, escaped
//   {{{name}}}              the value as it is: only for what the build put in
//   {{#name}}...{{/name}}   once for each element of a list, whose fields hide
//                           those outside; once for an object that has fields;
//                           once for another value that is neither false nor an
//                           empty text
//   {{^name}}...{{/name}}   where the above would show nothing
//
// A line that holds only the beginning or the end of a section leaves no trace.
//
// A pure function.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace stoker {

// Values are texts, booleans, lists and objects. INVALID_ARGUMENT, with the
// name, for a name that has no value, a text that is none, and a section that
// isn't closed: mistakes in the template.
absl::StatusOr<std::string> FillTemplate(std::string_view page,
                                         const nlohmann::json& values);

// For HTML's text and attributes. Bytes that are no UTF-8 are replaced.
std::string EscapeHtml(std::string_view text);

}  // namespace stoker
