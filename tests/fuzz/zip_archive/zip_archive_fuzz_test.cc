// The fuzz target as a plain test: the corpus, and seeded mutations of
// archives.
#include "tests/fuzz/zip_archive/zip_archive_fuzz.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/zip_writer.h"

namespace stoker {
namespace {

bool Fuzz(const std::string& bytes) {
  return FuzzZipArchive(reinterpret_cast<const uint8_t*>(bytes.data()),
                        bytes.size());
}

std::vector<std::string> Corpus() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator("tests/fuzz/zip_archive/corpus")) {
    std::ifstream file(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file),
                       std::istreambuf_iterator<char>());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> WrittenArchives() {
  ZipWriter plain;
  plain.Add({.name = "m/a", .content = "some content"});
  plain.AddGap("PK\7\10 a descriptor, and padding");
  plain.Add({.name = "m/b", .content = std::string(100, 'b')});
  plain.Add({.name = "m/empty"});
  ZipWriter big;
  const std::string extra = ZipWriter::Number(1, 2) + ZipWriter::Number(24, 2) +
                            ZipWriter::Number(3, 8) + ZipWriter::Number(3, 8) +
                            ZipWriter::Number(0, 8);
  big.Add({.name = "big",
           .content = "big",
           .central_extra = extra,
           .central_comment = "a comment",
           .compressed_bytes = 0xffffffff,
           .bytes = 0xffffffff,
           .local_header = 0xffffffff});
  return {plain.Finish(), plain.Finish64(), big.Finish(), big.Finish64()};
}

// The numbers that break parsers.
constexpr std::array<uint64_t, 12> kNumbers = {0,
                                               1,
                                               0x7f,
                                               0xff,
                                               0x7fff,
                                               0xffff,
                                               0x7fffffff,
                                               0x80000000,
                                               0xffffffff,
                                               uint64_t{1} << 62,
                                               ~uint64_t{0} - 29,
                                               ~uint64_t{0}};

std::string Mutated(std::string bytes, std::mt19937& random) {
  const auto below = [&random](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  for (size_t changes = 1 + below(3); changes > 0 && !bytes.empty();
       --changes) {
    const size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2: {
        const int width = 1 << below(4);
        const std::string number =
            ZipWriter::Number(kNumbers[below(kNumbers.size())], width);
        bytes.replace(at, std::min(number.size(), bytes.size() - at), number);
        break;
      }
      case 3:
        bytes.erase(at, 1 + below(20));
        break;
      case 4:
        bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(60)));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

TEST(ZipArchiveFuzzTest, Corpus) {
  const std::vector<std::string> corpus = Corpus();
  ASSERT_GE(corpus.size(), 5u);
  int archives = 0;
  for (const std::string& bytes : corpus) archives += Fuzz(bytes) ? 1 : 0;
  EXPECT_GE(archives, 2);
}

TEST(ZipArchiveFuzzTest, EveryPrefixAndSuffixOfAnArchive) {
  for (const std::string& good : WrittenArchives()) {
    ASSERT_TRUE(Fuzz(good));
    for (size_t i = 0; i < good.size(); ++i) {
      EXPECT_FALSE(Fuzz(good.substr(0, i))) << i;
      Fuzz(good.substr(i));
    }
  }
}

TEST(ZipArchiveFuzzTest, EveryByteOfAnArchiveReplaced) {
  for (const std::string& good : WrittenArchives()) {
    for (size_t i = 0; i < good.size(); ++i) {
      for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
        std::string bad = good;
        bad[i] = static_cast<char>(value);
        Fuzz(bad);
      }
    }
  }
}

TEST(ZipArchiveFuzzTest, SeededMutations) {
  constexpr int kRounds = 20'000;
  std::mt19937 random(1);
  std::vector<std::string> seeds = WrittenArchives();
  for (const std::string& bytes : Corpus()) {
    if (bytes.size() < 4096) seeds.push_back(bytes);
  }
  int archives = 0;
  for (int i = 0; i < kRounds; ++i) {
    archives += Fuzz(Mutated(seeds[i % seeds.size()], random)) ? 1 : 0;
  }
  // Some mutations hit content only; if none did, the loop tested nothing.
  EXPECT_GT(archives, kRounds / 100);
  EXPECT_LT(archives, kRounds);
}

}  // namespace
}  // namespace stoker
