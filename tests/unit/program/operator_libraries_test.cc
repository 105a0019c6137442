// Who may bring operators, and which programs call them.
#include "program/operator_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/sha256.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/program/program_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

namespace fs = std::filesystem;

class OperatorLibrariesTest : public ::testing::Test {
 protected:
  OperatorLibrariesTest() : path_(folder_ / "libmine.so") {
    std::ofstream(path_) << "code";
    fs::permissions(path_, fs::perms(0755));
    fs::permissions(folder_.path(), fs::perms(0755));
  }
  ~OperatorLibrariesTest() override {
    EXPECT_TRUE(AllowOperatorLibraries({}).ok());
  }

  static std::string Refusal(const std::vector<std::string>& texts) {
    const auto libraries = AllowOperatorLibraries(texts);
    return libraries.ok() ? "none" : std::string(libraries.status().message());
  }

  const TempFolder folder_;
  const std::string path_;
};

TEST_F(OperatorLibrariesTest, SaysWhereTheirOperatorsAre) {
  fs::create_symlink(path_, folder_ / "link");
  const auto libraries = AllowOperatorLibraries({"mine=" + (folder_ / "link")});
  ASSERT_TRUE(libraries.ok()) << libraries.status();
  const OperatorLibrary* mine = FindOperatorLibrary("mine");
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(mine->path, fs::canonical(path_));
  EXPECT_EQ(mine->digest, Sha256Hex("code"));
  EXPECT_EQ(libraries->size(), 1u);
  EXPECT_EQ(FindOperatorLibrary("yours"), nullptr);
  ASSERT_TRUE(AllowOperatorLibraries({}).ok());
  EXPECT_EQ(FindOperatorLibrary("mine"), nullptr);
}

TEST_F(OperatorLibrariesTest, RefusesWhatSaysNoLibrary) {
  for (const std::string& text :
       std::vector<std::string>{"", "mine", "=" + path_,
                                "mine=", "my.ops=" + path_, "1st=" + path_}) {
    EXPECT_THAT(Refusal({text}), HasSubstr("expected NAME=FILE")) << text;
  }
  for (const std::string& own :
       std::vector<std::string>{"aten", "torchvision", "higher_order"}) {
    EXPECT_THAT(Refusal({own + "=" + path_}),
                HasSubstr("got those of torch.ops." + own));
  }
  EXPECT_THAT(Refusal({"mine=" + path_, "mine=" + path_}),
              HasSubstr("expected one library with the operators of "
                        "torch.ops.mine"));
  EXPECT_THAT(Refusal({"mine=" + path_ + ".missing"}), HasSubstr("No such"));
  EXPECT_THAT(Refusal({"mine=" + folder_.path()}), HasSubstr("is not a file"));
}

TEST_F(OperatorLibrariesTest, RefusesCodeThatOthersCanWrite) {
  fs::permissions(path_, fs::perms(0775));
  EXPECT_THAT(Refusal({"mine=" + path_}),
              HasSubstr("may be written by others"));
  fs::permissions(path_, fs::perms(0755));
  fs::permissions(folder_.path(), fs::perms(0757));
  EXPECT_THAT(Refusal({"mine=" + path_}),
              HasSubstr("may be written by others"));
}

// A program says which libraries it needs, by the bytes that they have.
TEST_F(OperatorLibrariesTest, AProgramNeedsTheLibrariesThatItCalls) {
  ProgramFixture program;
  program.Edit(ProgramFixture::kProgram, [](nlohmann::json& document) {
    document["/graph_module/graph/nodes/0/target"_json_pointer] =
        "torch.ops.mine.op.default";
  });
  EXPECT_FALSE(program.Open().ok());
  ASSERT_TRUE(AllowOperatorLibraries({"mine=" + path_}).ok());
  const auto archive = program.Open();
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_THAT((*archive)->operator_libraries(),
              ElementsAre(Pair("mine", Sha256Hex("code"))));
  EXPECT_TRUE((*ProgramFixture().Open())->operator_libraries().empty());
}

}  // namespace
}  // namespace stoker
