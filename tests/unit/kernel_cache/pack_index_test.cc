#include "kernel_cache/pack_index.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernel_cache/entry_check.h"
#include "kernel_cache/ustar.h"
#include "tests/unit/kernel_cache/pack_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

PackIndex SmallIndex() {
  PackIndex index;
  std::map<std::string, PackMember> members;
  for (const std::string bucket : {"1", "8"}) {
    const KeyFactors factors = FactorsOf(bucket);
    const std::string manifest = PackManifest(factors, SmallArtifact());
    const ArtifactKey key(factors);
    index.entries.push_back(*DescribeEntry(key, manifest));
    const std::vector<PackMember> files = *MembersOfEntry(key, manifest);
    for (const PackMember& file : files) members[file.name] = file;
    const std::string note = PackNoteName(key, "verdict-1.json");
    members[note] = {note, 2, Sha256Hex("{}")};
  }
  std::sort(index.entries.begin(), index.entries.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  for (const auto& [name, member] : members) index.members.push_back(member);
  return index;
}

void ExpectRefused(const std::string& json, const std::string& message) {
  const absl::Status status = ParsePackIndex(json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json;
  EXPECT_THAT(status.message(), HasSubstr(message));
}
void ExpectRefused(const PackIndex& index, const std::string& message) {
  EXPECT_THAT(CheckPackIndex(index).message(), HasSubstr(message));
  ExpectRefused(PackIndexJson(index), message);
}

TEST(PackIndexTest, TextAndBack) {
  const PackIndex index = SmallIndex();
  const std::string json = PackIndexJson(index);
  const absl::StatusOr<PackIndex> parsed = ParsePackIndex(json);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->entries, index.entries);
  EXPECT_EQ(parsed->members, index.members);
  EXPECT_EQ(parsed->members.size(), 10u);
  EXPECT_EQ(json.find(' '), std::string::npos);
}

TEST(PackIndexTest, SaysWhatAnEntryIs) {
  const KeyFactors factors = FactorsOf("8");
  const absl::StatusOr<PackEntry> entry = DescribeEntry(
      ArtifactKey(factors), PackManifest(factors, SmallArtifact()));
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->model, "minilm:1");
  EXPECT_EQ(entry->bucket, "batch=8");
  EXPECT_EQ(entry->compile_seconds, 18.2);
  EXPECT_EQ(entry->factors, factors);
}

TEST(PackIndexTest, HardwareIsWhatTheMachineHasAndNotWhatTheModelIs) {
  PackIndex index = SmallIndex();
  index.entries[1].factors["cpu.march"] = "x86-64-v3";
  index.entries[1].factors["torch_git"] = "70d99e";
  index.entries[1].factors["cpuset"] = "0";
  const PackHardware hardware = HardwareOf(index.entries);
  EXPECT_EQ(hardware, (PackHardware{{"cpu.march", {"x86-64-v3", "x86-64-v4"}},
                                    {"device", {"cpu"}},
                                    {"torch", {"2.11.0"}},
                                    {"torch_git", {"70d99e"}}}));
}

TEST(PackIndexTest, MembersOfAnEntry) {
  const KeyFactors factors = FactorsOf("8");
  const ArtifactKey key(factors);
  const std::string manifest = PackManifest(factors, SmallArtifact());
  const absl::StatusOr<std::vector<PackMember>> members =
      MembersOfEntry(key, manifest);
  ASSERT_TRUE(members.ok()) << members.status();
  std::vector<std::string> names;
  for (const PackMember& member : *members) {
    const std::optional<PackPlace> place = ParsePackMemberName(member.name);
    ASSERT_TRUE(place.has_value()) << member.name;
    EXPECT_EQ(place->key, key);
    names.push_back(place->name);
  }
  EXPECT_THAT(names, ElementsAre("manifest.json", "manifest.sha256",
                                 "model.json", "model.so"));
  EXPECT_EQ(members->at(0).sha256, Sha256Hex(manifest));
  EXPECT_EQ(members->at(1).sha256, Sha256Hex(SealOf(manifest)));
}

TEST(PackIndexTest, MemberNames) {
  const ArtifactKey key(FactorsOf("8"));
  const std::string hex = key.hex();
  EXPECT_EQ(PackEntryFileName(key, "model.so"),
            "v1/entries/" + hex.substr(0, 2) + "/" + hex + "/model.so");
  const std::string folder = PackEntryFileName(key, "");
  const std::string notes = PackNoteName(key, "");
  EXPECT_EQ(ParsePackMemberName(notes + "a-1.json")->kind,
            PackPlace::Kind::kNote);
  for (const std::string& name : std::vector<std::string>{
           std::string(),
           std::string("model.so"),
           "/" + folder + "model.so",
           "./" + folder + "model.so",
           folder,
           folder + ".",
           folder + "..",
           folder + "../x",
           folder + "a/b",
           folder + "a b",
           folder + "a\\b",
           folder + std::string("a\0b", 3),
           folder + "\x7f",
           folder + "\xc3\xa4",
           folder + std::string(101, 'n'),
           "v1/entries/00/" + hex + "/model.so",
           "v1/entries/" + hex + "/model.so",
           "v1/staging/" + hex + "/model.so",
           "v2/" + folder.substr(3) + "model.so",
           notes,
           notes + ".hidden",
           notes + "Capital",
           notes + "pinned",
           "v1/notes/x/note",
           "index.json/" + hex + "/x",
           "../" + hex + "/x",
           hex + "/x",
       }) {
    EXPECT_FALSE(ParsePackMemberName(name).has_value()) << name;
  }
}

TEST(PackIndexTest, RefusesAnOtherFormatOrVersion) {
  Json json = Json::parse(PackIndexJson(SmallIndex()));
  json["version"] = 2;
  ExpectRefused(json.dump(), "expected version 1, found 2");
  json["version"] = "1";
  ExpectRefused(json.dump(), "expected version 1, found string");
  json["format"] = "zip";
  ExpectRefused(json.dump(), "format \"stoker-kernel-pack\"");
  for (const std::string& none :
       {std::string(), std::string("{}"), std::string("[]"), std::string("7"),
        std::string(100'000, '['), std::string("{\"format\":")}) {
    ExpectRefused(none, "format \"stoker-kernel-pack\"");
  }
}

TEST(PackIndexTest, RefusesEveryTextButOne) {
  const std::string good = PackIndexJson(SmallIndex());
  const std::string message = "expected the canonical text";
  ExpectRefused(good + "\n", message);
  ExpectRefused(Json::parse(good).dump(1), message);
  Json more = Json::parse(good);
  more["comment"] = "x";
  ExpectRefused(more.dump(), message);
  more = Json::parse(good);
  more["entries"][0]["host"] = "x";
  ExpectRefused(more.dump(), message);
  more = Json::parse(good);
  more["hardware"]["device"] = {"cuda"};
  ExpectRefused(more.dump(), message);
  std::string twice = good;
  twice.insert(1, "\"version\":2,");
  ExpectRefused(twice, message);
}

TEST(PackIndexTest, RefusesFieldsOfAnotherType) {
  const Json good = Json::parse(PackIndexJson(SmallIndex()));
  struct Case {
    std::string pointer;
    Json value;
    std::string message;
  };
  for (const Case& c : {
           Case{"/entries", 1, "arrays \"entries\" and \"members\""},
           Case{"/members", nullptr, "arrays \"entries\" and \"members\""},
           Case{"/entries/0", "x", "entries.0.key: expected a text"},
           Case{"/entries/0/key", 1, "entries.0.key: expected a text"},
           Case{"/entries/0/key", std::string(64, '0'), "of its factors"},
           Case{"/entries/1/factors", 1, "entries.1.factors: expected an obj"},
           Case{"/entries/1/factors/graph", 1, "graph: expected a text"},
           Case{"/entries/1/factors/graph", "other", "that of its factors"},
           Case{"/entries/0/model", nullptr, "entries.0.model: expected"},
           Case{"/entries/0/bucket", 1, "entries.0.bucket: expected"},
           Case{"/entries/0/compile_seconds", "1", "expected a number"},
           Case{"/members/3/name", 1, "members.3.name: expected a text"},
           Case{"/members/3/bytes", -1, "members.3.bytes: expected a size"},
           Case{"/members/3/bytes", 1.5, "members.3.bytes: expected a size"},
           Case{"/members/3/bytes", "1", "members.3.bytes: expected a size"},
           Case{"/members/3/bytes", ~uint64_t{0}, "found 18446744073709551615"},
           Case{"/members/3/sha256", "0", "64 lower-case hexadecimal digits"},
           Case{"/members/3/sha256", std::string(64, 'A'), "hexadecimal"},
       }) {
    Json bad = good;
    bad[Json::json_pointer(c.pointer)] = c.value;
    ExpectRefused(bad.dump(), c.message);
  }
}

TEST(PackIndexTest, RefusesWhatIsOutOfOrderOrTwice) {
  PackIndex index = SmallIndex();
  std::swap(index.entries[0], index.entries[1]);
  ExpectRefused(index, "expected entries by key, each once");
  index = SmallIndex();
  index.entries.push_back(index.entries.back());
  ExpectRefused(index, "expected entries by key, each once");
  index = SmallIndex();
  std::swap(index.members[0], index.members[1]);
  ExpectRefused(index, "expected members by name, each once");
  index = SmallIndex();
  index.members.push_back(index.members.back());
  ExpectRefused(index, "expected members by name, each once");
}

TEST(PackIndexTest, RefusesMembersThatBelongNowhere) {
  PackIndex index = SmallIndex();
  index.members.back().name = "v1/../../etc/passwd";
  index.members.pop_back();
  index.members.push_back({"v1/z/../../etc/passwd", 1, std::string(64, '0')});
  ExpectRefused(index, "member \"v1/z/../../etc/passwd\": expected a file of");
  index = SmallIndex();
  index.entries.pop_back();
  ExpectRefused(index, "expected one of an entry of the pack");
  index = SmallIndex();
  index.entries.clear();
  index.members.clear();
  ExpectRefused(index, "expected at least one entry, found none");
  index = SmallIndex();
  std::erase_if(index.members, [](const PackMember& member) {
    return member.name.ends_with("/manifest.json");
  });
  ExpectRefused(index, "/manifest.json, found none of that name");
}

TEST(PackIndexTest, RefusesAbsurdSizes) {
  const auto with = [](const std::string& name, int64_t bytes) {
    PackIndex index = SmallIndex();
    for (PackMember& member : index.members) {
      if (member.name.ends_with("/" + name)) member.bytes = bytes;
    }
    return index;
  };
  ExpectRefused(with("manifest.json", kMaxPackManifestBytes + 1),
                "expected at most 16777216 bytes, found 16777217");
  ExpectRefused(with("verdict-1.json", kMaxPackNotesBytes + 1),
                "expected at most 67108864 bytes, found 67108865");
  // Each may be there, but not both.
  ExpectRefused(with("verdict-1.json", kMaxPackNotesBytes / 2 + 1),
                "expected at most 33554431 bytes, found 33554433");
  EXPECT_TRUE(
      CheckPackIndex(with("verdict-1.json", kMaxPackNotesBytes / 2)).ok());
}

TEST(PackIndexTest, ManifestsThatDescribeNothing) {
  const KeyFactors factors = FactorsOf("8");
  const ArtifactKey key(factors);
  Json manifest = Json::parse(PackManifest(factors, SmallArtifact()));
  for (const std::string field :
       {"key", "factors", "model", "bucket", "seconds"}) {
    Json bad = manifest;
    bad.erase(field);
    EXPECT_EQ(DescribeEntry(key, bad.dump()).status().code(),
              absl::StatusCode::kInvalidArgument)
        << field;
  }
  const ArtifactKey other(FactorsOf("1"));
  EXPECT_THAT(DescribeEntry(other, manifest.dump()).status().message(),
              HasSubstr("expected " + other.hex() + ", found " + key.hex()));
  for (const std::string name : {"..", "a/b", "", "manifest.json"}) {
    Json bad = manifest;
    bad["files"][name] = bad["files"]["model.so"];
    EXPECT_THAT(MembersOfEntry(key, bad.dump()).status().message(),
                HasSubstr("expected names of files beside it"));
  }
  manifest.erase("files");
  EXPECT_FALSE(MembersOfEntry(key, manifest.dump()).ok());
  EXPECT_FALSE(MembersOfEntry(key, "x").ok());
}

}  // namespace
}  // namespace stoker
