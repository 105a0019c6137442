#include "program/program_digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "tests/unit/program/program_fixture.h"

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
  const auto archive = fixture.Open();
  EXPECT_TRUE(archive.ok()) << archive.status();
  if (!archive.ok()) return "";
  const auto signature = ReadSignature(**archive);
  EXPECT_TRUE(signature.ok()) << signature.status();
  return signature.ok() ? ProgramDigest(**archive, *signature) : "";
}

std::string Unchanged() {
  return DigestAfter([](ProgramFixture&) {});
}

// Another one of the same program would empty everybody's cache.
TEST(ProgramDigestTest, StaysWhatItWas) {
  EXPECT_EQ(Unchanged(),
            "8198948361b1c6704a96cd0f0a7e471bababe70bc6b2ed3d225b37da7bf9224e");
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
  const std::function<void(ProgramFixture&)> cases[] = {
      edit(kProgram, "/graph_module/graph/nodes/0/target", "torch.ops.aten.x"),
      edit(kProgram, "/graph_module/graph/nodes/0/outputs/0/as_tensor/name",
           "y"),
      edit(kProgram, "/graph_module/graph/tensor_values/embedding/dtype", 6),
      edit(kProgram, "/range_constraints/s18/max_val", 31),
      edit(kProgram, "/opset_version/aten", 11),
      [](ProgramFixture& f) {
        f.Edit(ProgramFixture::kConstants, [](json& config) {
          config["config"]["scale"]["tensor_meta"]["dtype"] = 4;
        });
        f.Edit(ProgramFixture::kProgram, [](json& program) {
          program[Pointer("/graph_module/graph/tensor_values/b_scale/dtype")] =
              4;
        });
      },
      // A scalar in place of a vector of one.
      [](ProgramFixture& f) {
        for (const auto& [member, at] :
             {std::pair(ProgramFixture::kConstants,
                        "/config/scale/tensor_meta"),
              std::pair(ProgramFixture::kProgram,
                        "/graph_module/graph/tensor_values/b_scale")}) {
          f.Edit(member, [at = at](json& document) {
            document[Pointer(at)]["sizes"].clear();
            document[Pointer(at)]["strides"].clear();
          });
        }
      },
  };
  std::set<std::string> digests = {Unchanged()};
  size_t expected = 1;
  for (const auto& change : cases) {
    EXPECT_TRUE(digests.insert(DigestAfter(change)).second) << expected;
    ++expected;
  }
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

TEST(ContentDigestTest, IsOfTheBytesThatTheCompilerReads) {
  const auto digest_of = [](const ProgramFixture& fixture) {
    return ContentDigest(**fixture.Open());
  };
  const std::string digest = digest_of(ProgramFixture());
  EXPECT_EQ(digest_of(ProgramFixture()), digest);
  ProgramFixture weights;
  weights.members["author/data/weights/weight_0"][0] ^= 1;
  EXPECT_EQ(digest_of(weights), digest);
  for (const char* member :
       {ProgramFixture::kProgram, ProgramFixture::kWeights}) {
    ProgramFixture fixture;
    fixture.members[member] += " ";
    EXPECT_NE(digest_of(fixture), digest) << member;
  }
}

TEST(WeightsDigestTest, ChangesWithTheContentOfAnyMember) {
  const auto digest_of = [](const ProgramFixture& fixture) {
    return WeightsDigest(**fixture.Open());
  };
  const std::string digest = digest_of(ProgramFixture());
  for (const char* member :
       {"author/data/weights/weight_0", "author/data/constants/tensor_1"}) {
    ProgramFixture fixture;
    fixture.members[member][0] ^= 1;
    EXPECT_NE(digest_of(fixture), digest) << member;
  }
  ProgramFixture other_graph;
  other_graph.Edit(ProgramFixture::kProgram,
                   [](json& p) { p["opset_version"]["aten"] = 11; });
  EXPECT_EQ(digest_of(other_graph), digest);
}

}  // namespace
}  // namespace stoker
