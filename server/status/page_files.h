// The files of the status page, as the build read them: page.html, which is a
// template (status/page_template.h), page.css and page.js.
//
// Constant.
#pragma once

#include <string_view>

namespace stoker {

extern const std::string_view kPageHtml;
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace stoker
