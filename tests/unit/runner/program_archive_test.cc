// The tensors of a .pt2 archive: found where they are right, refused where they
// would be read out of bounds, and no pickle looked at.
#include "runner/program_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "nlohmann/json.hpp"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/zip_writer.h"

namespace stoker {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json Size(int64_t value) { return {{"as_int", value}}; }

json Meta(std::vector<int64_t> sizes, std::vector<int64_t> strides,
          int64_t offset = 0, int dtype = 7) {
  json meta = {{"dtype", dtype},
               {"layout", 7},
               {"device", {{"type", "cpu"}, {"index", nullptr}}},
               {"storage_offset", Size(offset)},
               {"sizes", json::array()},
               {"strides", json::array()}};
  for (int64_t size : sizes) meta["sizes"].push_back(Size(size));
  for (int64_t stride : strides) meta["strides"].push_back(Size(stride));
  return meta;
}

json Entry(const std::string& path_name, json meta) {
  return {{"path_name", path_name},
          {"is_param", true},
          {"use_pickle", false},
          {"tensor_meta", std::move(meta)}};
}

json Parameter(const std::string& value, const std::string& name) {
  return {
      {"parameter", {{"arg", {{"name", value}}}, {"parameter_name", name}}}};
}

json Node(const std::string& target) {
  return {{"target", target},
          {"inputs", json::array()},
          {"outputs", json::array()},
          {"metadata", {{"target", "os.system"}}}};
}

// A program with weights w [2,3], its transposed alias v, and constant c [4].
class ProgramArchiveTest : public ::testing::Test {
 protected:
  ProgramArchiveTest() {
    weights_ = {{"w", Entry("weight_0", Meta({2, 3}, {3, 1}))},
                {"v", Entry("weight_0", Meta({3, 2}, {1, 3}))}};
    constants_ = {{"c", Entry("tensor_0", Meta({4}, {1}, 0, 5))}};
    constants_["c"]["is_param"] = false;
    const json specs = {
        Parameter("p_w", "w"),
        Parameter("p_v", "v"),
        {{"tensor_constant",
          {{"arg", {{"name", "c_c"}}}, {"tensor_constant_name", "c"}}}},
        {{"user_input", {{"arg", {{"as_tensor", {{"name", "x"}}}}}}}}};
    program_ = {{"graph_module",
                 {{"graph",
                   {{"nodes",
                     {Node("torch.ops.aten.add.Tensor"),
                      Node("_operator.floordiv"), Node("torch.sym_max")}},
                    {"tensor_values",
                     {{"p_w", Meta({2, 3}, {3, 1})},
                      {"p_v", Meta({3, 2}, {1, 3})},
                      {"c_c", Meta({4}, {1}, 0, 5)}}}}},
                  {"signature", {{"input_specs", specs}}}}}};
  }

  absl::StatusOr<std::shared_ptr<const ProgramArchive>> Open() {
    ZipWriter zip;
    const auto add = [&](const std::string& name, const std::string& content) {
      // As torch's writer does: content begins at a multiple of 64.
      const size_t header = zip.directory_offset() + 30 + name.size() + 4;
      const size_t padding = (64 - header % 64) % 64;
      zip.Add({.name = name,
               .content = content,
               .local_extra = ZipWriter::Number(0x4246, 2) +
                              ZipWriter::Number(padding, 2) +
                              std::string(padding, 'Z')});
    };
    for (const auto& [name, content] : members_) add(name, content);
    add("m/data/weights/model_weights_config.json",
        json{{"config", weights_}}.dump());
    add("m/data/constants/model_constants_config.json",
        json{{"config", constants_}}.dump());
    add("m/models/model.json", program_.dump());
    std::ofstream(folder_ / "model.pt2", std::ios::binary) << zip.Finish();
    return ProgramArchive::Open(folder_ / "model.pt2");
  }

  std::string Refusal() {
    const absl::Status status = Open().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.pt2"));
    return std::string(status.message());
  }

  const TempFolder folder_;
  json weights_;
  json constants_;
  json program_;
  std::map<std::string, std::string> members_ = {
      {"m/data/weights/weight_0", std::string(24, '\1')},
      {"m/data/constants/tensor_0", std::string(32, '\2')},
      {"m/data/sample_inputs/model.pt", "a pickle that nobody reads"}};
};

TEST_F(ProgramArchiveTest, FindsEveryTensor) {
  const auto archive = Open();
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_EQ((*archive)->model_name(), "model");
  const StoredTensors& tensors = (*archive)->tensors();
  ASSERT_EQ(tensors.size(), 3u);
  const StoredTensor& w = tensors.at("w");
  const StoredTensor& v = tensors.at("v");
  EXPECT_THAT(w.sizes, ElementsAre(2, 3));
  EXPECT_THAT(v.strides, ElementsAre(1, 3));
  EXPECT_EQ(w.data, v.data);  // tied weights
  EXPECT_TRUE(w.is_parameter);
  EXPECT_EQ(std::to_integer<int>(w.data[23]), 1);
  EXPECT_EQ(tensors.at("c").type, StoredType::kLong);
  EXPECT_FALSE(tensors.at("c").is_parameter);
  EXPECT_EQ(std::to_integer<int>(tensors.at("c").data[0]), 2);
}

TEST_F(ProgramArchiveTest, AViewBeginsAtItsOffset) {
  weights_["w"] = Entry("weight_0", Meta({2}, {2}, 3));
  program_["/graph_module/graph/tensor_values/p_w"_json_pointer] =
      Meta({2}, {2}, 3);
  const auto archive = Open();
  ASSERT_TRUE(archive.ok()) << archive.status();
  const StoredTensors& tensors = (*archive)->tensors();
  EXPECT_EQ(tensors.at("w").data - tensors.at("v").data, 12);
}

TEST_F(ProgramArchiveTest, EmptyTensorsNeedNoBytes) {
  members_["m/data/weights/weight_1"] = "";
  weights_["empty"] = Entry("weight_1", Meta({0, 5}, {5, 1}, 77));
  EXPECT_TRUE(Open().ok());
}

TEST_F(ProgramArchiveTest, RefusesPickles) {
  weights_["w"]["use_pickle"] = true;
  EXPECT_THAT(Refusal(), HasSubstr("'w' is pickled"));
  weights_["w"].erase("use_pickle");
  EXPECT_THAT(Refusal(), HasSubstr("'w' is pickled"));
  weights_["w"]["use_pickle"] = false;
  constants_["c"]["use_pickle"] = true;
  EXPECT_THAT(Refusal(), HasSubstr("'c' is pickled"));
}

TEST_F(ProgramArchiveTest, RefusesWhatDoesNotFitItsPayload) {
  const int64_t huge = int64_t{1} << 62;
  const json wrong[] = {
      Meta({2, 4}, {4, 1}),       // two elements too many
      Meta({2, 3}, {3, 1}, 1),    // one element too far
      Meta({2, 3}, {4, 1}),       // rows too far apart
      Meta({huge, 2}, {1, 1}),    // the count overflows
      Meta({2}, {huge}),          // the extent overflows
      Meta({2}, {1}, INT64_MAX),  // the offset overflows
      Meta({2, 3}, {3, -1}),
      Meta({-2, 3}, {3, 1}),
      Meta({2, 3}, {1}),
      Meta({1}, {1}, -1),
      Meta(std::vector<int64_t>(65, 1), std::vector<int64_t>(65, 1)),
  };
  for (const json& meta : wrong) {
    weights_["w"] = Entry("weight_0", meta);
    EXPECT_THAT(Refusal(), HasSubstr("weights tensor 'w'")) << meta;
  }
}

TEST_F(ProgramArchiveTest, RefusesWhatIsNoDenseHostTensor) {
  json meta = Meta({2, 3}, {3, 1});
  meta["dtype"] = 99;
  weights_["w"]["tensor_meta"] = meta;
  EXPECT_THAT(Refusal(), HasSubstr("dtype 99"));
  meta = Meta({2, 3}, {3, 1});
  meta["layout"] = 1;
  weights_["w"]["tensor_meta"] = meta;
  EXPECT_THAT(Refusal(), HasSubstr("strided"));
  meta = Meta({2, 3}, {3, 1});
  meta["device"]["type"] = "xpu";
  weights_["w"]["tensor_meta"] = meta;
  EXPECT_THAT(Refusal(), HasSubstr("device \"xpu\""));
  weights_["w"]["tensor_meta"] = nullptr;
  EXPECT_THAT(Refusal(), HasSubstr("'w'"));
}

TEST_F(ProgramArchiveTest, RefusesPayloadsThatAreNotThere) {
  weights_["w"]["path_name"] = "weight_7";
  EXPECT_THAT(Refusal(), HasSubstr("weight_7"));
  weights_["w"].erase("path_name");
  EXPECT_THAT(Refusal(), HasSubstr("path_name"));
}

TEST_F(ProgramArchiveTest, RefusesANameThatIsBothWeightAndConstant) {
  constants_["w"] = constants_["c"];
  EXPECT_THAT(Refusal(), HasSubstr("both a weight and a constant"));
}

TEST_F(ProgramArchiveTest, RefusesConfigurationsThatAreNone) {
  weights_ = json::array();
  EXPECT_THAT(Refusal(), HasSubstr("model_weights_config.json"));
}

TEST_F(ProgramArchiveTest, RefusesNoProgramAndTwo) {
  members_["m/models/other.json"] = "{}";
  EXPECT_THAT(Refusal(), HasSubstr("expected one program"));
  const ZipWriter empty;
  std::ofstream(folder_ / "model.pt2", std::ios::binary) << empty.Finish();
  EXPECT_FALSE(ProgramArchive::Open(folder_ / "model.pt2").ok());
}

TEST_F(ProgramArchiveTest, RefusesAGraphThatExpectsOtherWeights) {
  json& values = program_["/graph_module/graph/tensor_values"_json_pointer];
  for (const json& other :
       {Meta({4, 3}, {3, 1}), Meta({2, 3}, {1, 2}), Meta({2, 3}, {3, 1}, 0, 8),
        Meta({6}, {1}), json()}) {
    values["p_w"] = other;
    EXPECT_THAT(Refusal(), HasSubstr("of 'w' than the archive holds")) << other;
  }
}

TEST_F(ProgramArchiveTest, RefusesAGraphThatNeedsMoreWeights) {
  weights_.erase("v");
  EXPECT_THAT(Refusal(), HasSubstr("needs 'v'"));
}

TEST_F(ProgramArchiveTest, RefusesOperatorsThatAreNoArithmetic) {
  json& nodes = program_["/graph_module/graph/nodes"_json_pointer];
  for (const char* target :
       {"torch.ops.aten.from_file.default", "torch.ops.mine.op.default",
        "os.system", "torch.ops", "torch.load", "torch.ops.aten", ""}) {
    nodes[0] = Node(target);
    EXPECT_THAT(Refusal(), HasSubstr(std::string("calls '") + target + "'"));
  }
  // In a graph that is an argument of an operator, too.
  nodes[0] = Node("torch.ops.higher_order.cond");
  nodes[0]["inputs"].push_back(
      {{"arg", {{"as_graph", {{"graph", {{"nodes", {Node("os.remove")}}}}}}}}});
  EXPECT_THAT(Refusal(), HasSubstr("calls 'os.remove'"));
}

TEST_F(ProgramArchiveTest, RefusesAProgramThatIsOtherJson) {
  for (const char* text : {"null", "[]", "{}", "{\"graph_module\": 3}"}) {
    program_ = json::parse(text);
    EXPECT_THAT(Refusal(), HasSubstr("expected an exported program")) << text;
  }
}

TEST_F(ProgramArchiveTest, DeepNestingIsNoProblem) {
  json& nodes = program_["/graph_module/graph/nodes"_json_pointer];
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "[";
  deep += std::string(1000, ']');
  nodes[0]["inputs"] = json::parse(deep);
  EXPECT_TRUE(Open().ok());
}

}  // namespace
}  // namespace stoker
