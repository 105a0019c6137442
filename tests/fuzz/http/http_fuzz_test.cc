// The fuzz target as a plain test: the corpus with what comes of it, its
// prefixes, and seeded mutations.
#include "tests/fuzz/http/http_fuzz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

HttpOutcome Fuzz(const std::string& bytes) {
  return FuzzHttp(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

std::map<std::string, std::string> Corpus() {
  std::map<std::string, std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator("tests/fuzz/http/corpus")) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().stem()] = std::string(
        std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

// What each file's name begins with is the status of its first answer.
TEST(HttpFuzzTest, Corpus) {
  const std::map<std::string, std::string> corpus = Corpus();
  ASSERT_GE(corpus.size(), 20u);
  for (const auto& [name, bytes] : corpus) {
    EXPECT_THAT(Fuzz(bytes).answers,
                StartsWith("HTTP/1.1 " + name.substr(0, 3) + " "))
        << name;
  }
  EXPECT_EQ(Fuzz(corpus.at("200_pipelined")).bodies, 3);
  EXPECT_EQ(Fuzz(corpus.at("200_gzip")).bodies, 1);
  EXPECT_THAT(Fuzz(corpus.at("100_continue")).answers,
              HasSubstr("HTTP/1.1 200 "));
  EXPECT_TRUE(Fuzz(corpus.at("200_http_1_0")).hung_up);
  EXPECT_EQ(Fuzz(corpus.at("400_both_lengths")).bodies, 0);
}

TEST(HttpFuzzTest, EveryPrefix) {
  for (const auto& [name, bytes] : Corpus()) {
    if (bytes.size() > 600) continue;
    for (size_t i = 0; i <= bytes.size(); ++i) Fuzz(bytes.substr(0, i));
  }
}

TEST(HttpFuzzTest, SeededMutations) {
  constexpr int kRounds = 4'000;
  std::mt19937 random(1);
  const auto below = [&random](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  std::vector<std::string> seeds;
  for (const auto& [name, bytes] : Corpus()) seeds.push_back(bytes);
  int bodies = 0;
  for (int i = 0; i < kRounds; ++i) {
    std::string bytes = seeds[below(seeds.size())];
    for (size_t changes = below(5); changes > 0 && !bytes.empty(); --changes) {
      const size_t at = below(bytes.size());
      switch (below(5)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
          break;
        case 1:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 2:
          bytes.erase(at, 1 + below(12));
          break;
        case 3:
          bytes += seeds[below(seeds.size())];
          break;
        default:
          bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(40)));
      }
    }
    bodies += Fuzz(bytes).bodies;
  }
  EXPECT_GT(bodies, kRounds / 10);
}

}  // namespace
}  // namespace stoker
