// Writes ZIP archives for tests, right ones and wrong ones: every field of a
// member's headers can be set to what it should not be.
//
//   ZipWriter zip;
//   zip.Add({.name = "a/b", .content = "hello"});
//   std::string bytes = zip.Finish();
#pragma once

#include <zlib.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoker {

struct ZipMember {
  std::string name;
  std::string content;
  uint16_t flags = 0;
  uint16_t method = 0;
  std::string local_extra;
  std::string central_extra;
  std::string central_comment;
  // What the headers claim, where it is not the truth.
  std::optional<std::string> local_name;
  std::optional<uint32_t> crc32;
  std::optional<uint32_t> compressed_bytes;
  std::optional<uint32_t> bytes;
  std::optional<uint32_t> local_header;
  uint16_t disk = 0;
};

class ZipWriter {
 public:
  static std::string Number(uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) {
      text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
    }
    return text;
  }

  void Add(const ZipMember& member) {
    const uint64_t offset = file_.size();
    const auto size = static_cast<uint32_t>(member.content.size());
    const auto crc = static_cast<uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(member.content.data()),
                member.content.size()));
    const std::string local_name = member.local_name.value_or(member.name);
    const std::string sizes =
        Number(member.crc32.value_or(crc), 4) +
        Number(member.compressed_bytes.value_or(size), 4) +
        Number(member.bytes.value_or(size), 4);
    file_ += "PK\3\4" + Number(20, 2) + Number(member.flags, 2) +
             Number(member.method, 2) + Number(0, 4) + sizes +
             Number(local_name.size(), 2) +
             Number(member.local_extra.size(), 2) + local_name +
             member.local_extra + member.content;
    directory_ += "PK\1\2" + Number(20, 2) + Number(20, 2) +
                  Number(member.flags, 2) + Number(member.method, 2) +
                  Number(0, 4) + sizes + Number(member.name.size(), 2) +
                  Number(member.central_extra.size(), 2) +
                  Number(member.central_comment.size(), 2) +
                  Number(member.disk, 2) + Number(0, 2) + Number(0, 4) +
                  Number(member.local_header.value_or(offset), 4) +
                  member.name + member.central_extra + member.central_comment;
    ++members_;
  }

  // Bytes between members, as data descriptors and padding are.
  void AddGap(std::string_view bytes) { file_ += bytes; }

  uint64_t directory_offset() const { return file_.size(); }
  uint64_t directory_bytes() const { return directory_.size(); }
  uint64_t members() const { return members_; }
  // The file so far: members, then their directory, without an end record.
  std::string Body() const { return file_ + directory_; }

  static std::string End(uint64_t members, uint64_t bytes, uint64_t offset,
                         uint16_t disk = 0, const std::string& comment = "") {
    return "PK\5\6" + Number(disk, 2) + Number(disk, 2) + Number(members, 2) +
           Number(members, 2) + Number(bytes, 4) + Number(offset, 4) +
           Number(comment.size(), 2) + comment;
  }
  static std::string End64(uint64_t members, uint64_t bytes, uint64_t offset) {
    return "PK\6\6" + Number(44, 8) + Number(45, 2) + Number(45, 2) +
           Number(0, 4) + Number(0, 4) + Number(members, 8) +
           Number(members, 8) + Number(bytes, 8) + Number(offset, 8);
  }
  static std::string Locator64(uint64_t end64_offset) {
    return "PK\6\7" + Number(0, 4) + Number(end64_offset, 8) + Number(1, 4);
  }

  std::string Finish() const {
    return Body() + End(members_, directory_.size(), file_.size());
  }
  // The same with ZIP64 records, the old record's fields set to "look there".
  std::string Finish64() const {
    return Body() + End64(members_, directory_.size(), file_.size()) +
           Locator64(file_.size() + directory_.size()) +
           End(0xffff, 0xffffffff, 0xffffffff);
  }

 private:
  std::string file_;
  std::string directory_;
  uint64_t members_ = 0;
};

}  // namespace stoker
