// Models as requests for loads bring them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "repository/model_repository.h"
#include "tests/unit/program/program_fixture.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string Program() {
  std::ifstream file(ProgramFixture::kPath, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ModelOverrideTest : public testing::Test {
 protected:
  ModelOverrideTest() {
    fs::create_directories(root_ / "a/1");
    fs::copy_file(ProgramFixture::kPath, root_ / "a/1/model.pt2");
    Open(int64_t{16} << 20, 2);
  }
  void Open(int64_t max_bytes, int max_loads) {
    auto opened = ModelRepository::Open(root_.path(), "single", {},
                                        {.folder = files_.path(),
                                         .max_bytes = max_bytes,
                                         .max_loads = max_loads});
    EXPECT_TRUE(opened.ok()) << opened.status();
    repository_ = *std::move(opened);
  }
  std::string Refusal(const std::string& model, const ModelOverride& override) {
    const auto read = repository_->Override(model, override);
    EXPECT_FALSE(read.ok());
    EXPECT_TRUE(fs::is_empty(files_.path()));
    return std::string(read.status().message());
  }

  TempFolder root_;
  TempFolder files_;
  std::unique_ptr<ModelRepository> repository_;
};

TEST_F(ModelOverrideTest, AProgramAndItsSettings) {
  const auto read = repository_->Override(
      "new", {.files = {{"7/model.pt2", Program()},
                        {"model.yaml", "max_batch_size: 2\n"},
                        {"labels.txt", "cat\ndog\n"}}});
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 1U);
  EXPECT_EQ((*read)[0].model, "new");
  EXPECT_EQ((*read)[0].version, 7);
  const ModelSpec& spec = **(*read)[0].spec;
  EXPECT_EQ(spec.max_batch_size, 2);
  EXPECT_EQ(spec.labels->size(), 2U);
  EXPECT_EQ(spec.program_path, "file:7/model.pt2");
  // Its name is gone, its content is not.
  EXPECT_TRUE(fs::is_empty(files_.path()));
  EXPECT_TRUE(spec.CheckUnchanged().ok());
  EXPECT_TRUE(ReadProgram(spec.HeldPath()).ok());
  EXPECT_EQ(repository_->Poll()->size(), 1U);
}

TEST_F(ModelOverrideTest, AConfigurationOfTheRepositorysModel) {
  const auto read =
      repository_->Override("a", {.config = R"({"max_batch_size": 3})"});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*(*read)[0].spec)->max_batch_size, 3);
  EXPECT_EQ((*(*read)[0].spec)->program_path, root_ / "a/1/model.pt2");
  // Another object each time, and none of the repository's own.
  EXPECT_NE(*(*read)[0].spec, *(*repository_->Poll())[0].spec);
  EXPECT_NE((*(*repository_->Poll())[0].spec)->max_batch_size, 3);
}

TEST_F(ModelOverrideTest, ConfigurationsThatAreNone) {
  const auto refused = [&](const std::string& config) {
    return Refusal("a", {.config = config});
  };
  EXPECT_THAT(refused("max_batch_size: 3"),
              StartsWith("config: expected a model configuration of Triton's "
                         "as JSON: "));
  EXPECT_THAT(refused(""), StartsWith("config: expected"));
  EXPECT_THAT(refused(R"({"max_batch": 3})"), HasSubstr("max_batch"));
  EXPECT_THAT(refused(R"({"input": [{"name": "nobody"}]})"),
              StartsWith("config: input[0].name: expected a name of the "
                         "program's"));
  EXPECT_THAT(refused(R"({"max_batch_size": 1000000000})"),
              StartsWith("config: max_batch_size: expected"));
  EXPECT_THAT(refused(R"({"name": "b"})"),
              StartsWith("config: name: expected the folder's, a, got b"));
  EXPECT_THAT(refused(std::string(2 << 20, ' ')),
              StartsWith("config: expected at most 1048576 bytes"));
  EXPECT_THAT(Refusal("nobody", {.config = "{}"}),
              StartsWith("there is none of that name in "));
}

TEST_F(ModelOverrideTest, NamesThatNoModelHas) {
  for (const char* name :
       {"../model.yaml", "/etc/passwd", "1/../../x", "0/model.pt2",
        "01/model.pt2", "1/model.py", "1//model.pt2", "passes.py", "",
        "1/model.pt2/", "model.pt2"}) {
    EXPECT_THAT(
        Refusal("a", {.files = {{"1/model.pt2", Program()}, {name, "x"}}}),
        AllOf(StartsWith("expected files named <version>/model.pt2, "),
              HasSubstr(std::string("'file:") + name + "'")))
        << name;
  }
  EXPECT_THAT(Refusal("../a", {.files = {{"1/model.pt2", Program()}}}),
              StartsWith("model_name: expected a model's name"));
  EXPECT_THAT(Refusal("a", {.files = {{"model.yaml", ""}}}),
              StartsWith("expected a program, file:<version>/model.pt2"));
  EXPECT_THAT(
      Refusal("a", {.config = "{}",
                    .files = {{"1/model.pt2", Program()}, {"model.yaml", ""}}}),
      StartsWith("expected either config, file:model.yaml"));
}

TEST_F(ModelOverrideTest, FilesThatAreWrong) {
  EXPECT_THAT(
      Refusal("a", {.files = {{"1/model.pt2", "no archive"}}}),
      AllOf(HasSubstr("file:1/model.pt2"), Not(HasSubstr(files_.path()))));
  EXPECT_THAT(Refusal("a", {.files = {{"1/model.pt2", Program()},
                                      {"model.yaml", "max_batch: 1"}}}),
              StartsWith("file:model.yaml:1: "));
  EXPECT_THAT(
      Refusal("a", {.files = {{"1/model.pt2", Program()},
                              {"model.yaml", "compile: {passes: p.py}"}}}),
      HasSubstr("passes"));
  EXPECT_THAT(
      Refusal("a", {.files = {{"1/model.pt2", Program()},
                              {"model.yaml", "versions: [2]"}}}),
      AllOf(HasSubstr("file:2/model.pt2"), Not(HasSubstr(files_.path()))));
}

TEST_F(ModelOverrideTest, TheirNumberAndSize) {
  const ModelOverride one{.files = {{"1/model.pt2", Program()}}};
  auto first = repository_->Override("a", one);
  const auto second = repository_->Override("b", one);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(repository_->Override("c", one).status().code(),
            absl::StatusCode::kResourceExhausted);
  // As long as anybody has what was read, copies of it too.
  auto copy = std::make_shared<const ModelSpec>(**(*first)[0].spec);
  first->clear();
  EXPECT_FALSE(repository_->Override("c", one).ok());
  copy.reset();
  EXPECT_TRUE(repository_->Override("c", one).ok());

  Open(static_cast<int64_t>(Program().size()) - 1, 2);
  EXPECT_THAT(Refusal("a", one), StartsWith("expected at most "));
  Open(0, 2);
  EXPECT_THAT(Refusal("a", one), HasSubstr("none are taken"));
  // No file, no place.
  EXPECT_TRUE(repository_->Override("a", {.config = "{}"}).ok());
}

}  // namespace
}  // namespace stoker
