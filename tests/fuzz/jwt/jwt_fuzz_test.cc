// The fuzz target as a plain test: the corpus, its prefixes, and seeded
// mutations.
#include "tests/fuzz/jwt/jwt_fuzz.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace stoker {
namespace {

FuzzedJwt Fuzz(const std::string& text) {
  return FuzzJwt(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

std::map<std::string, std::string> Corpus() {
  std::map<std::string, std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator("tests/fuzz/jwt/corpus")) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().stem()] = std::string(
        std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

TEST(JwtFuzzTest, Corpus) {
  std::map<std::string, FuzzedJwt> found;
  for (const auto& [name, text] : Corpus()) found[name] = Fuzz(text);
  EXPECT_EQ(found,
            (std::map<std::string, FuzzedJwt>{{"eddsa", FuzzedJwt::kGood},
                                              {"es256", FuzzedJwt::kRefused},
                                              {"rs256", FuzzedJwt::kRefused},
                                              {"none", FuzzedJwt::kNoToken},
                                              {"secret", FuzzedJwt::kNoKeys},
                                              {"nested", FuzzedJwt::kNoKeys}}));
}

TEST(JwtFuzzTest, EveryPrefix) {
  for (const auto& [name, text] : Corpus()) {
    for (size_t i = 0; i < text.size(); ++i) {
      EXPECT_LT(Fuzz(text.substr(0, i)), FuzzedJwt::kRefused) << name << i;
    }
  }
}

// Changes anything but the signed text's meaning to somebody.
TEST(JwtFuzzTest, SeededMutations) {
  constexpr int kRounds = 5'000;
  std::mt19937 random(1);
  const auto below = [&random](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  std::vector<std::string> seeds;
  for (const auto& [name, text] : Corpus()) seeds.push_back(text);
  int with_keys = 0;
  for (int i = 0; i < kRounds; ++i) {
    std::string text = seeds[below(seeds.size())];
    for (size_t changes = 1 + below(3); changes > 0 && !text.empty();
         --changes) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = "{}[]\",:.AQ-_\n="[below(14)];
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
    with_keys += Fuzz(text) != FuzzedJwt::kNoKeys ? 1 : 0;
  }
  EXPECT_GT(with_keys, kRounds / 20);
}

}  // namespace
}  // namespace stoker
