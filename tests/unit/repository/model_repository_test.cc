#include "repository/model_repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/program/program_fixture.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ModelRepositoryTest : public testing::Test {
 protected:
  void AddProgram(const std::string& folder) {
    fs::create_directories(root_ / folder);
    fs::copy_file(ProgramFixture::kPath, root_ / (folder + "/model.pt2"),
                  fs::copy_options::overwrite_existing);
  }
  void AddFile(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  ModelRepository& Open() {
    auto opened = ModelRepository::Open(root_.path(), "single");
    EXPECT_TRUE(opened.ok()) << opened.status();
    repository_ = *std::move(opened);
    return *repository_;
  }
  RepositorySnapshot Poll() {
    auto snapshot = repository_->Poll();
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    return *std::move(snapshot);
  }
  // "a:1 ok" or "a:1 <code>".
  static std::vector<std::string> Lines(const RepositorySnapshot& snapshot) {
    std::vector<std::string> lines;
    for (const DesiredVersion& version : snapshot) {
      lines.push_back(version.model + ":" + std::to_string(version.version) +
                      " " +
                      absl::StatusCodeToString(version.spec.status().code()));
    }
    return lines;
  }
  // Makes the next stat differ, however coarse the clock of the file system.
  void Touch(const std::string& path) {
    fs::last_write_time(root_ / path, fs::last_write_time(root_ / path) +
                                          std::chrono::seconds(5));
  }

  TempFolder root_;
  std::unique_ptr<ModelRepository> repository_;
};

TEST_F(ModelRepositoryTest, RootMustBeAFolder) {
  AddFile("file", "");
  for (const std::string& path :
       {std::string(), root_ / "missing", root_ / "file"}) {
    const auto opened = ModelRepository::Open(path, "m");
    EXPECT_EQ(opened.status().code(), absl::StatusCode::kNotFound) << path;
  }
}

TEST_F(ModelRepositoryTest, RootMayAppearLater) {
  AddProgram("content");
  auto repository = ModelRepository::OpenLater(root_ / "link/", "single");
  EXPECT_EQ(repository->CheckRoot().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(repository->Poll().ok());
  fs::create_directory_symlink(root_ / "content", root_ / "link");
  EXPECT_TRUE(repository->CheckRoot().ok());
  const auto snapshot = repository->Poll();
  ASSERT_TRUE(snapshot.ok());
  EXPECT_THAT(Lines(*snapshot), ElementsAre("single:1 OK"));
}

TEST_F(ModelRepositoryTest, NewestVersionByDefault) {
  AddProgram("b/1");
  AddProgram("b/2");
  AddProgram("b/10");
  AddProgram("a/1");
  Open();
  const RepositorySnapshot snapshot = Poll();
  EXPECT_THAT(Lines(snapshot), ElementsAre("a:1 OK", "b:10 OK"));
  const ModelSpec& spec = **snapshot[1].spec;
  EXPECT_EQ(spec.Label(), "b:10");
  EXPECT_EQ(spec.program_path, root_ / "b/10/model.pt2");
  EXPECT_EQ(spec.buckets.size(), 6u);
}

TEST_F(ModelRepositoryTest, VersionsOfModelYaml) {
  AddProgram("m/1");
  AddProgram("m/2");
  AddProgram("m/3");
  AddFile("m/model.yaml", "versions: [1, 3, 9]\n");
  Open();
  EXPECT_THAT(Lines(Poll()), ElementsAre("m:1 OK", "m:3 OK", "m:9 NOT_FOUND"));
  AddFile("m/model.yaml", "versions: all\n");
  Touch("m/model.yaml");
  EXPECT_THAT(Lines(Poll()), ElementsAre("m:1 OK", "m:2 OK", "m:3 OK"));
}

TEST_F(ModelRepositoryTest, OneModelIsReadAlone) {
  AddProgram("a/1");
  AddProgram("b/1");
  AddFile("broken/1/model.pt2", "not an archive");
  Open();
  EXPECT_THAT(*repository_->ModelNames(), ElementsAre("a", "b", "broken"));
  const auto first = *repository_->PollModel("b", nullptr);
  EXPECT_THAT(Lines(first), ElementsAre("b:1 OK"));
  const RepositorySnapshot all = Poll();
  EXPECT_EQ(*all[1].spec, *first[0].spec);  // the same object
  AddProgram("b/2");
  EXPECT_THAT(Lines(*repository_->PollModel("b", nullptr)),
              ElementsAre("b:2 OK"));
  EXPECT_EQ(*Poll()[0].spec, *all[0].spec);
  EXPECT_THAT(*repository_->PollModel("nobody", nullptr), IsEmpty());
  EXPECT_THAT(*repository_->PollModel("", nullptr), IsEmpty());
  EXPECT_THAT(*repository_->PollModel("../b", nullptr), IsEmpty());
}

TEST_F(ModelRepositoryTest, Labels) {
  AddProgram("m/1");
  AddProgram("m/2");
  AddFile("m/model.yaml", "versions: all\n");
  Open();
  const RepositorySnapshot without = Poll();
  EXPECT_EQ((*without[0].spec)->labels, nullptr);
  AddFile("m/labels.txt", "cat\r\n\ndog: large\n");
  const RepositorySnapshot with = Poll();
  EXPECT_THAT(*(*with[0].spec)->labels, ElementsAre("cat", "", "dog: large"));
  EXPECT_THAT(*(*with[1].spec)->labels, ElementsAre("cat", "", "dog: large"));
  EXPECT_EQ(*Poll()[0].spec, *with[0].spec);
  AddFile("m/labels.txt", "cat\ndog");
  EXPECT_THAT(*(*Poll()[0].spec)->labels, ElementsAre("cat", "dog"));
  AddFile("m/labels.txt", std::string((16 << 20) + 1, 'x'));
  EXPECT_THAT(Lines(Poll()),
              ElementsAre("m:1 INVALID_ARGUMENT", "m:2 INVALID_ARGUMENT"));
  fs::remove(root_ / "m/labels.txt");
  EXPECT_THAT(Lines(Poll()), ElementsAre("m:1 OK", "m:2 OK"));
}

TEST_F(ModelRepositoryTest, WhatIsNotAVersionIsPassedOver) {
  AddProgram("m/1");
  AddProgram("m/01");
  AddProgram("m/0");
  AddProgram("m/v2");
  AddProgram("m/-3");
  AddProgram("m/99999999999999999999");
  fs::create_directories(root_ / "m/7");  // being filled
  AddProgram(".hidden/1");
  AddFile("README.txt", "not a model");
  Open();
  EXPECT_THAT(Lines(Poll()), ElementsAre("m:1 OK"));
}

TEST_F(ModelRepositoryTest, OneBadModelHidesNoOther) {
  AddProgram("good/1");
  AddFile("broken/1/model.pt2", "not an archive");
  AddProgram("yaml/1");
  AddFile("yaml/model.yaml", "threads: many\n");
  AddProgram("syntax/1");
  AddFile("syntax/model.yaml", "[");
  fs::create_directories(root_ / "empty");
  AddProgram("bad name/1");
  AddProgram("huge/1");
  AddFile("huge/model.yaml", std::string(2 << 20, ' '));
  fs::create_directories(root_ / "folder/1/model.pt2");
  Open();
  const RepositorySnapshot snapshot = Poll();
  EXPECT_THAT(
      Lines(snapshot),
      ElementsAre("bad name:0 INVALID_ARGUMENT", "broken:1 INVALID_ARGUMENT",
                  "empty:0 NOT_FOUND", "folder:1 INVALID_ARGUMENT", "good:1 OK",
                  "huge:0 INVALID_ARGUMENT", "syntax:0 INVALID_ARGUMENT",
                  "yaml:1 INVALID_ARGUMENT"));
  EXPECT_THAT(std::string(snapshot[7].spec.status().message()),
              HasSubstr("/yaml/model.yaml:1: threads: expected an integer"));
}

TEST_F(ModelRepositoryTest, SpecialFilesAreNotOpened) {
  fs::create_directories(root_ / "m/1");
  ASSERT_EQ(mkfifo((root_ / "m/1/model.pt2").c_str(), 0600), 0);
  AddProgram("y/1");
  ASSERT_EQ(mkfifo((root_ / "y/model.yaml").c_str(), 0600), 0);
  Open();
  EXPECT_THAT(Lines(Poll()),
              ElementsAre("m:1 INVALID_ARGUMENT", "y:0 INVALID_ARGUMENT"));
}

TEST_F(ModelRepositoryTest, LinksAreFollowed) {
  AddProgram("store");
  AddFile("store/README", "holds no version");
  TempFolder models;
  fs::create_directories(models / "m/1");
  fs::create_symlink(root_ / "store/model.pt2", models / "m/1/model.pt2");
  auto repository = ModelRepository::Open(models.path(), "single");
  ASSERT_TRUE(repository.ok());
  EXPECT_THAT(Lines(*(*repository)->Poll()), ElementsAre("m:1 OK"));
}

TEST_F(ModelRepositoryTest, UnchangedVersionsKeepTheirSpec) {
  AddProgram("a/1");
  AddProgram("b/1");
  AddFile("c/1/model.pt2", "not an archive");
  Open();
  const RepositorySnapshot first = Poll();
  EXPECT_EQ(*Poll()[0].spec, *first[0].spec);

  Touch("a/1/model.pt2");
  AddFile("b/model.yaml", "threads: 2\n");
  const RepositorySnapshot second = Poll();
  EXPECT_NE(*second[0].spec, *first[0].spec);
  EXPECT_NE(*second[1].spec, *first[1].spec);
  EXPECT_EQ((*second[1].spec)->threads, 2);
  EXPECT_EQ(second[2].spec.status(), first[2].spec.status());

  AddProgram("c/1");
  fs::remove_all(root_ / "a");
  const RepositorySnapshot third = Poll();
  EXPECT_THAT(Lines(third), ElementsAre("b:1 OK", "c:1 OK"));
  EXPECT_EQ(*third[0].spec, *second[1].spec);

  AddProgram("a/1");
  EXPECT_THAT(Lines(Poll()), ElementsAre("a:1 OK", "b:1 OK", "c:1 OK"));
}

TEST_F(ModelRepositoryTest, AliasesOfVersions) {
  AddProgram("a/1");
  AddProgram("a/2");
  AddProgram("a/3");
  AddFile("a/aliases.yaml",
          "stable: {version: 1, percent: 90}\n"
          "canary: {version: 3, percent: 10}\nlast: 3\n");
  Open();
  // One that has an alias is wanted, whatever `versions` says.
  const RepositorySnapshot first = Poll();
  EXPECT_THAT(Lines(first), ElementsAre("a:1 OK", "a:3 OK"));
  EXPECT_EQ(first[0].aliases, (std::map<std::string, int>{{"stable", 90}}));
  EXPECT_EQ(first[1].aliases,
            (std::map<std::string, int>{{"canary", 10}, {"last", 0}}));
  // Others leave the versions what they were.
  const std::string text = "stable: 3\n";
  const RepositorySnapshot given = *repository_->PollModel("a", &text);
  EXPECT_THAT(Lines(given), ElementsAre("a:3 OK"));
  EXPECT_EQ(*given[0].spec, *first[1].spec);
  EXPECT_EQ(given[0].aliases, (std::map<std::string, int>{{"stable", 0}}));
}

TEST_F(ModelRepositoryTest, AliasesThatAreNone) {
  AddProgram("a/1");
  Open();
  const auto refusal = [&](const std::string& text) {
    const RepositorySnapshot read = *repository_->PollModel("a", &text);
    EXPECT_EQ(read.size(), 1U);
    EXPECT_EQ(read[0].version, 0);
    return std::string(read[0].spec.status().message());
  };
  EXPECT_THAT(refusal("stable: 2"),
              HasSubstr("aliases.yaml: stable: expected a version that is in"));
  EXPECT_THAT(refusal("stable: one"), HasSubstr("file:aliases.yaml:1: stable"));
  EXPECT_THAT(refusal("1: 1"), HasSubstr("expected an alias of up to 64"));
  EXPECT_THAT(refusal("stable: {percent: 100}"), HasSubstr("a version"));
  EXPECT_THAT(refusal("stable: {version: 1, percent: 90}"),
              HasSubstr("percents of 100 together, or none, got 90 together"));
  EXPECT_THAT(refusal("stable: {version: 1, percent: 101}"),
              HasSubstr("percent"));
  EXPECT_THAT(refusal("[stable]"), HasSubstr("a map"));
}

TEST_F(ModelRepositoryTest, RootThatIsAModel) {
  AddProgram(".");
  AddProgram("ignored/1");
  AddFile("model.yaml", "max_batch_size: 2\n");
  Open();
  const RepositorySnapshot snapshot = Poll();
  EXPECT_THAT(Lines(snapshot), ElementsAre("single:1 OK"));
  EXPECT_EQ((*snapshot[0].spec)->max_batch_size, 2);
  EXPECT_EQ((*snapshot[0].spec)->program_path, root_ / "model.pt2");
}

TEST_F(ModelRepositoryTest, RootThatVanishesIsAnErrorOfThePoll) {
  TempFolder outer;
  fs::create_directories(outer / "root");
  auto repository = ModelRepository::Open(outer / "root/", "m");
  ASSERT_TRUE(repository.ok());
  EXPECT_EQ((*repository)->root(), outer / "root");
  EXPECT_TRUE((*repository)->Poll()->empty());
  fs::remove_all(outer / "root");
  EXPECT_FALSE((*repository)->Poll().ok());
}

}  // namespace
}  // namespace stoker
