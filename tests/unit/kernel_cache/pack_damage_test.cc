// Packs that are damaged, or made to do damage.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernel_cache/entry_check.h"
#include "kernel_cache/pack.h"
#include "tests/unit/kernel_cache/pack_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class PackDamageTest : public PackFixture {
 protected:
  // Of those bytes as a file.
  absl::Status Import(KernelCache& cache, const std::string& archive) {
    WriteBytes(folder_ / "bad.pack", archive);
    return ImportPack(cache, folder_ / "bad.pack", anybody_, local_).status();
  }
  void ExpectRefused(const std::string& archive, const std::string& message) {
    auto cache = Open("refusing");
    const absl::Status status = Import(*cache, archive);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(status.message(), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()),
                StartsWith("pack " + folder_.path()));
    EXPECT_THAT(Names("refusing", "entries"), IsEmpty());
    EXPECT_THAT(Names("refusing", "notes"), IsEmpty());
    EXPECT_THAT(Names("refusing", "staging"), IsEmpty());
  }
};

TEST_F(PackDamageTest, EveryFlippedByteIsRefused) {
  const SigningKey key = MakeKey("key.pem");
  auto cache = Open("b");
  const auto expect_refused = [&](std::string pack, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const char good = pack[i];
      pack[i] = static_cast<char>(good ^ 1 << (i % 8));
      const absl::Status status = Import(*cache, pack);
      ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
          << "byte " << i << ": " << status;
      pack[i] = good;
    }
  };
  // Without a signature the rest of the pack gives a changed index away.
  const std::string pack = SmallPack();
  expect_refused(pack, 0, pack.size());
  // All that a signature adds.
  const std::string signed_pack = SmallPack(&key);
  const size_t begin = signed_pack.find(*UstarHeader(
      "index.json.sig",
      static_cast<int64_t>(FilesOf(signed_pack)[1].second.size())));
  ASSERT_NE(begin, std::string::npos);
  expect_refused(signed_pack, begin, begin + 2 * kUstarBlockBytes);
  EXPECT_THAT(Names("b", "entries"), IsEmpty());
  EXPECT_THAT(Names("b", "notes"), IsEmpty());
  EXPECT_THAT(Names("b", "staging"), IsEmpty());
}

TEST_F(PackDamageTest, EveryTruncationIsRefused) {
  const std::string good = SmallPack();
  auto cache = Open("b");
  for (size_t size = 0; size < good.size(); ++size) {
    const absl::Status status = Import(*cache, good.substr(0, size));
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
        << size << ": " << status;
  }
  EXPECT_THAT(Names("b", "entries"), IsEmpty());
  EXPECT_TRUE(Import(*cache, good).ok());
}

TEST_F(PackDamageTest, BlocksThatAreLostDoubledOrSwappedAreRefused) {
  const std::string good = SmallPack();
  const size_t count = good.size() / kUstarBlockBytes;
  const auto block = [&good](size_t i) {
    return good.substr(i * kUstarBlockBytes, kUstarBlockBytes);
  };
  auto cache = Open("b");
  for (size_t i = 0; i < count; ++i) {
    const std::string before = good.substr(0, i * kUstarBlockBytes);
    const std::string after = good.substr((i + 1) * kUstarBlockBytes);
    std::vector<std::string> bad = {before + after,
                                    before + block(i) + block(i) + after};
    for (size_t k = i + 1; k < count; ++k) {
      if (block(i) == block(k)) continue;
      bad.push_back(good);
      bad.back().replace(i * kUstarBlockBytes, kUstarBlockBytes, block(k));
      bad.back().replace(k * kUstarBlockBytes, kUstarBlockBytes, block(i));
    }
    for (const std::string& pack : bad) {
      ASSERT_EQ(Import(*cache, pack).code(), absl::StatusCode::kInvalidArgument)
          << i;
    }
  }
  EXPECT_THAT(Names("b", "entries"), IsEmpty());
  EXPECT_THAT(Names("b", "staging"), IsEmpty());
}

// A pipe has no length that could be compared with the index first.
TEST_F(PackDamageTest, ThroughAPipeTooTruncationsAreRefused) {
  const std::string good = SmallPack();
  auto cache = Open("b");
  const auto import = [&](const std::string& bytes) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_GE(fcntl(ends[1], F_SETPIPE_SZ, 1 << 20), 1 << 20);
    EXPECT_EQ(write(ends[1], bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
    close(ends[1]);
    const absl::Status status =
        ImportPack(*cache, "/proc/self/fd/" + std::to_string(ends[0]), anybody_,
                   local_)
            .status();
    close(ends[0]);
    return status;
  };
  for (size_t size = 0; size < good.size(); size += 61) {
    ASSERT_EQ(import(good.substr(0, size)).code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
  EXPECT_THAT(import(good + "x").message(), HasSubstr("more behind it"));
  EXPECT_THAT(Names("b", "entries"), IsEmpty());
  EXPECT_THAT(Names("b", "staging"), IsEmpty());
  EXPECT_TRUE(import(good).ok());
}

TEST_F(PackDamageTest, WhatFollowsTheEndIsRefused) {
  const std::string good = SmallPack();
  for (const std::string& tail :
       {std::string(1, '\0'), std::string(512, '\0'), std::string("x"), good}) {
    ExpectRefused(good + tail, "expected " + std::to_string(good.size()) +
                                   " bytes, found " +
                                   std::to_string(good.size() + tail.size()));
  }
}

TEST_F(PackDamageTest, ErrorsNameMemberExpectedAndFound) {
  const ArchiveFiles good = FilesOf(SmallPack());
  const std::string name = PackEntryFileName(key8_, "model.so");
  ArchiveFiles files = good;
  const auto model =
      std::find_if(files.begin(), files.end(),
                   [&name](const auto& file) { return file.first == name; });
  const std::string before = Sha256Hex(model->second);
  model->second[3] = 'x';
  ExpectRefused(ArchiveOf(files), "member " + name + ": expected SHA-256 " +
                                      before + ", found " +
                                      Sha256Hex(model->second));
  model->first = "v1/entries/../../x";
  model->second[3] = 'F';
  std::string archive = ArchiveOf(files);
  archive.resize(ArchiveOf(good).size());
  ExpectRefused(archive, "expected a file \"" + name + "\"");
}

// Each stands where the index promises model.so of an entry.
TEST_F(PackDamageTest, LinksDevicesAndFoldersAreRefused) {
  const std::string good = SmallPack();
  const std::string name = PackEntryFileName(key8_, "model.so");
  const std::string header = *UstarHeader(
      name, static_cast<int64_t>(SmallArtifact().at("model.so").size()));
  const size_t at = good.find(header);
  ASSERT_NE(at, std::string::npos);
  for (const auto& [type, kind] :
       std::map<char, std::string>{{'1', "a hard link"},
                                   {'2', "a symbolic link"},
                                   {'3', "a device"},
                                   {'4', "a device"},
                                   {'5', "a folder"},
                                   {'6', "a pipe"},
                                   {'x', "an extension header"},
                                   {'L', "an extension header"},
                                   {'\0', "a file"}}) {
    std::string bad = good;
    bad[at + 156] = type;
    // The checksum is the sum of all bytes with its own eight as spaces.
    unsigned sum = 8 * ' ';
    for (size_t i = 0; i < kUstarBlockBytes; ++i) {
      if (i < 148 || i >= 156) sum += static_cast<unsigned char>(bad[at + i]);
    }
    char digits[8];
    snprintf(digits, sizeof(digits), "%06o", sum);
    bad.replace(at + 148, 7, digits, 7);
    ExpectRefused(bad, "as packs have it, found " + kind + " \"" + name + "\"");
  }
}

TEST_F(PackDamageTest, MembersThatTheIndexDoesNotNameAreRefused) {
  ArchiveFiles files = FilesOf(SmallPack());
  files.insert(files.begin() + 1, {"v1/staging/x", "x"});
  // As long as the index says, so that the length does not give it away.
  files.erase(files.end() - 1);
  const std::string good = SmallPack();
  std::string archive = ArchiveOf(files);
  archive.resize(good.size());
  ExpectRefused(archive, "found a file \"v1/staging/x\" of 1 bytes");
}

TEST_F(PackDamageTest, AnIndexThatLiesIsRefused) {
  const ArchiveFiles good = FilesOf(SmallPack());
  struct Case {
    std::string what;
    std::function<void(PackIndex&, std::map<std::string, std::string>&)> change;
    std::string message;
  };
  const std::string model_json = PackEntryFileName(key8_, "model.json");
  const std::string seal = PackEntryFileName(key8_, kSealName);
  const auto set = [](PackIndex& index,
                      std::map<std::string, std::string>& files,
                      const std::string& name, const std::string& content) {
    files[name] = content;
    std::erase_if(index.members,
                  [&](const PackMember& m) { return m.name == name; });
    index.members.push_back(
        {name, static_cast<int64_t>(content.size()), Sha256Hex(content)});
    std::sort(index.members.begin(), index.members.end(),
              [](const PackMember& a, const PackMember& b) {
                return a.name < b.name;
              });
  };
  const std::vector<Case> cases = {
      {"another model",
       [](auto& index, auto&) { index.entries[0].model = "bert:1"; },
       "expected what its manifest says"},
      {"a quicker compile",
       [](auto& index, auto&) { index.entries[1].compile_seconds = 1; },
       "expected what its manifest says"},
      {"a file less",
       [&](auto& index, auto& files) {
         files.erase(model_json);
         std::erase_if(index.members, [&](const PackMember& m) {
           return m.name == model_json;
         });
       },
       "expected the files of its manifest"},
      {"a file more",
       [&](auto& index, auto& files) {
         set(index, files, PackEntryFileName(key8_, "model.zzz"), "code");
       },
       "model.zzz: expected the files of its manifest"},
      {"another file",
       [&](auto& index, auto& files) { set(index, files, model_json, "[]"); },
       "model.json: expected the files of its manifest"},
      {"another seal",
       [&](auto& index, auto& files) { set(index, files, seal, SealOf("{}")); },
       "manifest.sha256: expected the files of its manifest"},
      {"a manifest that is none",
       [&](auto& index, auto& files) {
         set(index, files, PackEntryFileName(key8_, kManifestName), "{}");
       },
       "key: expected a text, found null"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    PackIndex index = *ParsePackIndex(good[0].second);
    std::map<std::string, std::string> files(good.begin() + 1, good.end());
    c.change(index, files);
    ArchiveFiles bad = {{"index.json", PackIndexJson(index)}};
    bad.insert(bad.end(), files.begin(), files.end());
    ExpectRefused(ArchiveOf(bad), c.message);
  }
}

TEST_F(PackDamageTest, AHugeClaimIsNotBelieved) {
  PackIndex index = *ParsePackIndex(FilesOf(SmallPack())[0].second);
  for (PackMember& member : index.members) {
    if (member.name.ends_with("/model.so")) member.bytes = kUstarMaxFileBytes;
  }
  ExpectRefused(ArchiveOf({{"index.json", PackIndexJson(index)}}),
                "bytes, found");
  for (const int64_t bytes : {kMaxPackIndexBytes + 1, kUstarMaxFileBytes}) {
    ExpectRefused(*UstarHeader("index.json", bytes),
                  "member index.json: expected at most 33554432 bytes");
  }
  ExpectRefused(*UstarHeader("index.json", kMaxPackIndexBytes),
                "member index.json: expected 33554432 bytes, found 0 and the "
                "end of the file");
}

TEST_F(PackDamageTest, WhatIsNoPackIsRefused) {
  ExpectRefused("", "expected a tar header, found 0 bytes");
  ExpectRefused(std::string(600, 'x'), "no tar header, or a damaged one");
  ExpectRefused(std::string(10240, '\0'), "found the end of the archive");
  ExpectRefused(ArchiveOf({{"hello.txt", "hello"}}),
                "expected file index.json as packs have it, found a file "
                "\"hello.txt\" of 5 bytes");
  ExpectRefused(ArchiveOf({{"index.json", "{}"}}), "stoker-kernel-pack");
}

}  // namespace
}  // namespace stoker
