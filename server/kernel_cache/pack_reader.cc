#include "kernel_cache/pack_reader.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "kernel_cache/ustar.h"

namespace stoker {
PackReader::PackReader(InputFile file)
    : file_(std::move(file)), header_(kUstarBlockBytes, '\0') {}

absl::StatusOr<PackReader> PackReader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  PackReader reader(std::move(file));
  ASSIGN_OR_RETURN(reader.index_json_,
                   reader.ReadText(kPackIndexName, kMaxPackIndexBytes));
  RETURN_IF_ERROR(reader.NextHeader());
  const std::optional<int64_t> bytes = UstarSize(reader.header_);
  const bool is_signed =
      bytes.has_value() &&
      reader.header_ == UstarHeader(kPackSignatureName, *bytes).value_or("");
  if (is_signed) {
    ASSIGN_OR_RETURN(
        reader.signature_,
        reader.ReadText(kPackSignatureName, kMaxPackSignatureBytes));
  }
  return reader;
}

absl::Status PackReader::Error(std::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat("pack ", file_.path(), ": ", Absl(what)));
}

absl::Status PackReader::CheckLength(const PackIndex& index) const {
  std::optional<int64_t> signature_bytes;
  if (signature_.has_value()) {
    signature_bytes = static_cast<int64_t>(signature_->size());
  }
  const int64_t expected = PackBytes(
      index, static_cast<int64_t>(index_json_.size()), signature_bytes);
  if (file_.size().value_or(expected) == expected) return absl::OkStatus();
  return Error(
      absl::StrCat("expected ", expected, " bytes, found ", *file_.size()));
}

// Makes header_ the next block of the archive.
absl::Status PackReader::NextHeader() {
  if (has_header_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const size_t got,
                   file_.Read(header_.data(), header_.size()));
  if (got < header_.size()) {
    return Error(absl::StrCat("expected a tar header, found ", got,
                              " bytes and the end of the file"));
  }
  has_header_ = true;
  return absl::OkStatus();
}

absl::Status PackReader::ReadContent(const std::string& name, int64_t bytes,
                                     const Sink& sink) {
  ASSIGN_OR_RETURN(const int64_t read, file_.ReadTo(sink, bytes));
  if (read < bytes) {
    return Error(absl::StrCat("member ", name, ": expected ", bytes,
                              " bytes, found ", read,
                              " and the end of the file"));
  }
  const size_t padding = UstarPadding(bytes);
  std::array<char, kUstarBlockBytes> zeros;
  ASSIGN_OR_RETURN(const size_t got, file_.Read(zeros.data(), padding));
  const std::string_view found(zeros.data(), got);
  if (got < padding ||
      found.find_first_not_of('\0') != std::string_view::npos) {
    return Error(absl::StrCat(
        "member ", name, ": expected ", padding, " zeros after it, found ",
        got < padding ? "the end of the file" : "other bytes"));
  }
  return absl::OkStatus();
}

// The next member, which must have that name; its size is its own word.
absl::StatusOr<std::string> PackReader::ReadText(std::string_view name,
                                                 int64_t limit) {
  RETURN_IF_ERROR(NextHeader());
  const std::optional<int64_t> bytes = UstarSize(header_);
  if (header_ != UstarHeader(name, bytes.value_or(0)).value_or("")) {
    return Error(absl::StrCat("expected file ", Absl(name),
                              " as packs have it, found ",
                              DescribeUstarHeader(header_)));
  }
  if (*bytes > limit) {
    return Error(absl::StrCat("member ", Absl(name), ": expected at most ",
                              limit, " bytes, found ", *bytes));
  }
  has_header_ = false;
  std::string text;
  RETURN_IF_ERROR(
      ReadContent(std::string(name), *bytes, [&text](std::string_view piece) {
        text += piece;
        return absl::OkStatus();
      }));
  return text;
}

absl::Status PackReader::ReadMember(const PackMember& member,
                                    const Sink& sink) {
  ASSIGN_OR_RETURN(const std::string expected,
                   UstarHeader(member.name, member.bytes));
  RETURN_IF_ERROR(NextHeader());
  if (header_ != expected) {
    return Error(absl::StrCat("expected ", DescribeUstarHeader(expected),
                              " as packs have it, found ",
                              DescribeUstarHeader(header_)));
  }
  has_header_ = false;
  Sha256 digest;
  RETURN_IF_ERROR(ReadContent(member.name, member.bytes,
                              [&digest, &sink](std::string_view piece) {
                                digest.Add(piece);
                                return sink(piece);
                              }));
  if (const std::string actual = digest.Hex(); actual != member.sha256) {
    return Error(absl::StrCat("member ", member.name, ": expected SHA-256 ",
                              member.sha256, ", found ", actual));
  }
  return absl::OkStatus();
}

absl::Status PackReader::ReadEnd() {
  const std::string zeros(kUstarBlockBytes, '\0');
  static_assert(kUstarEndBytes == 2 * kUstarBlockBytes);
  RETURN_IF_ERROR(NextHeader());
  // One byte more than there should be.
  std::array<char, kUstarBlockBytes + 1> rest;
  ASSIGN_OR_RETURN(const size_t got, file_.Read(rest.data(), rest.size()));
  const std::string_view second(rest.data(), got);
  if (header_ == zeros && second == zeros) return absl::OkStatus();
  return Error(absl::StrCat("expected the end of the archive, ", kUstarEndBytes,
                            " zeros, found ",
                            header_ != zeros ? DescribeUstarHeader(header_)
                            : got > kUstarBlockBytes ? "more behind it"
                            : got < kUstarBlockBytes ? "the end of the file"
                                                     : "other bytes"));
}

}  // namespace stoker
