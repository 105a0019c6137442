// The fuzz target as a plain test: the corpus, and seeded mutations of
// requests.
#include "tests/fuzz/request_reader/request_reader_fuzz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace stoker {
namespace {

Reading Fuzz(const std::string& bytes) {
  return FuzzRequestReader(reinterpret_cast<const uint8_t*>(bytes.data()),
                           bytes.size());
}

std::map<std::string, std::string> Corpus() {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           "tests/fuzz/request_reader/corpus")) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().stem()] = std::string(
        std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

// Bytes with a meaning on this wire: tags of known fields, wire types that few
// writers use, varints at their limits.
const std::array<std::string, 20>& Telling() {
  static const auto& pieces = *new std::array<std::string, 20>{
      std::string("\0", 1),
      "\x01",
      "\x7F",
      "\x80",
      "\xFF",
      "\x0A",
      "\x12",
      "\x1A",
      "\x18",
      "\x22",
      "\x2A",
      "\x32",
      "\x3A",
      "\x0B",
      "\x0C",
      "\x0D",
      std::string("\x8A\0", 2),              // a tag with a byte too many
      std::string("\x81\x80\x80\x80\0", 5),  // a 1 with four bytes too many
      std::string(9, '\xFF') + '\x01',       // the largest varint
      "\xFF\xFF\xFF\xFF\x07"};               // the largest length
  return pieces;
}

std::string Mutated(std::string bytes, const std::vector<std::string>& seeds,
                    std::mt19937& random) {
  const auto below = [&random](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  for (size_t changes = 1 + below(4); changes > 0 && !bytes.empty();
       --changes) {
    const size_t at = below(bytes.size());
    const std::string& piece = Telling()[below(Telling().size())];
    switch (below(7)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
      case 1:
        bytes.replace(at, std::min(piece.size(), bytes.size() - at), piece);
        break;
      case 2:
        bytes.insert(at, piece);
        break;
      case 3:
        bytes.erase(at, 1 + below(8));
        break;
      case 4:
        bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(40)));
        break;
      case 5:
        // Two messages one after the other are one: their fields merge.
        bytes += seeds[below(seeds.size())];
        break;
      default:
        bytes.resize(at);
    }
    if (bytes.size() > 4096) bytes.resize(4096);
  }
  return bytes;
}

TEST(RequestReaderFuzzTest, Corpus) {
  const std::map<std::string, Reading> expected = {
      {"empty", Reading::kInPlace},
      {"end_group", Reading::kRefused},
      {"groups", Reading::kParsed},
      {"length_of_six_bytes", Reading::kRefused},
      {"merged_contents", Reading::kPartlyParsed},
      {"names_utf8", Reading::kInPlace},
      {"no_utf8", Reading::kRefused},
      {"parameters", Reading::kPartlyParsed},
      {"perf_analyzer", Reading::kPartlyParsed},
      {"raw", Reading::kInPlace},
      {"tag_of_two_bytes", Reading::kParsed},
      {"twice", Reading::kInPlace},
      {"typed", Reading::kPartlyParsed},
      {"unknown_fields", Reading::kParsed},
      {"unpacked_shape", Reading::kInPlace},
      {"wrong_wire_type", Reading::kParsed},
  };
  const std::map<std::string, std::string> corpus = Corpus();
  for (const auto& [name, reading] : expected) {
    ASSERT_TRUE(corpus.contains(name)) << name;
    EXPECT_EQ(Fuzz(corpus.at(name)), reading) << name;
  }
}

TEST(RequestReaderFuzzTest, EveryPrefixAndSuffix) {
  for (const auto& [name, bytes] : Corpus()) {
    for (size_t i = 0; i <= bytes.size(); ++i) {
      Fuzz(bytes.substr(0, i));
      Fuzz(bytes.substr(i));
    }
  }
}

TEST(RequestReaderFuzzTest, EveryByteReplaced) {
  for (const auto& [name, bytes] : Corpus()) {
    if (bytes.size() > 300) continue;
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (const std::string& piece : Telling()) {
        std::string bad = bytes;
        Fuzz(bad.replace(i, 1, piece));
      }
    }
  }
}

TEST(RequestReaderFuzzTest, SeededMutations) {
  constexpr int kRounds = 60'000;
  std::mt19937 random(1);
  std::vector<std::string> seeds;
  for (const auto& [name, bytes] : Corpus()) seeds.push_back(bytes);
  std::map<Reading, int> readings;
  for (int i = 0; i < kRounds; ++i) {
    ++readings[Fuzz(
        Mutated(seeds[static_cast<size_t>(i) % seeds.size()], seeds, random))];
  }
  // Each way was really taken, or the loop tested little.
  for (const Reading reading : {Reading::kRefused, Reading::kInPlace,
                                Reading::kPartlyParsed, Reading::kParsed}) {
    EXPECT_GT(readings[reading], kRounds / 50) << static_cast<int>(reading);
  }
}

}  // namespace
}  // namespace stoker
