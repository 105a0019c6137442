#include "kernel_cache/artifact_key.h"

#include <set>
#include <string>

#include "base/sha256.h"
#include "gtest/gtest.h"

namespace stoker {
namespace {

TEST(CanonicalJsonTest, SortsAndHasNoSpaces) {
  EXPECT_EQ(CanonicalJson({}), "{}");
  EXPECT_EQ(CanonicalJson({{"graph", "abc"}, {"bucket.s43", "8"}, {"b", ""}}),
            R"({"b":"","bucket.s43":"8","graph":"abc"})");
}

TEST(CanonicalJsonTest, EscapesAsPythonDoes) {
  // json.dumps({'a"\\/': '\b\f\n\r\t\x01\x1f\x7fé'}, ensure_ascii=False, ...)
  EXPECT_EQ(CanonicalJson({{"a\"\\/", "\b\f\n\r\t\x01\x1f\x7f\xc3\xa9"}}),
            "{\"a\\\"\\\\/\":\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\"}");
  EXPECT_EQ(CanonicalJson({{"nul", std::string(1, '\0')}}),
            R"({"nul":"\u0000"})");
}

TEST(ArtifactKeyTest, IsTheDigestOfTheCanonicalJson) {
  const KeyFactors factors = {{"graph", "abc"}, {"cpu.march", "x86-64-v4"}};
  const ArtifactKey key(factors);
  EXPECT_EQ(key.hex(), Sha256Hex(CanonicalJson(factors)));
  EXPECT_EQ(key.Short(), key.hex().substr(0, 12));
  EXPECT_EQ(key, ArtifactKey(factors));
}

TEST(ArtifactKeyTest, ChangingAnyFactorChangesTheKey) {
  const KeyFactors base = {{"graph", "abc"}, {"bucket.s43", "8"}, {"x", "y"}};
  std::set<std::string> seen = {ArtifactKey(base).hex()};
  for (const auto& [name, value] : base) {
    KeyFactors changed = base;
    changed[name] += "0";
    EXPECT_TRUE(seen.insert(ArtifactKey(changed).hex()).second) << name;
    changed.erase(name);
    EXPECT_TRUE(seen.insert(ArtifactKey(changed).hex()).second) << name;
    changed[name + "0"] = value;
    EXPECT_TRUE(seen.insert(ArtifactKey(changed).hex()).second) << name;
  }
  // Text that imitates the separators does not run two factors together.
  const KeyFactors one = {{"a", "1\",\"b\":\"2"}};
  const KeyFactors two = {{"a", "1"}, {"b", "2"}};
  EXPECT_NE(ArtifactKey(one), ArtifactKey(two));
}

TEST(ArtifactKeyTest, FromHexTakesOnlyFolderNames) {
  const ArtifactKey key(KeyFactors{{"a", "b"}});
  EXPECT_EQ(ArtifactKey::FromHex(key.hex()), key);
  for (const std::string& bad :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'),
        std::string(64, 'A'), std::string(64, 'g'),
        std::string("../") + std::string(61, 'a')}) {
    EXPECT_EQ(ArtifactKey::FromHex(bad).hex(), "") << bad;
  }
}

}  // namespace
}  // namespace stoker
