#include "kernel_cache/pack.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernel_cache/entry_check.h"
#include "tests/fakes/faulty_files.h"
#include "tests/unit/kernel_cache/pack_fixture.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using PackTest = PackFixture;

TEST_F(PackTest, WhatIsExportedIsImported) {
  const std::string pack = Export(*FullCache("a"));
  auto b = Open("b");
  const absl::StatusOr<ImportedPack> imported =
      ImportPack(*b, pack, anybody_, local_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->committed, b->entries().Keys());
  EXPECT_THAT(imported->present, IsEmpty());
  EXPECT_EQ(imported->signature.kind, SignatureVerdict::Kind::kUnsigned);
  EXPECT_EQ(b->entries().Keys().size(), 2u);
  EXPECT_TRUE(HoldsArtifact(b->entries().Lookup(key8_)->folder));
  EXPECT_TRUE(HoldsArtifact(b->entries().Lookup(key1_)->folder,
                            {{"model.so", "other code"}}));
  EXPECT_EQ(b->facts().ReadNote(key8_, kVerdict), "{\"promote\":true}");
  EXPECT_EQ(b->facts().ReadNote(key8_, "empty"), "");
  EXPECT_THAT(b->facts().NoteNames(key1_), IsEmpty());
  EXPECT_THAT(Names("b", "staging"), IsEmpty());
  // And on from there, unchanged.
  EXPECT_EQ(ReadBytes(Export(*b, nullptr, "again.pack")), ReadBytes(pack));
}

TEST_F(PackTest, SameEntriesSameBytes) {
  auto a = FullCache("a");
  auto b = Open("elsewhere");
  ASSERT_TRUE(b->facts().WriteNote(key8_, "empty", "").ok());
  Add(*b, FactorsOf("1"), {{"model.so", "other code"}});
  Add(*b, FactorsOf("8"));
  ASSERT_TRUE(b->facts().WriteNote(key8_, kVerdict, "{\"promote\":true}").ok());
  ASSERT_TRUE(
      ExportPack(*a, {key8_, key1_}, local_, folder_ / "a.pack", nullptr).ok());
  ASSERT_TRUE(
      ExportPack(*b, {key1_, key8_, key1_}, local_, folder_ / "b.pack", nullptr)
          .ok());
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
  EXPECT_EQ((*cache)->entries().Keys().size(), 2u);
  EXPECT_TRUE((*cache)->entries().Lookup(key8_).has_value());
  EXPECT_TRUE((*cache)->entries().Lookup(key1_).has_value());
  EXPECT_EQ((*cache)->facts().ReadNote(key8_, kVerdict), "{\"promote\":true}");
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
  const auto imported = ImportPack(*b, Export(*a), anybody_, local_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_TRUE(HoldsArtifact(b->entries().Lookup(key8_)->folder, files));
}

TEST_F(PackTest, APinAndLocalNotesStayAtHome) {
  auto cache = FullCache("a");
  const std::string before = ReadBytes(Export(*cache));
  ASSERT_TRUE(cache->entries().SetPinned(key8_, true).ok());
  ASSERT_TRUE(cache->facts().WriteNote(key8_, "ran-on-0123", "").ok());
  EXPECT_EQ(ReadBytes(Export(*cache)), before);
}

// Whoever made the pack may know nothing of the note, or mean harm with it.
TEST_F(PackTest, APackWithALocalNoteIsRefused) {
  auto cache = FullCache("a");
  ASSERT_TRUE(cache->facts().WriteNote(key8_, "ran-on-0123", "").ok());
  const std::string pack = folder_ / "theirs.pack";
  ASSERT_TRUE(ExportPack(*cache, {key8_}, LocalNotes{}, pack, nullptr).ok());
  auto b = Open("b");
  const absl::Status refused = ImportPack(*b, pack, anybody_, local_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ran-on-0123"));
  EXPECT_THAT(b->entries().Keys(), IsEmpty());
  EXPECT_TRUE(ImportPack(*b, pack, anybody_, LocalNotes{}).ok());
}

TEST_F(PackTest, ExportOfWhatIsNotThereWritesNothing) {
  auto cache = FullCache("a");
  fs::create_directory(folder_ / "out");
  WriteBytes(folder_ / "out/x.pack", "earlier");
  const ArtifactKey unknown(FactorsOf("2"));
  const auto expect = [&](std::vector<ArtifactKey> keys,
                          absl::StatusCode code) {
    EXPECT_EQ(ExportPack(*cache, std::move(keys), local_,
                         folder_ / "out/x.pack", nullptr)
                  .status()
                  .code(),
              code);
    EXPECT_EQ(ReadBytes(folder_ / "out/x.pack"), "earlier");
    EXPECT_THAT(*Files::Real().List(folder_ / "out"), ElementsAre("x.pack"));
  };
  expect({key8_, unknown}, absl::StatusCode::kNotFound);
  expect({}, absl::StatusCode::kInvalidArgument);
  WriteBytes(cache->entries().Lookup(key8_)->folder + "/model.so", "damaged");
  expect({key8_, key1_}, absl::StatusCode::kNotFound);
  EXPECT_EQ(
      ExportPack(*cache, {key1_}, local_, folder_ / "none/x.pack", nullptr)
          .status()
          .code(),
      absl::StatusCode::kNotFound);
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
    const absl::Status status = ImportPack(*b, pack, strict, local_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(Names("b", "entries"), IsEmpty());
    return std::string(status.message());
  };
  EXPECT_THAT(refused(unsigned_pack), HasSubstr("unsigned.pack: not signed"));
  EXPECT_THAT(refused(their_pack),
              HasSubstr("unknown key " + theirs.Public()->Fingerprint()));
  EXPECT_EQ(ImportPack(*b, their_pack, lax, local_)->signature.kind,
            SignatureVerdict::Kind::kUnknown);
  EXPECT_EQ(ImportPack(*b, our_pack, strict, local_)->signature.kind,
            SignatureVerdict::Kind::kTrusted);
  // A signature of another index is wrong for everybody.
  ArchiveFiles files = FilesOf(ReadBytes(our_pack));
  files[1].second = *SignedBy(ours, "{}");
  WriteBytes(our_pack, ArchiveOf(files));
  const absl::Status wrong = ImportPack(*b, our_pack, lax, local_).status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong.message(), HasSubstr("signature: expected one that key " +
                                         ours.Public()->Fingerprint()));
}

// As tar does.
void Unpack(const std::string& pack, const std::string& folder) {
  for (const auto& [name, content] : FilesOf(ReadBytes(pack))) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::filesystem::create_directories(path.parent_path());
    WriteBytes(path, content);
  }
}

TEST_F(PackTest, OfASignedLayerNothingCountsButWhatWasSigned) {
  const SigningKey ours = MakeKey("ours.pem");
  const SigningKey theirs = MakeKey("theirs.pem");
  const auto public_key = [&](const std::string& name) {
    std::string path = folder_ / (name + ".pub");
    EXPECT_EQ(
        std::system(("openssl pkey -pubout -in " +
                     std::string(folder_ / (name + ".pem")) + " -out " + path)
                        .c_str()),
        0);
    return path;
  };
  const std::vector<std::string> trust = {public_key("ours")};
  auto source = FullCache("a");
  const auto unpacked = [&](const SigningKey* signer, const std::string& name) {
    Unpack(Export(*source, signer, name + ".pack"), folder_ / name);
    return std::string(folder_ / name);
  };
  const std::string layer = unpacked(&ours, "signed");
  int caches = 0;
  const auto open = [&](const std::string& path) {
    return KernelCache::Open({.root = folder_ / absl::StrCat("c", ++caches),
                              .layers = {path},
                              .trust = trust},
                             Files::Real(), metrics_);
  };
  for (const auto& [path, words] :
       {std::pair(unpacked(nullptr, "unsigned"), std::string("not signed")),
        std::pair(unpacked(&theirs, "theirs"),
                  "unknown key " + theirs.Public()->Fingerprint()),
        std::pair(std::string(folder_ / "a"),
                  std::string("expected an unpacked pack that is signed"))}) {
    const absl::Status refused = open(path).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << path;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("layer " + path), HasSubstr(words)));
  }

  const auto cache = open(layer);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EntryStore& entries = (*cache)->entries();
  FactStore& facts = (*cache)->facts();
  EXPECT_TRUE(entries.Lookup(key8_).has_value());
  EXPECT_EQ(facts.ReadNote(key8_, kVerdict), "{\"promote\":true}");
  EXPECT_EQ(facts.NoteNames(key8_).size(), 2u);

  // Whoever can write there, while it is in use: other code with a manifest and
  // a seal that fit, another entry, another verdict, one more.
  const std::string entry = EntryFolderIn(layer, key8_);
  const ArtifactFiles forged = {{"model.so", "forged code"}};
  const std::string manifest = PackManifest(FactorsOf("8"), forged);
  std::filesystem::remove(entry + "/model.json");
  WriteBytes(entry + "/model.so", "forged code");
  WriteBytes(entry + "/manifest.json", manifest);
  WriteBytes(entry + "/manifest.sha256", SealOf(manifest));
  const ArtifactKey added(FactorsOf("2"));
  std::filesystem::create_directories(EntryFolderIn(layer, added));
  for (const char* file : {"/model.so", "/manifest.json", "/manifest.sha256"}) {
    WriteBytes(EntryFolderIn(layer, added) + file,
               ReadBytes(EntryFolderIn(folder_ / "a", key1_) + file));
  }
  const std::string notes = layer + "/v1/notes/" + key8_.hex();
  WriteBytes(notes + "/" + kVerdict, "{\"promote\":false}");
  WriteBytes(notes + "/more.json", "{}");
  std::filesystem::create_directories(layer + "/v1/traffic");
  WriteBytes(layer + "/v1/traffic/m.json", "{}");

  EXPECT_FALSE(entries.Lookup(key8_).has_value());
  EXPECT_EQ(MetricValue(metrics_, "stoker_cache_rejections_total",
                        {{"reason", "signature"}}),
            1);
  EXPECT_FALSE(entries.Lookup(added).has_value());
  EXPECT_TRUE(entries.Lookup(key1_).has_value());
  EXPECT_EQ(facts.ReadNote(key8_, kVerdict), std::nullopt);
  EXPECT_EQ(facts.ReadNote(key8_, "more.json"), std::nullopt);
  EXPECT_EQ(facts.NoteNames(key8_).size(), 2u);
  const RecordKind kind{.name = "traffic",
                        .suffix = ".json",
                        .max_bytes = 100,
                        .from_layers = true};
  EXPECT_TRUE(absl::IsNotFound(facts.ReadRecord("m", kind).status()));
  // Without a key that must have signed it, it is trusted as ever.
  EXPECT_TRUE((*KernelCache::Open({.root = folder_ / "d", .layers = {layer}},
                                  Files::Real(), metrics_))
                  ->entries()
                  .Lookup(key8_)
                  .has_value());
}

TEST_F(PackTest, EntriesThatAreThereStay) {
  const std::string pack = Export(*FullCache("a"));
  auto b = Open("b");
  Add(*b, FactorsOf("8"), {{"model.so", "compiled here"}});
  Add(*b, FactorsOf("1"), {{"model.so", "other code"}});
  const absl::StatusOr<ImportedPack> imported =
      ImportPack(*b, pack, anybody_, local_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->committed, IsEmpty());
  EXPECT_EQ(imported->present, b->entries().Keys());
  EXPECT_TRUE(HoldsArtifact(b->entries().Lookup(key8_)->folder,
                            {{"model.so", "compiled here"}}));
  // The verdict is about another artifact.
  EXPECT_THAT(b->facts().NoteNames(key8_), IsEmpty());
}

TEST_F(PackTest, NotesOfTheSameArtifactAreAddedNotReplaced) {
  const std::string pack = Export(*FullCache("a"));
  auto b = Open("b");
  Add(*b, FactorsOf("8"));
  ASSERT_TRUE(b->facts().WriteNote(key8_, kVerdict, "measured here").ok());
  ASSERT_TRUE(ImportPack(*b, pack, anybody_, local_).ok());
  EXPECT_EQ(b->facts().ReadNote(key8_, kVerdict), "measured here");
  EXPECT_EQ(b->facts().ReadNote(key8_, "empty"), "");
}

TEST_F(PackTest, ADamagedEntryIsReplaced) {
  auto a = FullCache("a");
  const std::string pack = Export(*a);
  WriteBytes(a->entries().Lookup(key8_)->folder + "/model.so", "damaged");
  const absl::StatusOr<ImportedPack> imported =
      ImportPack(*a, pack, anybody_, local_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->committed, ElementsAre(key8_));
  EXPECT_THAT(imported->present, ElementsAre(key1_));
  EXPECT_TRUE(HoldsArtifact(a->entries().Lookup(key8_)->folder));
  EXPECT_EQ(a->facts().ReadNote(key8_, kVerdict), "{\"promote\":true}");
}

// A disk that fails at any moment: an error, no left-overs, and every entry
// that landed is whole.
TEST_F(PackTest, FaultsOfTheDisk) {
  const std::string pack = Export(*FullCache("a"));
  FaultyFiles counting(Files::Real());
  ASSERT_TRUE(ImportPack(*Open("c", counting), pack, anybody_, local_).ok());
  int failed = 0;
  for (int n = 0; n < counting.operations(); ++n) {
    const std::string name = "b" + std::to_string(n);
    FaultyFiles files(Files::Real());
    auto cache = Open(name, files);
    const int opened = files.operations();
    if (n < opened) continue;
    files.FailAt(n, absl::ResourceExhaustedError("disk full"));
    const absl::Status status =
        ImportPack(*cache, pack, anybody_, local_).status();
    failed += status.ok() ? 0 : 1;
    for (const ArtifactKey& key : cache->entries().Keys()) {
      EXPECT_TRUE(cache->entries().Lookup(key).has_value()) << n;
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
