#include "program/program_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/program_digest.h"
#include "tests/unit/program/program_fixture.h"

namespace stoker {
namespace {

using json = nlohmann::json;
using testing::HasSubstr;

TEST(ProgramArchiveTest, TopFolderMayHaveAnyName) {
  ProgramFixture renamed;
  std::map<std::string, std::string> members;
  for (const auto& [name, content] : renamed.members) {
    members["x y" + name.substr(name.find('/'))] = content;
  }
  renamed.members = members;
  const auto archive = renamed.Open();
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_EQ((*archive)->folder(), "x y/");
  const auto author = ProgramFixture().Open();
  EXPECT_EQ(WeightsDigest(**archive), WeightsDigest(**author));
  EXPECT_EQ(ProgramDigest(**archive, *ReadSignature(**archive)),
            ProgramDigest(**author, *ReadSignature(**author)));
}

// The whole of `graph` in one operator, as `with torch.no_grad():` around a
// model's forward makes it.
void WrapAll(json& graph, json& output_specs) {
  json inner = graph;
  json inputs = json::array();
  inputs.push_back({{"name", ""}, {"arg", {{"as_bool", false}}}});
  inputs.push_back(
      {{"name", ""},
       {"arg", {{"as_graph", {{"name", "submod_1"}, {"graph", inner}}}}}});
  json values = json::object();
  for (const json& input : graph["inputs"]) {
    inputs.push_back({{"name", ""}, {"arg", input}});
    const std::string name = input["as_tensor"]["name"];
    values[name] = graph["tensor_values"][name];
  }
  for (size_t i = 0; i < graph["outputs"].size(); ++i) {
    const std::string made = graph["outputs"][i]["as_tensor"]["name"];
    const std::string name = "getitem_" + std::to_string(90 + i);
    values[name] = graph["tensor_values"][made];
    graph["outputs"][i]["as_tensor"]["name"] = name;
    output_specs[i]["user_output"]["arg"]["as_tensor"]["name"] = name;
  }
  graph["tensor_values"] = values;
  graph["sym_int_values"] = json::object();
  graph["nodes"] = {
      {{"target", "torch.ops.higher_order.wrap_with_set_grad_enabled"},
       {"inputs", inputs},
       {"outputs", graph["outputs"]},
       {"name", "wrap"},
       {"metadata", json::object()}}};
}

TEST(ProgramArchiveTest, AWrappedProgramIsTheSameProgram) {
  ProgramFixture wrapped;
  wrapped.Edit(ProgramFixture::kProgram, [](json& program) {
    json& module = program["graph_module"];
    WrapAll(module["graph"], module["signature"]["output_specs"]);
    WrapAll(module["graph"], module["signature"]["output_specs"]);
  });
  const auto archive = wrapped.Open();
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_TRUE((*archive)->is_rewritten());
  const auto author = ProgramFixture().Open();
  EXPECT_FALSE((*author)->is_rewritten());
  EXPECT_EQ((*archive)->program(), (*author)->program());
  EXPECT_EQ(ProgramDigest(**archive, *ReadSignature(**archive)),
            ProgramDigest(**author, *ReadSignature(**author)));
}

TEST(ProgramArchiveTest, RefusesOperatorsThatNativertCantRun) {
  ProgramFixture program;
  program.Edit(ProgramFixture::kProgram, [](json& document) {
    document["/graph_module/graph/nodes/0/target"_json_pointer] =
        "torch.ops.higher_order.scan";
  });
  const absl::Status status = program.Open().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("got 'torch.ops.higher_order.scan' at author.py:1"));
}

TEST(ProgramArchiveTest, SharedStorageCountsOnce) {
  const auto archive = ProgramFixture().Open();
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_EQ((*archive)->weights_bytes(), 12 * 4 * 4 + 4 + 4);
}

TEST(ProgramArchiveTest, RefusedArchives) {
  using Members = std::map<std::string, std::string>;
  const struct {
    const char* name;
    std::function<void(Members&)> damage;
    const char* message;
  } cases[] = {
      {"no marker", [](Members& m) { m.erase("author/archive_format"); },
       "written by torch.export.save"},
      {"wrong marker", [](Members& m) { m["author/archive_format"] = "pt3"; },
       "got \"pt3\""},
      {"long marker",
       [](Members& m) { m["author/byteorder"] = std::string(1000, 'b'); },
       "author/byteorder"},
      {"big-endian", [](Members& m) { m["author/byteorder"] = "big"; },
       "got \"big\""},
      {"two top folders", [](Members& m) { m["other/x"] = ""; },
       "all members in one folder, got other/x"},
      {"a file at the top", [](Members& m) { m["loose"] = ""; },
       "all members in one folder, got loose"},
      {"nothing", [](Members& m) { m.clear(); }, "expected members, got none"},
      {"compiled code",
       [](Members& m) { m["author/data/aotinductor/model/x.so"] = "code"; },
       "without compiled code"},
      {"custom object",
       [](Members& m) { m["author/data/constants/custom_obj_0"] = "pickle"; },
       "no custom objects"},
      {"two programs", [](Members& m) { m["author/models/other.json"] = "{}"; },
       "expected one program, author/models/model.json, got "
       "author/models/other.json"},
      {"no program", [](Members& m) { m.erase(ProgramFixture::kProgram); },
       "author/models/model.json"},
      {"no weights", [](Members& m) { m.erase(ProgramFixture::kWeights); },
       "model_weights_config.json"},
      {"broken JSON", [](Members& m) { m[ProgramFixture::kProgram] += "}"; },
       "expected JSON"},
      {"deep JSON",
       [](Members& m) {
         m[ProgramFixture::kProgram] = std::string(100000, '[');
       },
       "levels of nesting"},
      {"empty JSON", [](Members& m) { m[ProgramFixture::kProgram] = ""; },
       "expected JSON"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    ProgramFixture fixture;
    c.damage(fixture.members);
    const auto archive = fixture.Open();
    EXPECT_TRUE(absl::IsInvalidArgument(archive.status()));
    EXPECT_THAT(std::string(archive.status().message()), HasSubstr(c.message));
  }
}

TEST(ProgramArchiveTest, WrongChecksumOfTheProgramIsRefused) {
  std::string bytes = ProgramFixture().Bytes();
  const size_t at = bytes.find("\"range_constraints\"");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 1] = 'R';
  EXPECT_FALSE(ProgramFixture::OpenBytes(bytes).ok());
}

TEST(ProgramArchiveTest, MissingFileIsNotFound) {
  EXPECT_EQ(ProgramArchive::Open("no/such/model.pt2").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ProgramArchiveTest, AProgramOfAGpuDoesNotRunOnTheCpu) {
  ProgramFixture fixture;
  EXPECT_TRUE((*fixture.Open())->CheckRunsOnCpu().ok());
  fixture.Edit(ProgramFixture::kProgram, [](json& program) {
    json& values = program["graph_module"]["graph"]["tensor_values"];
    values.front()["device"] = {{"type", "cuda"}, {"index", 0}};
  });
  const auto archive = fixture.Open();
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_THAT(std::string((*archive)->CheckRunsOnCpu().message()),
              HasSubstr("model.pt2: was exported on a GPU"));
}

}  // namespace
}  // namespace stoker
