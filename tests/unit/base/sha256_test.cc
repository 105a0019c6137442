#include "base/sha256.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

// Test vectors of FIPS 180-4's examples and of the million-a message.
TEST(Sha256Test, KnownDigests) {
  EXPECT_EQ(Sha256Hex(""),
            "e3b0c44298fc1c149afbf4c8996fb924"
            "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223"
            "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67"
            "f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesMakeTheWhole) {
  const std::string bytes(1000, 'x');
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{63}, size_t{64},
                           size_t{999}, size_t{1000}}) {
    Sha256 digest;
    digest.Add(bytes.substr(0, cut));
    digest.Add(bytes.substr(cut));
    EXPECT_EQ(digest.Hex(), Sha256Hex(bytes)) << cut;
  }
}

TEST(Sha256Test, FileEqualsItsBytes) {
  TempFolder folder;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{256 * 1024},
                            size_t{256 * 1024 + 1}, size_t{1'000'000}}) {
    const std::string bytes(size, 'x');
    std::ofstream(folder / "f", std::ios::binary) << bytes;
    const absl::StatusOr<std::string> digest = Sha256File(folder / "f");
    ASSERT_TRUE(digest.ok()) << digest.status();
    EXPECT_EQ(*digest, Sha256Hex(bytes)) << size;
  }
}

TEST(Sha256Test, UnreadableFiles) {
  TempFolder folder;
  EXPECT_EQ(Sha256File(folder / "none").status().code(),
            absl::StatusCode::kNotFound);
  const absl::Status is_folder = Sha256File(folder.path()).status();
  EXPECT_EQ(is_folder.code(), absl::StatusCode::kInternal);
  EXPECT_NE(is_folder.message().find(folder.path()), std::string::npos);
}

}  // namespace
}  // namespace stoker
