#include "kernel_cache/fact_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

absl::Status CheckNote(const ArtifactKey& key, std::string_view name) {
  if (key.hex().empty()) {
    return absl::InvalidArgumentError(
        "kernel cache: the artifact key is empty");
  }
  if (IsNoteName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "note name \"", Absl(name), "\", expected [a-z0-9_-][a-z0-9._-]*"));
}

absl::Status CheckModel(std::string_view model, const RecordKind& kind) {
  const bool valid =
      !model.empty() && std::all_of(model.begin(), model.end(), [](char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
      });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Absl(kind.name), " of a model named \"", Absl(model), "\""));
}

std::string FileName(std::string_view model, const RecordKind& kind) {
  return absl::StrCat(Absl(model), Absl(kind.suffix));
}

}  // namespace

absl::Status FactStore::WriteNote(const ArtifactKey& key, std::string_view name,
                                  std::string_view bytes) {
  RETURN_IF_ERROR(CheckNote(key, name));
  RETURN_IF_ERROR(root_.writable());
  return root_.Replace(root_.top().NotesFolder(key), name, bytes);
}

std::optional<std::string> FactStore::ReadNote(const ArtifactKey& key,
                                               std::string_view name) const {
  if (!CheckNote(key, name).ok()) return std::nullopt;
  for (const CacheLayer& layer : root_.layers()) {
    absl::StatusOr<std::string> note = layer.ReadNote(key, name);
    if (note.ok()) return *std::move(note);
    if (!absl::IsNotFound(note.status())) {
      log::Warn("note {} of {}: {}", name, key.Short(),
                std::string(note.status().message()));
    }
  }
  return std::nullopt;
}

absl::Status FactStore::RemoveNote(const ArtifactKey& key,
                                   std::string_view name) {
  RETURN_IF_ERROR(CheckNote(key, name));
  RETURN_IF_ERROR(root_.writable());
  return root_.files().Remove(
      absl::StrCat(root_.top().NotesFolder(key), "/", Absl(name)));
}

std::vector<std::string> FactStore::NoteNames(const ArtifactKey& key) const {
  std::set<std::string> names;
  for (const CacheLayer& layer : root_.layers()) {
    const std::vector<std::string> some = layer.NoteNames(key);
    names.insert(some.begin(), some.end());
  }
  return {names.begin(), names.end()};
}

absl::Status FactStore::RemoveNotes(const ArtifactKey& key) {
  return root_.files().Remove(root_.top().NotesFolder(key));
}

absl::Status FactStore::WriteRecord(std::string_view model,
                                    const RecordKind& kind,
                                    std::string_view bytes) {
  RETURN_IF_ERROR(CheckModel(model, kind));
  RETURN_IF_ERROR(root_.writable());
  return root_.Replace(root_.Folder("traffic"), FileName(model, kind), bytes);
}

absl::StatusOr<std::string> FactStore::ReadRecord(
    std::string_view model, const RecordKind& kind) const {
  RETURN_IF_ERROR(CheckModel(model, kind));
  for (const CacheLayer& layer : root_.layers()) {
    if (layer.is_signed()) continue;  // packs have no records
    absl::StatusOr<std::string> text = ReadAtMost(
        root_.files(),
        absl::StrCat(layer.home(), "/traffic/", FileName(model, kind)),
        kind.max_bytes);
    if (!absl::IsNotFound(text.status())) return text;
    if (!kind.from_layers) break;
  }
  return absl::NotFoundError(absl::StrCat("no ", Absl(kind.name), " of model ",
                                          Absl(model), " was recorded"));
}

void FactStore::SetRecordAside(std::string_view model, const RecordKind& kind,
                               std::string_view reason) {
  if (!CheckModel(model, kind).ok()) return;
  const std::string path =
      absl::StrCat(root_.Folder("traffic"), "/", FileName(model, kind));
  const absl::Status moved = root_.files().Rename(path, path + ".damaged");
  log::Warn("{} {}: {}", path, moved.ok() ? "is set aside" : "can't be used",
            reason);
}

}  // namespace stoker
