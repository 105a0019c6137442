#include "status/page_template.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/absl_view.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

struct Tag {
  char kind = 0;  // '#', '^', '/', '{', or 0
  std::string_view name;
  size_t begin = 0;
  size_t end =
      0;  // of a section's tag alone on its line, the next line's begin
};

bool Shows(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

class Filler {
 public:
  Filler(std::string_view page, const Json& values) : page_(page) {
    scopes_.push_back(&values);
  }

  absl::StatusOr<std::string> Fill() {
    RETURN_IF_ERROR(Part("", /*shown=*/true));
    return std::move(out_);
  }

 private:
  // From at_ to the end of the section of that name, or of the page for "".
  absl::Status Part(std::string_view section, bool shown) {
    while (const std::optional<Tag> tag = NextTag()) {
      if (shown) out_.append(page_.substr(at_, tag->begin - at_));
      at_ = tag->end;
      if (tag->kind == '/') {
        if (tag->name == section) return absl::OkStatus();
        return Mistake(tag->name, "is closed, but not open");
      }
      RETURN_IF_ERROR(tag->kind == '#' || tag->kind == '^'
                          ? Section(*tag, shown)
                          : Value(*tag, shown));
    }
    if (!section.empty()) return Mistake(section, "is not closed");
    if (shown) out_.append(page_.substr(at_));
    return absl::OkStatus();
  }

  absl::Status Value(const Tag& tag, bool shown) {
    if (!shown) return absl::OkStatus();
    const Json* const value = Find(tag.name);
    if (value == nullptr || !value->is_string()) {
      return Mistake(tag.name, "is no text");
    }
    const auto& text = value->get_ref<const std::string&>();
    out_ += tag.kind == '{' ? text : EscapeHtml(text);
    return absl::OkStatus();
  }

  absl::Status Section(const Tag& tag, bool shown) {
    const Json* const value = shown ? Find(tag.name) : nullptr;
    if (shown && value == nullptr) return Mistake(tag.name, "has no value");
    const bool shows = shown && Shows(*value);
    if (tag.kind == '^' || !shows) {
      return Part(tag.name, shown && tag.kind == '^' && !shows);
    }
    if (!value->is_array()) return Within(*value, tag.name);
    const size_t begin = at_;
    for (const Json& element : *value) {
      at_ = begin;
      RETURN_IF_ERROR(Within(element, tag.name));
    }
    return absl::OkStatus();
  }

  absl::Status Within(const Json& scope, std::string_view section) {
    scopes_.push_back(&scope);
    const absl::Status status = Part(section, /*shown=*/true);
    scopes_.pop_back();
    return status;
  }

  const Json* Find(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (!(*scope)->is_object()) continue;
      const auto found = (*scope)->find(std::string(name));
      if (found != (*scope)->end()) return &*found;
    }
    return nullptr;
  }

  std::optional<Tag> NextTag() const {
    Tag tag;
    tag.begin = page_.find("{{", at_);
    if (tag.begin == page_.npos) return std::nullopt;
    size_t name = tag.begin + 2;
    const char first = name < page_.size() ? page_[name] : '\0';
    if (first == '#' || first == '^' || first == '/' || first == '{') {
      tag.kind = first;
      ++name;
    }
    const std::string_view close = first == '{' ? "}}}" : "}}";
    const size_t end = page_.find(close, name);
    if (end == page_.npos) return std::nullopt;
    tag.name = page_.substr(name, end - name);
    tag.end = end + close.size();
    const bool alone = (tag.begin == 0 || page_[tag.begin - 1] == '\n') &&
                       tag.end < page_.size() && page_[tag.end] == '\n';
    if (alone && tag.kind != 0 && tag.kind != '{') ++tag.end;
    return tag;
  }

  static absl::Status Mistake(std::string_view name, std::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("template: '", Absl(name), "' ", Absl(what)));
  }

  const std::string_view page_;
  size_t at_ = 0;
  std::string out_;
  std::vector<const Json*> scopes_;  // the innermost last
};

}  // namespace

absl::StatusOr<std::string> FillTemplate(std::string_view page,
                                         const Json& values) {
  return Filler(page, values).Fill();
}

std::string EscapeHtml(std::string_view text) {
  return absl::StrReplaceAll(ValidUtf8(text), {{"&", "&amp;"},
                                               {"<", "&lt;"},
                                               {">", "&gt;"},
                                               {"\"", "&quot;"},
                                               {"'", "&#39;"}});
}

}  // namespace stoker
