#include "kernel_cache/entry_check.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/faulty_files.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/kernel_cache/staged_artifact.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using Result = EntryCheck::Result;
using Json = nlohmann::json;

class EntryCheckTest : public testing::Test {
 protected:
  EntryCheckTest() { Restore(); }

  // A good entry in `entry_`.
  void Restore() {
    std::filesystem::remove_all(entry_);
    std::filesystem::create_directory(entry_);
    std::filesystem::permissions(entry_, std::filesystem::perms::owner_all);
    StageArtifact(entry_, key_);
    Seal();
  }
  void Seal() {
    WriteBytes(entry_ + "/manifest.sha256",
               SealOf(ReadBytes(entry_ + "/manifest.json")));
  }
  // Replaces the manifest, with a seal that fits it.
  void SetManifest(const Json& manifest) {
    WriteBytes(entry_ + "/manifest.json", manifest.dump());
    Seal();
  }

  EntryCheck Check(EntryKind kind = EntryKind::kCommitted) {
    return CheckEntry(files_, entry_, key_, kind);
  }
  void ExpectDamaged(std::string_view reason, const std::string& detail) {
    const EntryCheck check = Check();
    EXPECT_EQ(check.result, Result::kDamaged) << detail;
    EXPECT_EQ(check.reason, reason) << check.detail;
    EXPECT_THAT(check.detail, HasSubstr(detail));
    EXPECT_EQ(check.manifest_json, "");
  }

  TempFolder folder_{TempFolder::Where::kMemory};
  const std::string entry_ = folder_ / "entry";
  const ArtifactKey key_{KeyFactors{{"graph", "g"}}};
  Files& files_ = Files::Real();
};

TEST_F(EntryCheckTest, AcceptsAnEntryAsCommitted) {
  const EntryCheck check = Check();
  EXPECT_EQ(check.result, Result::kGood) << check.detail;
  EXPECT_EQ(check.manifest_json, ReadBytes(entry_ + "/manifest.json"));
  int64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(entry_)) {
    bytes += static_cast<int64_t>(file.file_size());
  }
  EXPECT_EQ(check.bytes, bytes);
}

TEST_F(EntryCheckTest, OnlyAStagedEntryMayLackItsSeal) {
  std::filesystem::remove(entry_ + "/manifest.sha256");
  EXPECT_EQ(Check(EntryKind::kStaged).result, Result::kGood);
  ExpectDamaged("missing_file", "manifest.sha256");
}

TEST_F(EntryCheckTest, SealIsWhatSha256sumReads) {
  const std::string command = "cd " + entry_ +
                              " && sha256sum -c --quiet "
                              "manifest.sha256";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(EntryCheckTest, NoFolderIsAbsentNotDamaged) {
  std::filesystem::remove_all(entry_);
  EXPECT_EQ(Check().result, Result::kAbsent);
}

TEST_F(EntryCheckTest, SeesEveryMissingFile) {
  for (const std::string name :
       {"manifest.json", "manifest.sha256", "model.so", "model.json"}) {
    Restore();
    std::filesystem::remove(entry_ + "/" + name);
    ExpectDamaged("missing_file", name);
  }
  std::filesystem::remove_all(entry_);
  std::filesystem::create_directory(entry_);
  ExpectDamaged("missing_file", "manifest.json");
}

TEST_F(EntryCheckTest, SeesEveryFlippedBitOfEveryFile) {
  for (const std::string name :
       {"manifest.json", "manifest.sha256", "model.so", "model.json"}) {
    const std::string path = entry_ + "/" + name;
    const std::string good = ReadBytes(path);
    for (size_t i = 0; i < good.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
        WriteBytes(path, bad);
        ASSERT_EQ(Check().result, Result::kDamaged) << name << " " << i;
      }
    }
    WriteBytes(path, good);
    ASSERT_EQ(Check().result, Result::kGood);
  }
}

TEST_F(EntryCheckTest, SeesEveryTruncationAndEveryExtension) {
  for (const std::string name :
       {"manifest.json", "manifest.sha256", "model.so", "model.json"}) {
    const std::string path = entry_ + "/" + name;
    const std::string good = ReadBytes(path);
    for (size_t size = 0; size < good.size(); ++size) {
      WriteBytes(path, good.substr(0, size));
      ASSERT_EQ(Check().result, Result::kDamaged) << name << " " << size;
    }
    WriteBytes(path, good + "\n");
    ASSERT_EQ(Check().result, Result::kDamaged) << name;
    WriteBytes(path, good);
  }
}

TEST_F(EntryCheckTest, RefusesFilesThatNobodyVerified) {
  WriteBytes(entry_ + "/extra.so", "code");
  ExpectDamaged("manifest", "extra.so is not in the manifest");
  Restore();
  std::filesystem::create_directory(entry_ + "/folder");
  ExpectDamaged("manifest", "folder is not in the manifest");
}

TEST_F(EntryCheckTest, RefusesLinksInPlaceOfFiles) {
  std::filesystem::rename(entry_ + "/model.so", folder_ / "elsewhere.so");
  std::filesystem::create_symlink(folder_ / "elsewhere.so",
                                  entry_ + "/model.so");
  ExpectDamaged("missing_file", "model.so is not a regular file");
}

TEST_F(EntryCheckTest, RefusesTheManifestOfAnotherKey) {
  SetManifest(
      ManifestOf(ArtifactKey(KeyFactors{{"graph", "h"}}), SmallArtifact()));
  ExpectDamaged("manifest", "expected " + key_.hex());
}

TEST_F(EntryCheckTest, RefusesManifestsThatAreNone) {
  const Json good = ManifestOf(key_, SmallArtifact());
  const auto with = [&good](const std::string& pointer, const Json& value) {
    Json changed = good;
    changed[Json::json_pointer(pointer)] = value;
    return changed;
  };
  const auto expect = [this](const Json& manifest, const std::string& detail) {
    SetManifest(manifest);
    ExpectDamaged("manifest", detail);
  };
  expect(Json::array(), "not a JSON object");
  expect(Json("text"), "not a JSON object");
  expect(with("/schema", 2), "has schema 2, expected 1");
  expect(with("/schema", "1"), "has schema \"1\"");
  expect(with("/key", 5), "has key 5");
  expect(with("/key", nullptr), "has key null");
  expect(with("/files", Json::object()), "at least one file");
  expect(with("/files", Json::array({1})), "at least one file");
  expect(with("/files/model.so", "x"), "expected bytes and sha256");
  expect(with("/files/model.so/bytes", -1), "expected bytes and sha256");
  expect(with("/files/model.so/bytes", 1.5), "expected bytes and sha256");
  expect(with("/files/model.so/sha256", 1), "expected bytes and sha256");
  Json missing = good;
  missing.erase("files");
  expect(missing, "has files nothing");
  for (const std::string name : {"", ".", "..", "../model.so", "/etc/passwd",
                                 "a/b", "manifest.json", "manifest.sha256"}) {
    Json changed = good;
    changed["files"][name] = good["files"]["model.so"];
    expect(changed, "expected the name of a file beside it");
  }
  WriteBytes(entry_ + "/manifest.json", "{\"schema\": 1,");
  Seal();
  ExpectDamaged("manifest", "not a JSON object");
  WriteBytes(entry_ + "/manifest.json", std::string(100'000, '['));
  Seal();
  ExpectDamaged("manifest", "not a JSON object");
}

TEST_F(EntryCheckTest, SizesBeyondAllReasonAreJustWrong) {
  Json manifest = ManifestOf(key_, SmallArtifact());
  manifest["files"]["model.so"]["bytes"] = ~uint64_t{0};
  SetManifest(manifest);
  ExpectDamaged("checksum", "bytes, expected");
}

TEST_F(EntryCheckTest, WhatOthersMayWriteToIsNoEntry) {
  using std::filesystem::perm_options, std::filesystem::perms;
  for (const char* name :
       {"", "/model.so", "/manifest.json", "/manifest.sha256"}) {
    for (const perms others : {perms::group_write, perms::others_write}) {
      Restore();
      std::filesystem::permissions(entry_ + name, others, perm_options::add);
      ExpectDamaged("owner", "may be written by others");
    }
  }
}

TEST_F(EntryCheckTest, WhatBelongsToSomebodyElseIsNoEntry) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  for (const char* name : {"", "/model.so", "/manifest.json"}) {
    Restore();
    ASSERT_EQ(chown((entry_ + name).c_str(), 65534, 65534), 0);
    ExpectDamaged("owner", "belongs to user 65534, expected 0");
  }
}

TEST_F(EntryCheckTest, AnErrorOfTheDiskIsNotDamage) {
  FaultyFiles counting(files_);
  ASSERT_EQ(CheckEntry(counting, entry_, key_, EntryKind::kCommitted).result,
            Result::kGood);
  for (int n = 0; n < counting.operations(); ++n) {
    FaultyFiles failing(files_);
    failing.FailAt(n, absl::InternalError("input/output error"));
    const EntryCheck check =
        CheckEntry(failing, entry_, key_, EntryKind::kCommitted);
    EXPECT_EQ(check.result, Result::kUnreadable) << n;
    EXPECT_THAT(check.detail, HasSubstr("input/output error"));
  }
}

}  // namespace
}  // namespace stoker
