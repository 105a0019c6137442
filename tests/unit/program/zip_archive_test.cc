#include "program/zip_archive.h"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/lost_pages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/zip_writer.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

class ZipArchiveTest : public testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const ZipArchive>> Open(
      const std::string& bytes) {
    std::ofstream(folder_ / "a.zip", std::ios::binary) << bytes;
    return ZipArchive::Open(folder_ / "a.zip");
  }

  // Expects a refusal that names the file and holds `why`.
  void ExpectRefused(const std::string& bytes, const std::string& why) {
    const absl::Status status = Open(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ / "a.zip"));
  }
  void ExpectMemberRefused(const ZipMember& member, const std::string& why) {
    ZipWriter zip;
    zip.Add(member);
    ExpectRefused(zip.Finish(), why);
  }

  TempFolder folder_;
};

TEST_F(ZipArchiveTest, ReadsMembers) {
  ZipWriter zip;
  zip.Add({.name = "m/b", .content = "second"});
  zip.AddGap(std::string(40, '\0'));  // a descriptor and padding
  zip.Add({.name = "m/a",
           .content = "first",
           .local_extra = "FB" + ZipWriter::Number(2, 2) + "zz"});
  zip.Add({.name = "m/empty"});
  for (const std::string& bytes : {zip.Finish(), zip.Finish64()}) {
    const auto archive = Open(bytes);
    ASSERT_TRUE(archive.ok()) << archive.status();
    EXPECT_EQ((*archive)->members().size(), 3u);
    EXPECT_EQ((*archive)->members().begin()->first, "m/a");
    EXPECT_EQ(*(*archive)->View("m/a"), "first");
    EXPECT_EQ(*(*archive)->View("m/b"), "second");
    EXPECT_EQ(*(*archive)->ReadChecked("m/b", 6), "second");
    EXPECT_EQ(*(*archive)->ReadChecked("m/empty", 0), "");
    EXPECT_EQ((*archive)->View("m/none").status().code(),
              absl::StatusCode::kNotFound);
    EXPECT_EQ((*archive)->path(), folder_ / "a.zip");
  }
}

TEST_F(ZipArchiveTest, ReadsAnArchiveWithoutMembers) {
  const auto archive = Open(ZipWriter().Finish());
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_TRUE((*archive)->members().empty());
}

TEST_F(ZipArchiveTest, ReadsSizesAndOffsetsFromZip64Extras) {
  using Z = ZipWriter;
  ZipWriter zip;
  zip.Add({.name = "first", .content = "abc"});
  const uint64_t offset = zip.directory_offset();
  zip.Add({.name = "big",
           .content = "12345",
           .central_extra = Z::Number(1, 2) + Z::Number(24, 2) +
                            Z::Number(5, 8) + Z::Number(5, 8) +
                            Z::Number(offset, 8),
           .compressed_bytes = 0xffffffff,
           .bytes = 0xffffffff,
           .local_header = 0xffffffff});
  const auto archive = Open(zip.Finish64());
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_EQ(*(*archive)->ReadChecked("big", 5), "12345");
}

TEST_F(ZipArchiveTest, ReadCheckedSeesDamageAndSize) {
  ZipWriter zip;
  zip.Add({.name = "bad", .content = "abc", .crc32 = 1});
  const auto archive = Open(zip.Finish());
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_EQ(*(*archive)->View("bad"), "abc");
  const absl::Status damaged = (*archive)->ReadChecked("bad", 3).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(damaged.message()),
              HasSubstr("CRC-32 is 352441c2, expected 00000001"));
  EXPECT_THAT(std::string((*archive)->ReadChecked("bad", 2).status().message()),
              HasSubstr("has 3 bytes, expected at most 2"));
  EXPECT_EQ((*archive)->ReadChecked("none", 2).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ZipArchiveTest, RefusesNamesThatLeaveTheArchive) {
  ExpectMemberRefused({.name = ""}, "an empty name");
  ExpectMemberRefused({.name = "/etc/passwd"}, "an absolute name");
  ExpectMemberRefused({.name = ".."}, "\"..\" in its name");
  ExpectMemberRefused({.name = "a/../../b"}, "\"..\" in its name");
  ExpectMemberRefused({.name = "a/.."}, "\"..\" in its name");
  ExpectMemberRefused({.name = "a\\b"}, "a backslash");
  ExpectMemberRefused({.name = std::string("a\0b", 3)}, "a control character");
  ExpectMemberRefused({.name = "a\nb"}, "a control character");
  ZipWriter fine;
  fine.Add({.name = "a..b/...c"});
  EXPECT_TRUE(Open(fine.Finish()).ok());
}

TEST_F(ZipArchiveTest, RefusesTwoMembersOfOneName) {
  ZipWriter zip;
  zip.Add({.name = "m/model.json", .content = "1"});
  zip.Add({.name = "m/model.json", .content = "2"});
  ExpectRefused(zip.Finish(), "appears twice");
  ZipWriter other_case;
  other_case.Add({.name = "m/model.json", .content = "1"});
  other_case.Add({.name = "m/MODEL.json", .content = "2"});
  ExpectRefused(other_case.Finish(), "appears twice");
  ExpectMemberRefused({.name = "a", .local_name = "b"}, "contradicts");
  ExpectMemberRefused({.name = "a",
                       .central_extra = ZipWriter::Number(0x7075, 2) +
                                        ZipWriter::Number(1, 2) + "b"},
                      "a second name");
}

TEST_F(ZipArchiveTest, RefusesCompressionAndEncryption) {
  ExpectMemberRefused({.name = "a", .content = "x", .method = 8},
                      "is compressed");
  ExpectMemberRefused({.name = "a", .content = "abc", .compressed_bytes = 2},
                      "is compressed");
  for (const uint16_t flag : {1, 1 << 6, 1 << 13}) {
    ExpectMemberRefused({.name = "a", .content = "x", .flags = flag},
                        "encrypted");
  }
}

TEST_F(ZipArchiveTest, RefusesWhatPointsOutOfTheFile) {
  ExpectMemberRefused(
      {.name = "a", .content = "abc", .compressed_bytes = 5000, .bytes = 5000},
      "ends behind the file");
  ExpectMemberRefused({.name = "a", .content = "abc", .local_header = 5000},
                      "no local header");
  ExpectMemberRefused({.name = "a", .content = "abc", .local_header = 1},
                      "no local header");
  ExpectMemberRefused(
      {.name = "a", .content = "abc", .local_header = 0xfffffffe},
      "no local header");
  using Z = ZipWriter;
  // A ZIP64 size that overflows when it is added to the offset.
  ExpectMemberRefused(
      {.name = "a",
       .central_extra = Z::Number(1, 2) + Z::Number(16, 2) +
                        Z::Number(~0ULL, 8) + Z::Number(~0ULL, 8),
       .compressed_bytes = 0xffffffff,
       .bytes = 0xffffffff},
      "ends behind the file");
  ExpectMemberRefused(
      {.name = "a",
       .central_extra = Z::Number(1, 2) + Z::Number(8, 2) + Z::Number(~0ULL, 8),
       .local_header = 0xffffffff},
      "no local header");
}

TEST_F(ZipArchiveTest, RefusesOverlaps) {
  ZipWriter inside;
  inside.Add({.name = "outer", .content = "PK"});
  inside.Add({.name = "inner", .content = "x"});
  // `outer` claims to reach over `inner`'s header.
  std::string bytes = inside.Finish();
  ZipWriter overlapping;
  overlapping.Add(
      {.name = "outer", .content = "PK", .compressed_bytes = 20, .bytes = 20});
  overlapping.Add({.name = "inner", .content = "x"});
  ExpectRefused(overlapping.Finish(), "overlaps");
  ZipWriter same;
  same.Add({.name = "a", .content = "x"});
  same.Add({.name = "a", .content = "x", .local_header = 0});
  ExpectRefused(same.Finish(), "appears twice");
  // Into the central directory.
  ExpectMemberRefused(
      {.name = "a", .content = "abc", .compressed_bytes = 10, .bytes = 10},
      "overlaps \"(central directory)\"");
}

TEST_F(ZipArchiveTest, RefusesMalformedExtras) {
  using Z = ZipWriter;
  const std::string zip64 = Z::Number(1, 2) + Z::Number(8, 2) + Z::Number(3, 8);
  ExpectMemberRefused({.name = "a", .central_extra = "x"}, "malformed extra");
  ExpectMemberRefused({.name = "a", .central_extra = "xx"}, "malformed extra");
  ExpectMemberRefused({.name = "a", .central_extra = "xxx"}, "malformed extra");
  ExpectMemberRefused(
      {.name = "a", .central_extra = "xx" + Z::Number(5, 2) + "abc"},
      "malformed extra");
  ExpectMemberRefused({.name = "a",
                       .content = "abc",
                       .central_extra = zip64,
                       .compressed_bytes = 0xffffffff,
                       .bytes = 0xffffffff},
                      "too short");
  ExpectMemberRefused({.name = "a", .central_extra = zip64 + zip64},
                      "two ZIP64 extra fields");
}

TEST_F(ZipArchiveTest, RefusesBadEndRecords) {
  using Z = ZipWriter;
  ZipWriter zip;
  zip.Add({.name = "a", .content = "abc"});
  const uint64_t n = zip.members();
  const uint64_t bytes = zip.directory_bytes();
  const uint64_t offset = zip.directory_offset();
  const std::string body = zip.Body();
  ASSERT_TRUE(Open(body + Z::End(n, bytes, offset)).ok());
  ExpectRefused(body + Z::End(n, bytes, offset, 0, "comment"),
                "not a ZIP archive");
  ExpectRefused(body + Z::End(n, bytes, offset, 1), "several disks");
  ExpectRefused(body + Z::End(n, bytes + 1, offset), "does not end");
  ExpectRefused(body + Z::End(n, bytes, offset + 1), "does not end");
  ExpectRefused(body + Z::End(n, 0xffffffff, 0xffffffff), "does not end");
  ExpectRefused("x" + body + Z::End(n, bytes, offset), "does not end");
  ExpectRefused(body + "x" + Z::End(n, bytes, offset), "does not end");
  ExpectRefused(body + Z::End(n + 1, bytes, offset), "cut short");
  ExpectRefused(body + Z::End(n - 1, bytes, offset), "behind its last member");
  ExpectMemberRefused({.name = "a", .disk = 1}, "several disks");
}

TEST_F(ZipArchiveTest, RefusesBadZip64Records) {
  using Z = ZipWriter;
  ZipWriter zip;
  zip.Add({.name = "a", .content = "abc"});
  const uint64_t n = zip.members();
  const uint64_t bytes = zip.directory_bytes();
  const uint64_t offset = zip.directory_offset();
  const std::string body = zip.Body();
  const std::string end = Z::End(n, bytes, offset);
  const std::string end64 = Z::End64(n, bytes, offset);
  ASSERT_TRUE(Open(body + end64 + Z::Locator64(body.size()) + end).ok());
  ExpectRefused(body + end64 + Z::Locator64(body.size() + 1) + end,
                "expected at");
  ExpectRefused(body + std::string(56, 'x') + Z::Locator64(body.size()) + end,
                "expected at");
  ExpectRefused(Z::Locator64(0) + Z::End(0, 0, 0), "without");
  ExpectRefused(
      body + end64 + Z::Locator64(body.size()) + Z::End(n + 1, bytes, offset),
      "contradict each other");
  ExpectRefused(body + Z::End64(uint64_t{1} << 40, bytes, offset) +
                    Z::Locator64(body.size()) + Z::End(0xffff, bytes, offset),
                "members, expected at most");
  ExpectRefused(body + Z::End64(n, ~0ULL, offset) + Z::Locator64(body.size()) +
                    Z::End(n, 0xffffffff, offset),
                "does not end");
  std::string longer = end64;
  longer[4] = 45;  // the record's size field
  ExpectRefused(body + longer + Z::Locator64(body.size()) + end, "45 bytes");
}

TEST_F(ZipArchiveTest, RefusesWhatIsNoArchive) {
  ExpectRefused("", "an empty file");
  ExpectRefused("x", "not a ZIP archive");
  ExpectRefused(std::string(1000, 'P'), "not a ZIP archive");
  EXPECT_EQ(ZipArchive::Open(folder_ / "none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ZipArchive::Open(folder_.path()).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(ZipArchive::Open(folder_ / "pipe").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ZipArchiveTest, ViewsOutliveEverythingButTheArchive) {
  ZipWriter zip;
  zip.Add({.name = "a", .content = "abc"});
  auto archive = Open(zip.Finish());
  ASSERT_TRUE(archive.ok()) << archive.status();
  const std::shared_ptr<const ZipArchive> held = *archive;
  archive = absl::CancelledError();
  const std::string_view view = *held->View("a");
  ASSERT_EQ(unlink((folder_ / "a.zip").c_str()), 0);
  EXPECT_EQ(view, "abc");
}

TEST_F(ZipArchiveTest, TouchedIsNotChanged) {
  ZipWriter zip;
  zip.Add({.name = "a/x", .content = std::string(10000, 'x')});
  const std::string bytes = zip.Finish();
  const auto archive = Open(bytes);
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_TRUE((*archive)->Unchanged());
  const auto touch = [this](int hours) {
    std::filesystem::last_write_time(
        folder_ / "a.zip", std::filesystem::file_time_type::clock::now() -
                               std::chrono::hours(hours));
  };
  touch(1);
  EXPECT_TRUE((*archive)->Unchanged());
  std::string other = bytes;
  other[other.find("xxxx") + 100] = 'y';
  std::fstream(folder_ / "a.zip",
               std::ios::binary | std::ios::in | std::ios::out)
      << other;
  EXPECT_FALSE((*archive)->Unchanged());
  touch(2);
  EXPECT_FALSE((*archive)->Unchanged());
}

TEST_F(ZipArchiveTest, CutIsChanged) {
  OutliveLostPages();
  ZipWriter zip;
  zip.Add({.name = "a/x", .content = std::string(10000, 'x')});
  const auto archive = Open(zip.Finish());
  ASSERT_TRUE(archive.ok()) << archive.status();
  std::filesystem::resize_file(folder_ / "a.zip", 10);
  EXPECT_FALSE((*archive)->Unchanged());
}

}  // namespace
}  // namespace stoker
