// Reads a pack from front to back, which may as well be a pipe. A pack has one
// form only: a ustar archive of index.json, index.json.sig where it is signed,
// and then exactly the members of the index in its order, every header and
// every padding as UstarHeader makes them. So nothing of the archive is parsed
// but the length of its first two members; all else is compared with what the
// index says must come, and the first byte that differs is an error that names
// the member. No buffer grows by a number that the pack claims.
//
// Errors: INVALID_ARGUMENT for what is wrong with the pack; what the disk says.
// All name the pack. Movable; one thread at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_stream.h"
#include "kernel_cache/pack_index.h"

namespace stoker {

class PackReader {
 public:
  // Reads up to the end of the signature. Neither is checked yet.
  static absl::StatusOr<PackReader> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::string& index_json() const { return index_json_; }
  const std::optional<std::string>& signature() const { return signature_; }

  // Whether the file is as long as the index says, where a file has a length:
  // an early word on one that was cut or grew.
  absl::Status CheckLength(const PackIndex& index) const;

  using Sink = InputFile::Sink;

  // The next member. The digest is compared last, so the sink may have had
  // wrong bytes when this fails. An error of the sink is returned as it is.
  absl::Status ReadMember(const PackMember& member, const Sink& sink);
  // After the last member.
  absl::Status ReadEnd();

 private:
  explicit PackReader(InputFile file);

  absl::Status Error(std::string_view what) const;
  absl::Status NextHeader();
  absl::Status ReadContent(const std::string& name, int64_t bytes,
                           const Sink& sink);
  absl::StatusOr<std::string> ReadText(std::string_view name, int64_t limit);

  InputFile file_;
  std::string header_;
  bool has_header_ = false;  // header_ was read and is still to be used
  std::string index_json_;
  std::optional<std::string> signature_;
};

}  // namespace stoker
