#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program_fixture.h"
#include "repository/model_repository.h"

namespace stoker {
namespace {

using json = nlohmann::json;
using Pointer = json::json_pointer;

// Every object of the document, to be changed by `change`.
void ForEachObject(json& value, const std::function<void(json&)>& change) {
  if (value.is_object()) change(value);
  if (value.is_structured()) {
    for (json& child : value) ForEachObject(child, change);
  }
}

std::string DigestAfter(const std::function<void(ProgramFixture&)>& change) {
  ProgramFixture fixture;
  change(fixture);
  const auto spec = fixture.Read();
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? spec->program_digest : "";
}

std::string Unchanged() {
  return DigestAfter([](ProgramFixture&) {});
}

TEST(ProgramDigestTest, IsSha256) {
  EXPECT_THAT(Unchanged(), testing::MatchesRegex("[0-9a-f]{64}"));
}

TEST(ProgramDigestTest, IgnoresWhatDiffersBetweenExports) {
  const struct {
    const char* name;
    std::function<void(ProgramFixture&)> change;
  } cases[] = {
      {"stack traces",
       [](ProgramFixture& f) {
         f.Edit(ProgramFixture::kProgram, [](json& program) {
           for (json& node : program[Pointer("/graph_module/graph/nodes")]) {
             node["metadata"] = {{"stack_trace", "/another/folder"}};
           }
         });
       }},
      {"hints",
       [](ProgramFixture& f) {
         f.Edit(ProgramFixture::kProgram, [](json& program) {
           int changed = 0;
           ForEachObject(program, [&](json& object) {
             if (!object.contains("expr_str")) return;
             object["hint"] = {{"as_int", 17}};
             ++changed;
           });
           EXPECT_GT(changed, 10);
         });
       }},
      {"torch's version",
       [](ProgramFixture& f) {
         f.Edit(ProgramFixture::kProgram,
                [](json& program) { program["torch_version"] = "2.11.1"; });
       }},
      {"modules' names",
       [](ProgramFixture& f) {
         f.Edit(ProgramFixture::kProgram, [](json& program) {
           json& calls = program["graph_module"]["module_call_graph"];
           calls.erase(calls.begin() + 1, calls.end());
         });
       }},
      {"payload files' names",
       [](ProgramFixture& f) {
         f.members["author/data/weights/weight_7"] =
             f.members["author/data/weights/weight_0"];
         f.members.erase("author/data/weights/weight_0");
         f.Edit(ProgramFixture::kWeights, [](json& config) {
           for (json& entry : config["config"]) entry["path_name"] = "weight_7";
         });
       }},
      {"weights' values",
       [](ProgramFixture& f) {
         f.members["author/data/weights/weight_0"][5] ^= 1;
       }},
      {"sample inputs",
       [](ProgramFixture& f) {
         f.members["author/data/sample_inputs/model.pt"] = "anything";
       }},
      {"order of members and white space",
       [](ProgramFixture& f) {
         f.members[ProgramFixture::kProgram] =
             nlohmann::ordered_json::parse(f.members[ProgramFixture::kProgram])
                 .dump(4);
       }},
  };
  const std::string digest = Unchanged();
  for (const auto& c : cases)
    EXPECT_EQ(DigestAfter(c.change), digest) << c.name;
}

TEST(ProgramDigestTest, ChangesWithWhateverCanChangeTheCode) {
  const auto edit = [](const char* member, const char* pointer, json value) {
    return [=](ProgramFixture& f) {
      f.Edit(member, [&](json& document) {
        ASSERT_NE(document.at(Pointer(pointer)), value) << pointer;
        document.at(Pointer(pointer)) = value;
      });
    };
  };
  const char* const kProgram = ProgramFixture::kProgram;
  const char* const kConstants = ProgramFixture::kConstants;
  const std::function<void(ProgramFixture&)> cases[] = {
      edit(kProgram, "/graph_module/graph/nodes/0/target", "torch.ops.aten.x"),
      edit(kProgram, "/graph_module/graph/nodes/0/outputs/0/as_tensor/name",
           "y"),
      edit(kProgram, "/graph_module/graph/tensor_values/embedding/dtype", 6),
      edit(kProgram, "/range_constraints/s18/max_val", 31),
      edit(kProgram, "/opset_version/aten", 11),
      edit(kConstants, "/config/scale/tensor_meta/dtype", 5 - 1),
      edit(kConstants, "/config/scale/tensor_meta/sizes",
           json::array()),  // with its stride below
  };
  std::set<std::string> digests = {Unchanged()};
  size_t expected = 1;
  for (const auto& change : cases) {
    if (&change == &cases[6]) break;
    EXPECT_TRUE(digests.insert(DigestAfter(change)).second) << expected;
    ++expected;
  }
  // A scalar in place of a vector of one.
  EXPECT_TRUE(
      digests
          .insert(DigestAfter([&](ProgramFixture& f) {
            cases[6](f);
            f.Edit(ProgramFixture::kConstants, [](json& config) {
              config["config"]["scale"]["tensor_meta"]["strides"].clear();
            });
          }))
          .second);
  // Tied weights no longer tied.
  EXPECT_TRUE(digests
                  .insert(DigestAfter([](ProgramFixture& f) {
                    f.members["author/data/weights/weight_1"] =
                        f.members["author/data/weights/weight_0"];
                    f.Edit(ProgramFixture::kWeights, [](json& config) {
                      config["config"]["head.weight"]["path_name"] = "weight_1";
                    });
                  }))
                  .second);
  // Another name of an input: it appears in guards' messages.
  EXPECT_TRUE(digests
                  .insert(DigestAfter([](ProgramFixture& f) {
                    f.Edit(ProgramFixture::kProgram, [](json& program) {
                      program[Pointer(
                          "/graph_module/module_call_graph/0/signature/"
                          "forward_arg_names/0")] = "input_ids";
                    });
                  }))
                  .second);
}

TEST(ProgramDigestTest, TensorsMayBeCalledLikeNoise) {
  // A tensor named "metadata" beside one named "target" is not a node's
  // metadata.
  const auto with_tensor = [](int dtype) {
    return DigestAfter([dtype](ProgramFixture& f) {
      f.Edit(ProgramFixture::kProgram, [dtype](json& program) {
        json& values = program["graph_module"]["graph"]["tensor_values"];
        values["target"] = values["embedding"];
        values["metadata"] = values["embedding"];
        values["metadata"]["dtype"] = dtype;
      });
    });
  };
  EXPECT_NE(with_tensor(7), with_tensor(6));
}

TEST(WeightsDigestTest, ChangesWithTheContentOfAnyMember) {
  const std::string digest = ProgramFixture().Read()->weights_digest;
  for (const char* member :
       {"author/data/weights/weight_0", "author/data/constants/tensor_1"}) {
    ProgramFixture fixture;
    fixture.members[member][0] ^= 1;
    EXPECT_NE(fixture.Read()->weights_digest, digest) << member;
  }
  ProgramFixture other_graph;
  other_graph.Edit(ProgramFixture::kProgram,
                   [](json& p) { p["opset_version"]["aten"] = 11; });
  EXPECT_EQ(other_graph.Read()->weights_digest, digest);
}

}  // namespace
}  // namespace stoker
