#include "kernel_cache/pack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernel_cache/entry_check.h"
#include "tests/fakes/faulty_files.h"
#include "tests/unit/kernel_cache/pack_fixture.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr char kVerdict[] = "verdict-36a32f.json";

class PackTest : public PackFixture {
 protected:
  // A cache with two entries, one of which has notes.
  std::unique_ptr<KernelCache> FullCache(const std::string& name) {
    auto cache = Open(name);
    Add(*cache, FactorsOf("8"));
    Add(*cache, FactorsOf("1"), {{"model.so", "other code"}});
    EXPECT_TRUE(cache->WriteNote(key8_, kVerdict, "{\"promote\":true}").ok());
    EXPECT_TRUE(cache->WriteNote(key8_, "empty", "").ok());
    return cache;
  }
  std::string SmallPack(const SigningKey* signer = nullptr) {
    return ReadBytes(Export(*FullCache("source"), signer));
  }

  // Of those bytes as a file.
  absl::Status Import(KernelCache& cache, const std::string& archive) {
    WriteBytes(folder_ / "bad.pack", archive);
    return ImportPack(cache, folder_ / "bad.pack", anybody_).status();
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

  SigningKey MakeKey(const std::string& name) {
    const std::string path = folder_ / name;
    const std::string command =
        "openssl genpkey -algorithm ed25519 -out " + path;
    EXPECT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return *SigningKey::Load(path);
  }

  const ArtifactKey key8_{FactorsOf("8")};
  const ArtifactKey key1_{FactorsOf("1")};
};

TEST_F(PackTest, WhatIsExportedIsImported) {
  const std::string pack = Export(*FullCache("a"));
  auto b = Open("b");
  const absl::StatusOr<ImportedPack> imported = ImportPack(*b, pack, anybody_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->committed, b->Keys());
  EXPECT_THAT(imported->present, IsEmpty());
  EXPECT_EQ(imported->signature.kind, SignatureVerdict::Kind::kUnsigned);
  EXPECT_EQ(b->Keys().size(), 2u);
  EXPECT_TRUE(HoldsArtifact(b->Lookup(key8_)->folder));
  EXPECT_TRUE(
      HoldsArtifact(b->Lookup(key1_)->folder, {{"model.so", "other code"}}));
  EXPECT_EQ(b->ReadNote(key8_, kVerdict), "{\"promote\":true}");
  EXPECT_EQ(b->ReadNote(key8_, "empty"), "");
  EXPECT_THAT(b->NoteNames(key1_), IsEmpty());
  EXPECT_THAT(Names("b", "staging"), IsEmpty());
  // And on from there, unchanged.
  EXPECT_EQ(ReadBytes(Export(*b, nullptr, "again.pack")), ReadBytes(pack));
}

TEST_F(PackTest, SameEntriesSameBytes) {
  auto a = FullCache("a");
  auto b = Open("elsewhere");
  ASSERT_TRUE(b->WriteNote(key8_, "empty", "").ok());
  Add(*b, FactorsOf("1"), {{"model.so", "other code"}});
  Add(*b, FactorsOf("8"));
  ASSERT_TRUE(b->WriteNote(key8_, kVerdict, "{\"promote\":true}").ok());
  ASSERT_TRUE(ExportPack(*a, {key8_, key1_}, folder_ / "a.pack", nullptr).ok());
  ASSERT_TRUE(
      ExportPack(*b, {key1_, key8_, key1_}, folder_ / "b.pack", nullptr).ok());
  EXPECT_EQ(ReadBytes(folder_ / "a.pack"), ReadBytes(folder_ / "b.pack"));
  const SigningKey key = MakeKey("key.pem");
  EXPECT_EQ(ReadBytes(Export(*a, &key, "a.pack")),
            ReadBytes(Export(*b, &key, "b.pack")));
}

TEST_F(PackTest, OrderIsTheIndexThenByName) {
  const SigningKey key = MakeKey("key.pem");
  const ArchiveFiles files = FilesOf(SmallPack(&key));
  EXPECT_EQ(files[0].first, "index.json");
  EXPECT_EQ(files[1].first, "index.json.sig");
  EXPECT_TRUE(std::is_sorted(files.begin(), files.end()));
  EXPECT_EQ(files.size(), 2u + 4u + 3u + 2u);
}

TEST_F(PackTest, AnUnpackedPackIsALayer) {
  const std::string pack = Export(*FullCache("a"));
  fs::create_directory(folder_ / "layer");
  const std::string command = "umask 022; tar -C " + (folder_ / "layer") +
                              " -xf " + pack + " && cd " + (folder_ / "layer") +
                              "/v1/entries/*/" + key8_.hex() +
                              " && sha256sum -c --quiet manifest.sha256";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto cache = KernelCache::Open(
      {.root = folder_ / "upper", .layers = {folder_ / "layer"}}, Files::Real(),
      metrics_);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ((*cache)->Keys().size(), 2u);
  EXPECT_TRUE((*cache)->Lookup(key8_).has_value());
  EXPECT_TRUE((*cache)->Lookup(key1_).has_value());
  EXPECT_EQ((*cache)->ReadNote(key8_, kVerdict), "{\"promote\":true}");
}

TEST_F(PackTest, SummarySaysWhatAPackHoldsAndFits) {
  const SigningKey key = MakeKey("key.pem");
  const std::string pack = Export(*FullCache("a"), &key);
  const absl::StatusOr<PackSummary> summary =
      ReadPackSummary(pack, {*key.Public()});
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->signature.kind, SignatureVerdict::Kind::kTrusted);
  EXPECT_EQ(summary->index.entries.size(), 2u);
  EXPECT_EQ(HardwareOf(summary->index.entries).at("cpu.march"),
            std::set<std::string>{"x86-64-v4"});
  EXPECT_EQ(ReadPackSummary(folder_ / "none", {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(PackTest, AFileOfManyBuffersIsTheSame) {
  std::string code(3 * (1 << 20) + 1, '\0');
  for (size_t i = 0; i < code.size(); ++i) code[i] = static_cast<char>(i * 7);
  const ArtifactFiles files = {
      {"model.so", code}, {"empty", ""}, {"even", std::string(1 << 20, 'e')}};
  auto a = Open("a");
  Add(*a, FactorsOf("8"), files);
  auto b = Open("b");
  const auto imported = ImportPack(*b, Export(*a), anybody_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_TRUE(HoldsArtifact(b->Lookup(key8_)->folder, files));
}

TEST_F(PackTest, APinStaysAtHome) {
  auto cache = FullCache("a");
  const std::string before = ReadBytes(Export(*cache));
  ASSERT_TRUE(cache->WriteNote(key8_, KernelCache::kPinNote, "").ok());
  EXPECT_EQ(ReadBytes(Export(*cache)), before);
}

TEST_F(PackTest, ExportOfWhatIsNotThereWritesNothing) {
  auto cache = FullCache("a");
  fs::create_directory(folder_ / "out");
  WriteBytes(folder_ / "out/x.pack", "earlier");
  const ArtifactKey unknown(FactorsOf("2"));
  const auto expect = [&](std::vector<ArtifactKey> keys,
                          absl::StatusCode code) {
    EXPECT_EQ(
        ExportPack(*cache, std::move(keys), folder_ / "out/x.pack", nullptr)
            .status()
            .code(),
        code);
    EXPECT_EQ(ReadBytes(folder_ / "out/x.pack"), "earlier");
    EXPECT_THAT(*Files::Real().List(folder_ / "out"), ElementsAre("x.pack"));
  };
  expect({key8_, unknown}, absl::StatusCode::kNotFound);
  expect({}, absl::StatusCode::kInvalidArgument);
  WriteBytes(cache->Lookup(key8_)->folder + "/model.so", "damaged");
  expect({key8_, key1_}, absl::StatusCode::kNotFound);
  EXPECT_EQ(ExportPack(*cache, {key1_}, folder_ / "none/x.pack", nullptr)
                .status()
                .code(),
            absl::StatusCode::kNotFound);
}

TEST_F(PackTest, EveryFlippedByteIsRefused) {
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

TEST_F(PackTest, EveryTruncationIsRefused) {
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

// A pipe has no length that could be compared with the index first.
TEST_F(PackTest, ThroughAPipeTooTruncationsAreRefused) {
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
        ImportPack(*cache, "/proc/self/fd/" + std::to_string(ends[0]), anybody_)
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

TEST_F(PackTest, WhatFollowsTheEndIsRefused) {
  const std::string good = SmallPack();
  for (const std::string& tail :
       {std::string(1, '\0'), std::string(512, '\0'), std::string("x"), good}) {
    ExpectRefused(good + tail, "expected " + std::to_string(good.size()) +
                                   " bytes, found " +
                                   std::to_string(good.size() + tail.size()));
  }
}

TEST_F(PackTest, ErrorsNameMemberExpectedAndFound) {
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
TEST_F(PackTest, LinksDevicesAndFoldersAreRefused) {
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

TEST_F(PackTest, MembersThatTheIndexDoesNotNameAreRefused) {
  ArchiveFiles files = FilesOf(SmallPack());
  files.insert(files.begin() + 1, {"v1/staging/x", "x"});
  // As long as the index says, so that the length does not give it away.
  files.erase(files.end() - 1);
  const std::string good = SmallPack();
  std::string archive = ArchiveOf(files);
  archive.resize(good.size());
  ExpectRefused(archive, "found a file \"v1/staging/x\" of 1 bytes");
}

TEST_F(PackTest, AnIndexThatLiesIsRefused) {
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

TEST_F(PackTest, AHugeClaimIsNotBelieved) {
  PackIndex index = *ParsePackIndex(FilesOf(SmallPack())[0].second);
  for (PackMember& member : index.members) {
    if (member.name.ends_with("/model.so")) member.bytes = kUstarMaxFileBytes;
  }
  ExpectRefused(ArchiveOf({{"index.json", PackIndexJson(index)}}),
                "bytes, found");
  for (const int64_t bytes : {kMaxPackIndexBytes + 1, kUstarMaxFileBytes}) {
    ExpectRefused(*UstarHeader("index.json", bytes),
                  "member index.json: expected at most 67108864 bytes");
  }
  ExpectRefused(*UstarHeader("index.json", kMaxPackIndexBytes),
                "member index.json: expected 67108864 bytes, found 0 and the "
                "end of the file");
}

TEST_F(PackTest, WhatIsNoPackIsRefused) {
  ExpectRefused("", "expected a tar header, found 0 bytes");
  ExpectRefused(std::string(600, 'x'), "no tar header, or a damaged one");
  ExpectRefused(std::string(10240, '\0'), "found the end of the archive");
  ExpectRefused(ArchiveOf({{"hello.txt", "hello"}}),
                "expected file index.json as packs have it, found a file "
                "\"hello.txt\" of 5 bytes");
  ExpectRefused(ArchiveOf({{"index.json", "{}"}}), "stoker-kernel-pack");
}

TEST_F(PackTest, PolicyDecidesWhoseCodeComesIn) {
  const SigningKey ours = MakeKey("ours.pem");
  const SigningKey theirs = MakeKey("theirs.pem");
  auto source = FullCache("a");
  const std::string unsigned_pack = Export(*source, nullptr, "unsigned.pack");
  const std::string our_pack = Export(*source, &ours, "ours.pack");
  const std::string their_pack = Export(*source, &theirs, "theirs.pack");
  const SignaturePolicy strict{.trusted = {*ours.Public()}};
  const SignaturePolicy lax{.trusted = {*ours.Public()},
                            .allow_unsigned = true};
  auto b = Open("b");
  const auto refused = [&](const std::string& pack) {
    const absl::Status status = ImportPack(*b, pack, strict).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(Names("b", "entries"), IsEmpty());
    return std::string(status.message());
  };
  EXPECT_THAT(refused(unsigned_pack), HasSubstr("unsigned.pack: not signed"));
  EXPECT_THAT(refused(their_pack),
              HasSubstr("unknown key " + theirs.Public()->Fingerprint()));
  EXPECT_EQ(ImportPack(*b, their_pack, lax)->signature.kind,
            SignatureVerdict::Kind::kUnknown);
  EXPECT_EQ(ImportPack(*b, our_pack, strict)->signature.kind,
            SignatureVerdict::Kind::kTrusted);
  // A signature of another index is wrong for everybody.
  ArchiveFiles files = FilesOf(ReadBytes(our_pack));
  files[1].second = *SignedBy(ours, "{}");
  ExpectRefused(ArchiveOf(files), "signature: expected one that key " +
                                      ours.Public()->Fingerprint());
}

TEST_F(PackTest, EntriesThatAreThereStay) {
  const std::string pack = Export(*FullCache("a"));
  auto b = Open("b");
  Add(*b, FactorsOf("8"), {{"model.so", "compiled here"}});
  Add(*b, FactorsOf("1"), {{"model.so", "other code"}});
  const absl::StatusOr<ImportedPack> imported = ImportPack(*b, pack, anybody_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->committed, IsEmpty());
  EXPECT_EQ(imported->present, b->Keys());
  EXPECT_TRUE(
      HoldsArtifact(b->Lookup(key8_)->folder, {{"model.so", "compiled here"}}));
  // The verdict is about another artifact.
  EXPECT_THAT(b->NoteNames(key8_), IsEmpty());
}

TEST_F(PackTest, NotesOfTheSameArtifactAreAddedNotReplaced) {
  const std::string pack = Export(*FullCache("a"));
  auto b = Open("b");
  Add(*b, FactorsOf("8"));
  ASSERT_TRUE(b->WriteNote(key8_, kVerdict, "measured here").ok());
  ASSERT_TRUE(ImportPack(*b, pack, anybody_).ok());
  EXPECT_EQ(b->ReadNote(key8_, kVerdict), "measured here");
  EXPECT_EQ(b->ReadNote(key8_, "empty"), "");
}

TEST_F(PackTest, ADamagedEntryIsReplaced) {
  auto a = FullCache("a");
  const std::string pack = Export(*a);
  WriteBytes(a->Lookup(key8_)->folder + "/model.so", "damaged");
  const absl::StatusOr<ImportedPack> imported = ImportPack(*a, pack, anybody_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->committed, ElementsAre(key8_));
  EXPECT_THAT(imported->present, ElementsAre(key1_));
  EXPECT_TRUE(HoldsArtifact(a->Lookup(key8_)->folder));
  EXPECT_EQ(a->ReadNote(key8_, kVerdict), "{\"promote\":true}");
}

// A disk that fails at any moment: an error, no left-overs, and every entry
// that landed is whole.
TEST_F(PackTest, FaultsOfTheDisk) {
  const std::string pack = Export(*FullCache("a"));
  FaultyFiles counting(Files::Real());
  ASSERT_TRUE(ImportPack(*Open("c", counting), pack, anybody_).ok());
  int failed = 0;
  for (int n = 0; n < counting.operations(); ++n) {
    const std::string name = "b" + std::to_string(n);
    FaultyFiles files(Files::Real());
    auto cache = Open(name, files);
    const int opened = files.operations();
    if (n < opened) continue;
    files.FailAt(n, absl::ResourceExhaustedError("disk full"));
    const absl::Status status = ImportPack(*cache, pack, anybody_).status();
    failed += status.ok() ? 0 : 1;
    for (const ArtifactKey& key : cache->Keys()) {
      EXPECT_TRUE(cache->Lookup(key).has_value()) << n;
    }
    cache.reset();
    Open(name);  // removes what a failing Remove had to leave
    EXPECT_THAT(Names(name, "staging"), IsEmpty()) << n << " " << status;
    fs::remove_all(folder_ / name);
  }
  EXPECT_GT(failed, 10);
}

}  // namespace
}  // namespace stoker
