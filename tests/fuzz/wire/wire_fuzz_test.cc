// The fuzz target as a plain test: the corpus, its prefixes, and seeded
// mutations of its frames.
#include "tests/fuzz/wire/wire_fuzz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace stoker {
namespace {

WireOutcome Fuzz(const std::string& bytes) {
  return FuzzWire(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

std::map<std::string, std::string> Corpus() {
  std::map<std::string, std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator("tests/fuzz/wire/corpus")) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().stem()] = std::string(
        std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

TEST(WireFuzzTest, Corpus) {
  const std::map<std::string, std::string> corpus = Corpus();
  const auto outcome = [&](const std::string& name) {
    EXPECT_TRUE(corpus.contains(name)) << name;
    return corpus.contains(name) ? Fuzz(corpus.at(name)) : WireOutcome();
  };
  EXPECT_EQ(outcome("unary").messages, 1);
  EXPECT_EQ(outcome("stream").messages, 3);
  EXPECT_EQ(outcome("gzip").messages, 1);
  EXPECT_EQ(outcome("deflate").messages, 1);
  EXPECT_EQ(outcome("split").messages, 1);
  EXPECT_EQ(outcome("continuation").messages, 1);
  EXPECT_EQ(outcome("padded").messages, 1);
  EXPECT_EQ(outcome("reset").calls, 1);
  EXPECT_EQ(outcome("unknown_method").calls, 0);
  EXPECT_EQ(outcome("too_long").messages, 0);
  EXPECT_TRUE(outcome("ping_flood").hung_up);
  EXPECT_TRUE(outcome("window_overflow").hung_up);
  EXPECT_TRUE(outcome("bad_table_index").hung_up);
}

TEST(WireFuzzTest, EveryPrefix) {
  for (const auto& [name, bytes] : Corpus()) {
    if (bytes.size() > 600) continue;
    for (size_t i = 0; i <= bytes.size(); ++i) Fuzz(bytes.substr(0, i));
  }
}

TEST(WireFuzzTest, SeededMutations) {
  const char* const wanted = std::getenv("STOKER_FUZZ_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 4'000;
  const unsigned seed = wanted != nullptr ? std::random_device()() : 1;
  std::mt19937 random(seed);
  const auto below = [&random](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  std::vector<std::string> seeds;
  for (const auto& [name, bytes] : Corpus()) seeds.push_back(bytes);
  int64_t frames = 0, messages = 0, hung_up = 0;
  for (int i = 0; i < rounds; ++i) {
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
    const WireOutcome outcome = Fuzz(bytes);
    frames += outcome.frames;
    messages += outcome.messages;
    hung_up += outcome.hung_up ? 1 : 0;
  }
  std::printf("seed %u: %lld frames, %lld messages\n", seed,
              static_cast<long long>(frames), static_cast<long long>(messages));
  // Both ways were really taken, or the loop tested little.
  EXPECT_GT(messages, rounds / 20);
  EXPECT_GT(hung_up, rounds / 20);
}

}  // namespace
}  // namespace stoker
