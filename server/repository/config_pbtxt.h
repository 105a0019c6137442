// A config.pbtxt of Triton's as protobuf's text format reads it, with the line
// that each field stands on. Private to this room.
//
// Not thread-safe. A PbtxtMessage borrows its message, its tree and its notes.
#pragma once

#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model_config.pb.h"

namespace stoker {

struct ConfigPbtxt {
  std::string path;
  triton::ModelConfig config;
  google::protobuf::TextFormat::ParseInfoTree places;
  bool has_lines = true;
};

// "<path>:<line>"; 0 is no line.
std::string PlaceText(const std::string& path, int line);

// INVALID_ARGUMENT, with path and line, for what is no ModelConfig.
absl::StatusOr<std::unique_ptr<const ConfigPbtxt>> ParsePbtxt(
    std::string_view text, const std::string& path);

// The same of JSON, without lines; of at most kMaxYamlBytes.
absl::StatusOr<std::unique_ptr<const ConfigPbtxt>> ParseConfigJson(
    const std::string& text, const std::string& path);

// Keys of its parameters in the order written, which a look by key would lose.
std::vector<std::string> ParameterKeys(const triton::ModelConfig& config);

// What is found on the way.
struct ConfigNotes {
  // "<path>:<line>: <field>: expected <expected>, got <got>"; without the line
  // where there are none
  std::vector<std::string> errors;
  // "<path>:<line>: <field> has no meaning here: <why>"
  std::vector<std::string> ignored;

  // INVALID_ARGUMENT, one mistake a line; OK without any.
  absl::Status status() const;
};

// One message of it. Where a field is repeated, `index` says which element is
// meant.
class PbtxtMessage {
 public:
  PbtxtMessage(const ConfigPbtxt& file, ConfigNotes& notes)
      : PbtxtMessage(file.path, file.config,
                     file.has_lines ? &file.places : nullptr, "",
                     file.has_lines ? 1 : 0, notes) {}

  // Where the field stands; where this message does, when it isn't there.
  int LineOf(const std::string& field, int index = -1) const;
  // A message that is in this one.
  PbtxtMessage Child(const std::string& field,
                     const google::protobuf::Message& child,
                     int index = -1) const;
  const google::protobuf::Message& message() const { return message_; }
  int line() const { return line_; }

  void Refuse(const std::string& field, std::string_view expected,
              std::string_view got, int index = -1) const;
  void Ignore(const std::string& field, std::string_view why,
              int index = -1) const;
  // Notes those of its own fields that have no meaning here, or that can't be
  // honoured (repository/config_meaning.h).
  void CheckMeanings() const;

 private:
  using Tree = google::protobuf::TextFormat::ParseInfoTree;
  PbtxtMessage(const std::string& path,
               const google::protobuf::Message& message, const Tree* tree,
               std::string name, int line, ConfigNotes& notes)
      : path_(path),
        message_(message),
        tree_(tree),
        name_(std::move(name)),
        line_(line),
        notes_(notes) {}
  std::string NameOf(const std::string& field, int index) const;

  const std::string& path_;
  const google::protobuf::Message& message_;
  const Tree* tree_;  // null: nobody knows
  const std::string name_;
  const int line_;
  ConfigNotes& notes_;
};

}  // namespace stoker
