// The tensors of a .pt2 archive: found where they are right, refused where they
// would be read out of bounds, and no pickle looked at.
#include "program/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/program/program_fixture.h"

namespace stoker {
namespace {

using json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

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

// Weights w [2,3], its transposed alias v, and constant c [4].
class PayloadTest : public ::testing::Test {
 protected:
  PayloadTest() {
    members_.clear();
    members_["m/data/weights/weight_0"] = std::string(24, '\1');
    members_["m/data/constants/tensor_0"] = std::string(32, '\2');
    weights_ = {{"w", Entry("weight_0", Meta({2, 3}, {3, 1}))},
                {"v", Entry("weight_0", Meta({3, 2}, {1, 3}))}};
    constants_ = {{"c", Entry("tensor_0", Meta({4}, {1}, 0, 5))}};
    constants_["c"]["is_param"] = false;
  }

  absl::StatusOr<Payload> Read() {
    members_["m/data/weights/model_weights_config.json"] =
        json{{"config", weights_}}.dump();
    members_["m/data/constants/model_constants_config.json"] =
        json{{"config", constants_}}.dump();
    std::ofstream(folder_ / "model.pt2", std::ios::binary) << program_.Bytes();
    auto zip = ZipArchive::Open(folder_ / "model.pt2");
    EXPECT_TRUE(zip.ok()) << zip.status();
    zip_ = *zip;
    return ReadPayload(*zip_, "m/");
  }

  std::string Refusal() {
    const absl::Status status = Read().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.pt2"));
    return std::string(status.message());
  }

  const TempFolder folder_;
  ProgramFixture program_;
  std::map<std::string, std::string>& members_ = program_.members;
  json weights_;
  json constants_;
  std::shared_ptr<const ZipArchive> zip_;
};

TEST_F(PayloadTest, FindsEveryTensor) {
  const auto payload = Read();
  ASSERT_TRUE(payload.ok()) << payload.status();
  const StoredTensors& tensors = payload->tensors;
  ASSERT_EQ(tensors.size(), 3u);
  const StoredTensor& w = tensors.at("w");
  const StoredTensor& v = tensors.at("v");
  EXPECT_THAT(w.sizes, ElementsAre(2, 3));
  EXPECT_THAT(v.strides, ElementsAre(1, 3));
  EXPECT_EQ(w.data, v.data);  // tied weights
  EXPECT_EQ(w.member, v.member);
  EXPECT_TRUE(w.is_parameter);
  EXPECT_EQ(std::to_integer<int>(w.data[23]), 1);
  EXPECT_EQ(tensors.at("c").type, ScalarType::kLong);
  EXPECT_FALSE(tensors.at("c").is_parameter);
  EXPECT_EQ(std::to_integer<int>(tensors.at("c").data[0]), 2);
  EXPECT_EQ(payload->bytes, 24 + 32);
}

TEST_F(PayloadTest, AViewBeginsAtItsOffset) {
  weights_["w"] = Entry("weight_0", Meta({2}, {2}, 3));
  const auto payload = Read();
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(payload->tensors.at("w").data - payload->tensors.at("v").data, 12);
  EXPECT_EQ(ExtentBytes(payload->tensors.at("w")), 12);
}

TEST_F(PayloadTest, EmptyTensorsNeedNoBytes) {
  members_["m/data/weights/weight_1"] = "";
  weights_["empty"] = Entry("weight_1", Meta({0, 5}, {5, 1}, 77));
  EXPECT_TRUE(Read().ok());
}

TEST_F(PayloadTest, EveryDtypeOfTheFormatIsKnown) {
  members_["m/data/weights/weight_0"] = std::string(96, '\1');
  for (const int dtype :
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 28, 29, 30, 31, 32}) {
    weights_["w"] = Entry("weight_0", Meta({2, 3}, {3, 1}, 0, dtype));
    EXPECT_TRUE(Read().ok()) << dtype;
  }
  for (const int dtype : {0, 14, 27, 33, -1}) {
    weights_["w"] = Entry("weight_0", Meta({2, 3}, {3, 1}, 0, dtype));
    EXPECT_THAT(Refusal(), HasSubstr("expected a dtype of known size"));
  }
}

TEST_F(PayloadTest, RefusesPickles) {
  weights_["w"]["use_pickle"] = true;
  EXPECT_THAT(Refusal(), HasSubstr("config/w/use_pickle: expected false"));
  weights_["w"].erase("use_pickle");
  EXPECT_THAT(Refusal(), HasSubstr("expected a member \"use_pickle\""));
  weights_["w"]["use_pickle"] = false;
  constants_["c"]["use_pickle"] = true;
  EXPECT_THAT(Refusal(), HasSubstr("config/c/use_pickle: expected false"));
}

TEST_F(PayloadTest, RefusesWhatDoesNotFitItsMember) {
  const int64_t huge = int64_t{1} << 62;
  const json wrong[] = {
      Meta({2, 4}, {4, 1}),       // two elements too many
      Meta({2, 3}, {3, 1}, 1),    // one element too far
      Meta({2, 3}, {4, 1}),       // rows too far apart
      Meta({huge, 2}, {1, 1}),    // the count overflows
      Meta({huge, 8}, {0, 0}),    // the same, of one element
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
    EXPECT_THAT(Refusal(), HasSubstr("config/w/tensor_meta")) << meta;
  }
}

TEST_F(PayloadTest, RefusesWhatIsNoDenseHostTensor) {
  json meta = Meta({2, 3}, {3, 1});
  meta["layout"] = 1;
  weights_["w"]["tensor_meta"] = meta;
  EXPECT_THAT(Refusal(), HasSubstr("expected a dense layout"));
  meta = Meta({2, 3}, {3, 1});
  meta["device"]["type"] = "xpu";
  weights_["w"]["tensor_meta"] = meta;
  EXPECT_THAT(Refusal(), HasSubstr("expected cpu or cuda, got \"xpu\""));
  weights_["w"]["tensor_meta"] = nullptr;
  EXPECT_THAT(Refusal(), HasSubstr("config/w/tensor_meta"));
}

// Compiled code loads elements as wholes.
TEST_F(PayloadTest, RefusesElementsThatAreNotAligned) {
  ZipWriter zip;
  const auto add = [&zip](const std::string& name, const std::string& content) {
    ZipMember member;
    member.name = name;
    member.content = content;
    zip.Add(member);
  };
  const std::string odd = zip.directory_offset() % 2 == 0 ? "m/ab" : "m/a";
  add(odd, "");
  add("m/data/constants/model_constants_config.json", R"({"config": {}})");
  add("m/data/weights/model_weights_config.json",
      json{{"config", {{"w", weights_["w"]}}}}.dump());
  while ((zip.directory_offset() + 30 + 23) % 4 == 0) {
    add("m/x" + std::to_string(zip.directory_offset()), "");
  }
  add("m/data/weights/weight_0", std::string(24, '\1'));
  std::ofstream(folder_ / "model.pt2", std::ios::binary) << zip.Finish();
  const auto archive = ZipArchive::Open(folder_ / "model.pt2");
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_THAT(std::string(ReadPayload(**archive, "m/").status().message()),
              HasSubstr("aligned to its elements' size"));
}

TEST_F(PayloadTest, RefusesMembersThatAreNotThere) {
  weights_["w"]["path_name"] = "weight_7";
  EXPECT_THAT(Refusal(), HasSubstr("\"weight_7\""));
  weights_["w"].erase("path_name");
  EXPECT_THAT(Refusal(), HasSubstr("path_name"));
}

TEST_F(PayloadTest, RefusesANameThatIsBothWeightAndConstant) {
  constants_["w"] = constants_["c"];
  EXPECT_THAT(
      Refusal(),
      HasSubstr("weights and constants of distinct names, got w twice"));
}

TEST_F(PayloadTest, RefusesConfigurationsThatAreNone) {
  weights_ = json::array();
  EXPECT_THAT(Refusal(), HasSubstr("model_weights_config.json/config: "
                                   "expected an object"));
}

}  // namespace
}  // namespace stoker
