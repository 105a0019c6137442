#include "repository/config_pbtxt.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "repository/config_meaning.h"
#include "repository/model_folder.h"

namespace stoker {
namespace {

class ErrorList final : public google::protobuf::io::ErrorCollector {
 public:
  ErrorList(const std::string& path, std::vector<std::string>& errors)
      : path_(path), errors_(errors) {}
  void AddError(int line, int /*column*/, const std::string& text) override {
    errors_.push_back(
        absl::StrCat(path_, ":", std::max(line, 0) + 1, ": ", text));
  }

 private:
  const std::string& path_;
  std::vector<std::string>& errors_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const ConfigPbtxt>> ParsePbtxt(
    std::string_view text, const std::string& path) {
  auto file = std::make_unique<ConfigPbtxt>();
  file->path = path;
  ConfigNotes notes;
  ErrorList errors(path, notes.errors);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&file->places);
  if (!parser.ParseFromString(std::string(text), &file->config)) {
    if (notes.errors.empty()) errors.AddError(0, 0, "no model configuration");
    return notes.status();
  }
  return file;
}

absl::StatusOr<std::unique_ptr<const ConfigPbtxt>> ParseConfigJson(
    const std::string& text, const std::string& path) {
  if (text.size() > kMaxYamlBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected at most ", kMaxYamlBytes, " bytes, got ",
                     text.size()));
  }
  auto file = std::make_unique<ConfigPbtxt>();
  file->path = path;
  file->has_lines = false;
  google::protobuf::util::JsonParseOptions options;
  options.case_insensitive_enum_parsing = true;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(text, &file->config, options);
  if (parsed.ok()) return file;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a model configuration of Triton's as ",
                   "JSON: ", std::string(parsed.message())));
}

std::vector<std::string> ParameterKeys(const triton::ModelConfig& config) {
  const auto* const field =
      config.GetDescriptor()->FindFieldByName("parameters");
  const auto* const reflection = config.GetReflection();
  std::vector<std::string> keys;
  for (int i = 0; i < reflection->FieldSize(config, field); ++i) {
    const auto& entry = reflection->GetRepeatedMessage(config, field, i);
    keys.push_back(entry.GetReflection()->GetString(
        entry, entry.GetDescriptor()->FindFieldByNumber(1)));
  }
  return keys;
}

std::string PlaceText(const std::string& path, int line) {
  return line > 0 ? absl::StrCat(path, ":", line) : path;
}

absl::Status ConfigNotes::status() const {
  if (errors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors, "\n"));
}

int PbtxtMessage::LineOf(const std::string& field, int index) const {
  const auto* const descriptor =
      message_.GetDescriptor()->FindFieldByName(field);
  if (tree_ == nullptr || descriptor == nullptr) return line_;
  if (descriptor->is_repeated()) index = std::max(index, 0);
  const int line = tree_->GetLocation(descriptor, index).line;
  return line < 0 ? line_ : line + 1;
}

PbtxtMessage PbtxtMessage::Child(const std::string& field,
                                 const google::protobuf::Message& child,
                                 int index) const {
  const auto* const descriptor =
      message_.GetDescriptor()->FindFieldByName(field);
  const Tree* const tree =
      tree_ == nullptr
          ? nullptr
          : tree_->GetTreeForNested(descriptor, descriptor->is_repeated()
                                                    ? std::max(index, 0)
                                                    : -1);
  return PbtxtMessage(path_, child, tree, NameOf(field, index),
                      LineOf(field, index), notes_);
}

void PbtxtMessage::Refuse(const std::string& field, std::string_view expected,
                          std::string_view got, int index) const {
  notes_.errors.push_back(absl::StrCat(
      PlaceText(path_, LineOf(field, index)), ": ", NameOf(field, index),
      ": expected ", Absl(expected), ", got ", Absl(got)));
}

void PbtxtMessage::Ignore(const std::string& field, std::string_view why,
                          int index) const {
  notes_.ignored.push_back(absl::StrCat(PlaceText(path_, LineOf(field, index)),
                                        ": ", NameOf(field, index),
                                        " has no meaning here: ", Absl(why)));
}

void PbtxtMessage::CheckMeanings() const {
  std::vector<const google::protobuf::FieldDescriptor*> present;
  message_.GetReflection()->ListFields(message_, &present);
  for (const google::protobuf::FieldDescriptor* field : present) {
    const ConfigMeaning meaning =
        MeaningOf(message_.GetDescriptor()->name(), field->name());
    if (meaning.kind == ConfigMeaning::kIgnored) {
      Ignore(field->name(), meaning.why);
    } else if (meaning.kind == ConfigMeaning::kRefused) {
      Refuse(field->name(), "nothing", meaning.why);
    }
  }
}

std::string PbtxtMessage::NameOf(const std::string& field, int index) const {
  std::string name = absl::StrCat(name_, name_.empty() ? "" : ".", field);
  if (index >= 0) absl::StrAppend(&name, "[", index, "]");
  return name;
}

}  // namespace stoker
