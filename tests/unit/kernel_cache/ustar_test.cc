#include "kernel_cache/ustar.h"

#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/kernel_cache/staged_artifact.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

TEST(UstarTest, TarReadsWhatWeWrite) {
  const TempFolder folder;
  const std::string deep = std::string(120, 'd') + "/" + std::string(100, 'n');
  std::string archive;
  for (const std::string& name : {std::string("plain"), deep}) {
    archive += *UstarHeader(name, 5) + "hello" + std::string(507, '\0');
  }
  WriteBytes(folder / "a.tar", archive + std::string(kUstarEndBytes, '\0'));
  const std::string command = "tar -C " + folder.path() + " -xf " +
                              (folder / "a.tar") + " && tar -tvf " +
                              (folder / "a.tar") + " >" + (folder / "list");
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(ReadBytes(folder / "plain"), "hello");
  EXPECT_EQ(ReadBytes(folder / deep), "hello");
  EXPECT_THAT(ReadBytes(folder / "list"),
              HasSubstr("-rw-r--r-- 0/0               5 1970-01-01"));
}

TEST(UstarTest, NamesAndSizesThatDoNotFit) {
  EXPECT_TRUE(UstarHeader(std::string(100, 'n'), 0).ok());
  EXPECT_TRUE(
      UstarHeader(std::string(155, 'd') + "/" + std::string(100, 'n'), 0).ok());
  for (const std::string& name :
       {std::string(), std::string(101, 'n'),
        std::string(156, 'd') + "/" + std::string(50, 'n'),
        "d/" + std::string(101, 'n'), "/" + std::string(100, 'n'),
        std::string(100, 'n') + "/"}) {
    EXPECT_EQ(UstarHeader(name, 0).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(UstarSize(*UstarHeader("n", kUstarMaxFileBytes)),
            kUstarMaxFileBytes);
  EXPECT_FALSE(UstarHeader("n", kUstarMaxFileBytes + 1).ok());
  EXPECT_FALSE(UstarHeader("n", -1).ok());
}

TEST(UstarTest, PaddingEndsABlock) {
  EXPECT_EQ(UstarPadding(0), 0u);
  EXPECT_EQ(UstarPadding(1), 511u);
  EXPECT_EQ(UstarPadding(511), 1u);
  EXPECT_EQ(UstarPadding(512), 0u);
  EXPECT_EQ(UstarPadding(kUstarMaxFileBytes), 1u);
}

TEST(UstarTest, SizesThatAreNone) {
  const std::string good = *UstarHeader("n", 8);
  EXPECT_EQ(UstarSize(good), 8);
  for (const char c : {'8', ' ', '-', '\x80', '\0'}) {
    std::string bad = good;
    bad[130] = c;
    EXPECT_EQ(UstarSize(bad), std::nullopt) << c;
  }
  EXPECT_EQ(UstarSize(""), std::nullopt);
}

TEST(UstarTest, DescribesAnyBlock) {
  EXPECT_THAT(DescribeUstarHeader(*UstarHeader("x", 12)),
              HasSubstr("a file \"x\" of 12 bytes"));
  EXPECT_EQ(DescribeUstarHeader(std::string(512, '\0')),
            "the end of the archive");
  std::string damaged = *UstarHeader("x", 12);
  damaged[0] = 'y';
  for (const std::string& none :
       {damaged, std::string(512, 'x'), std::string("ustar")}) {
    EXPECT_EQ(DescribeUstarHeader(none), "no tar header, or a damaged one");
  }
}

}  // namespace
}  // namespace stoker
