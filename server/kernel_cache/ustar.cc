#include "kernel_cache/ustar.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/absl_view.h"

namespace stoker {
namespace {

// Names as in POSIX; every field is text.
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char chksum[8];
  char typeflag;
  char linkname[100];
  char magic[6];
  char version[2];
  char uname[32];
  char gname[32];
  char devmajor[8];
  char devminor[8];
  char prefix[155];
  char unused[12];
};
static_assert(sizeof(Header) == kUstarBlockBytes);

constexpr size_t kSizeDigits = sizeof(Header::size) - 1;

template <size_t n>
void Set(char (&field)[n], std::string_view text) {
  std::memcpy(field, text.data(), std::min(n, text.size()));
}

// The text of a field, up to its first NUL.
template <size_t n>
std::string_view Text(const char (&field)[n]) {
  return {field, strnlen(field, n)};
}

// The sum of all bytes with the sum's own field as spaces.
unsigned Checksum(std::string_view header) {
  unsigned sum = 0;
  for (size_t i = 0; i < header.size(); ++i) {
    const size_t in_field = i - offsetof(Header, chksum);
    sum += in_field < sizeof(Header::chksum)
               ? ' '
               : static_cast<unsigned char>(header[i]);
  }
  return sum;
}

std::string ChecksumField(std::string_view header) {
  return absl::StrFormat("%06o", Checksum(header)) + std::string("\0 ", 2);
}

// Where a name is cut into folders and a last part; npos when it can't be.
size_t SplitAt(std::string_view name) {
  constexpr size_t kName = sizeof(Header::name);
  constexpr size_t kPrefix = sizeof(Header::prefix);
  const size_t slash = name.rfind('/');
  const bool fits = slash != std::string_view::npos && slash > 0 &&
                    slash <= kPrefix && name.size() - slash - 1 <= kName &&
                    slash + 1 < name.size();
  return fits ? slash : std::string_view::npos;
}

const char* KindOf(char typeflag) {
  switch (typeflag) {
    case '0':
    case '\0':
      return "a file";
    case '1':
      return "a hard link";
    case '2':
      return "a symbolic link";
    case '3':
    case '4':
      return "a device";
    case '5':
      return "a folder";
    case '6':
      return "a pipe";
    default:
      return "an extension header";
  }
}

Header AsHeader(std::string_view block) {
  Header header = {};
  std::memcpy(&header, block.data(), std::min(block.size(), sizeof(header)));
  return header;
}

}  // namespace

absl::StatusOr<std::string> UstarHeader(std::string_view name, int64_t bytes) {
  if (bytes < 0 || bytes > kUstarMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(Absl(name), " has ", bytes,
                                                   " bytes, expected at most ",
                                                   kUstarMaxFileBytes));
  }
  Header header = {};
  if (!name.empty() && name.size() <= sizeof(header.name)) {
    Set(header.name, name);
  } else {
    const size_t slash = SplitAt(name);
    if (slash == std::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("name \"", absl::CHexEscape(Absl(name)),
                       "\", expected one of at most 100 bytes in folders of "
                       "at most 155"));
    }
    Set(header.prefix, name.substr(0, slash));
    Set(header.name, name.substr(slash + 1));
  }
  Set(header.mode, "0000644");
  Set(header.uid, "0000000");
  Set(header.gid, "0000000");
  Set(header.size, absl::StrFormat("%011o", bytes));
  Set(header.mtime, "00000000000");
  header.typeflag = '0';
  Set(header.magic, "ustar");
  Set(header.version, "00");
  Set(header.devmajor, "0000000");
  Set(header.devminor, "0000000");
  std::string block(reinterpret_cast<const char*>(&header), sizeof(header));
  block.replace(offsetof(Header, chksum), sizeof(header.chksum),
                ChecksumField(block));
  return block;
}

size_t UstarPadding(int64_t bytes) {
  const auto tail = static_cast<size_t>(bytes) % kUstarBlockBytes;
  return tail == 0 ? 0 : kUstarBlockBytes - tail;
}

std::optional<int64_t> UstarSize(std::string_view header) {
  const Header fields = AsHeader(header);
  const std::string_view digits = Text(fields.size);
  if (digits.size() != kSizeDigits ||
      digits.find_first_not_of("01234567") != std::string_view::npos) {
    return std::nullopt;
  }
  int64_t bytes = 0;
  for (const char digit : digits) bytes = bytes * 8 + (digit - '0');
  return bytes;
}

std::string DescribeUstarHeader(std::string_view header) {
  if (header.find_first_not_of('\0') == std::string_view::npos) {
    return "the end of the archive";
  }
  const Header fields = AsHeader(header);
  if (Text(fields.magic) != "ustar" ||
      std::string_view(fields.chksum, sizeof(fields.chksum)) !=
          ChecksumField(header)) {
    return "no tar header, or a damaged one";
  }
  std::string name(Text(fields.prefix));
  if (!name.empty()) name += '/';
  name += Text(fields.name);
  const std::optional<int64_t> bytes = UstarSize(header);
  return absl::StrCat(
      KindOf(fields.typeflag), " \"", absl::CHexEscape(name), "\" of ",
      bytes.has_value() ? absl::StrCat(*bytes) : "unknown", " bytes, mode ",
      absl::CHexEscape(Absl(Text(fields.mode))));
}

}  // namespace stoker
