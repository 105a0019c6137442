// The fuzz target as a plain test: the corpus, its prefixes, and seeded
// mutations.
#include "tests/fuzz/json_request/json_request_fuzz.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace stoker {
namespace {

bool Fuzz(const std::string& text) {
  return FuzzJsonRequest(reinterpret_cast<const uint8_t*>(text.data()),
                         text.size());
}

std::map<std::string, std::string> Corpus() {
  std::map<std::string, std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator("tests/fuzz/json_request/corpus")) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().stem()] = std::string(
        std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

TEST(JsonRequestFuzzTest, Corpus) {
  std::map<std::string, bool> read;
  for (const auto& [name, text] : Corpus()) read[name] = Fuzz(text);
  EXPECT_EQ(read, (std::map<std::string, bool>{{"json", true},
                                               {"binary", true},
                                               {"shared", true},
                                               {"numbers", false},
                                               {"nested", false},
                                               {"unknown", true},
                                               {"half", false}}));
}

TEST(JsonRequestFuzzTest, EveryPrefix) {
  for (const auto& [name, text] : Corpus()) {
    for (size_t i = 0; i < text.size(); ++i) Fuzz(text.substr(0, i));
  }
}

TEST(JsonRequestFuzzTest, SeededMutations) {
  constexpr int kRounds = 50'000;
  std::mt19937 random(1);
  const auto below = [&random](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  std::vector<std::string> seeds;
  for (const auto& [name, text] : Corpus()) seeds.push_back(text);
  int read = 0;
  for (int i = 0; i < kRounds; ++i) {
    std::string text = seeds[below(seeds.size())];
    for (size_t changes = below(4); changes > 0 && !text.empty(); --changes) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = "{}[]\",:0-.eN"[below(12)];
          break;
        case 1:
          text.erase(at, 1 + below(12));
          break;
        case 2:
          text[at] = static_cast<char>(below(256));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), 1 + below(40)));
      }
    }
    read += Fuzz(text) ? 1 : 0;
  }
  EXPECT_GT(read, kRounds / 20);
}

}  // namespace
}  // namespace stoker
