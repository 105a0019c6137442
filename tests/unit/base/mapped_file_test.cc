#include "base/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using ::testing::Each;

constexpr size_t kPage = 4096;

class MappedFileTest : public ::testing::Test {
 protected:
  MappedFileTest() {
    OutliveLostPages();
    Write(path_, std::string(3 * kPage, 'a'));
  }
  static void Write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }
  std::unique_ptr<const MappedFile> Open() const {
    auto file = MappedFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  const TempFolder folder_;
  const std::string path_ = folder_ / "a";
};

TEST_F(MappedFileTest, ShowsTheFile) {
  const auto file = Open();
  EXPECT_EQ(file->bytes(), std::string(3 * kPage, 'a'));
  EXPECT_EQ(file->stamp(), file->stamp());
  EXPECT_EQ(file->stamp().size, static_cast<int64_t>(3 * kPage));
}

TEST_F(MappedFileTest, LostPagesReadAsZeros) {
  const auto file = Open();
  const MappedFile::Stamp whole = file->stamp();
  std::filesystem::resize_file(path_, kPage);
  const std::string read(file->bytes());
  EXPECT_EQ(read.substr(0, kPage), std::string(kPage, 'a'));
  EXPECT_THAT(read.substr(kPage), Each(0));
  EXPECT_NE(file->stamp(), whole);
}

TEST_F(MappedFileTest, ACopyIsWrittenToWithoutAnybodySeeing) {
  auto file = Open();
  const auto copy = file->CopyOnWrite();
  const auto other = file->CopyOnWrite();
  ASSERT_TRUE(copy.ok() && other.ok());
  auto* text = reinterpret_cast<char*>(copy->get());
  text[kPage] = 'b';
  EXPECT_EQ(std::string_view(text, 3 * kPage),
            std::string(kPage, 'a') + "b" + std::string(2 * kPage - 1, 'a'));
  EXPECT_EQ(file->bytes(), std::string(3 * kPage, 'a'));
  EXPECT_EQ(static_cast<char>(other->get()[kPage]), 'a');
  file.reset();
  EXPECT_EQ(text[kPage], 'b');
  EXPECT_EQ(text[0], 'a');
}

TEST_F(MappedFileTest, ACopysLostPagesAreZerosToWriteOn) {
  const auto file = Open();
  const auto copy = file->CopyOnWrite();
  ASSERT_TRUE(copy.ok());
  std::filesystem::resize_file(path_, kPage);
  auto* text = reinterpret_cast<char*>(copy->get());
  EXPECT_EQ(text[kPage], 0);
  text[2 * kPage] = 'b';
  EXPECT_EQ(text[2 * kPage], 'b');
}

TEST_F(MappedFileTest, TwoFilesLoseTheirOwnPages) {
  const auto file = Open();
  const std::string other_path = folder_ / "b";
  Write(other_path, std::string(2 * kPage, 'b'));
  const auto other = MappedFile::Open(other_path);
  ASSERT_TRUE(other.ok());
  std::filesystem::resize_file(path_, 0);
  EXPECT_THAT(std::string(file->bytes()), Each(0));
  EXPECT_THAT(std::string((*other)->bytes()), Each('b'));
}

TEST_F(MappedFileTest, AnOverwrittenFileHasAnotherStamp) {
  using std::chrono::hours;
  std::filesystem::last_write_time(
      path_, std::filesystem::file_time_type::clock::now() - hours(1));
  const auto file = Open();
  const MappedFile::Stamp before = file->stamp();
  Write(path_, std::string(3 * kPage, 'c'));
  EXPECT_NE(file->stamp(), before);
}

TEST_F(MappedFileTest, AReplacedFileKeepsIts) {
  const auto file = Open();
  const MappedFile::Stamp before = file->stamp();
  Write(folder_ / "new", "other");
  std::filesystem::rename(folder_ / "new", path_);
  EXPECT_EQ(file->stamp(), before);
  EXPECT_THAT(std::string(file->bytes()), Each('a'));
}

TEST_F(MappedFileTest, PlacesAreUsedAgain) {
  for (int i = 0; i < 2000; ++i) ASSERT_NE(Open(), nullptr);
  const auto file = Open();
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(file->bytes()[0], 0);
}

using MappedFileDeathTest = MappedFileTest;

TEST_F(MappedFileDeathTest, AnotherBusErrorEndsTheProcess) {
  // By the signal, or as a sanitizer ends it.
  EXPECT_DEATH(
      {
        const auto file = Open();
        void* elsewhere = mmap(nullptr, kPage, PROT_READ, MAP_SHARED,
                               open(path_.c_str(), O_RDONLY), 0);
        std::filesystem::resize_file(path_, 0);
        _exit(*static_cast<volatile char*>(elsewhere));
      },
      "");
}

}  // namespace
}  // namespace stoker
