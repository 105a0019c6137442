// What is known about artifacts and about models, in small files that are
// replaced whole: notes, each beside one artifact under a name of its writer's
// choosing (a verdict on it, say), and records of a model (its traffic). What
// the files say, and what they are called, is their writers' business.
//
// Facts of layers are read where the root has none of that name, in the layers'
// order; everything is written to the root. Of several daemons on one root the
// last writer's stays.
//
// Thread-safe. No I/O under a mutex.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernel_cache/artifact_key.h"
#include "kernel_cache/cache_root.h"

namespace stoker {

// One kind of what is recorded about models.
struct RecordKind {
  std::string_view name;    // "traffic", for messages
  std::string_view suffix;  // ".json": of the file's name, after the model's
  int64_t max_bytes = 0;    // a larger one is not read
  // False: of the root alone; nobody's layer should bring one.
  bool from_layers = false;
};

class FactStore {
 public:
  // `root` outlives this object.
  explicit FactStore(CacheRoot& root) : root_(root) {}
  FactStore(const FactStore&) = delete;
  FactStore& operator=(const FactStore&) = delete;

  // Names of notes: [a-z0-9._-]+, not starting with a dot; others are
  // INVALID_ARGUMENT, as is an empty key. UNAVAILABLE when the root can't be
  // written.
  absl::Status WriteNote(const ArtifactKey& key, std::string_view name,
                         std::string_view bytes);
  // Of the first layer that has it.
  std::optional<std::string> ReadNote(const ArtifactKey& key,
                                      std::string_view name) const;
  absl::Status RemoveNote(const ArtifactKey& key, std::string_view name);
  // Over all layers, sorted.
  std::vector<std::string> NoteNames(const ArtifactKey& key) const;
  // All of the root's: they go with the artifact that they were about.
  absl::Status RemoveNotes(const ArtifactKey& key);

  // By the model's name: letters, digits, '_', '-' and '.'; others are
  // INVALID_ARGUMENT.
  absl::Status WriteRecord(std::string_view model, const RecordKind& kind,
                           std::string_view bytes);
  // NOT_FOUND without any, INVALID_ARGUMENT when it is too large.
  absl::StatusOr<std::string> ReadRecord(std::string_view model,
                                         const RecordKind& kind) const;
  // Renames the root's to <file>.damaged, with a warning that says why.
  void SetRecordAside(std::string_view model, const RecordKind& kind,
                      std::string_view reason);

 private:
  CacheRoot& root_;
};

}  // namespace stoker
