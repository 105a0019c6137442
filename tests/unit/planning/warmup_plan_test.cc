#include "planning/warmup_plan.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stoker {
namespace {

struct Inputs {
  ModelSpec spec;
  Toolchain toolchain{.cpu = {"x86-64-v3", 256},
                      .recipe = "0123456789abcdef",
                      .torch = "2.11.0",
                      .torch_git = "70d99e9",
                      .python = "3.11",
                      .sympy = "1.14.0",
                      .cxx = "g++ 12"};
};

Inputs TokenModel() {
  Inputs in;
  in.spec.name = "tokens";
  in.spec.version = 3;
  in.spec.program_path = "/models/tokens/3/model.pt2";
  in.spec.program_digest = std::string(64, 'a');
  in.spec.dimensions = {{"batch", "s0", 1, 64, true},
                        {"tokens", "s1", 1, 512, true}};
  in.spec.buckets = {ShapeBucket{{1, 16}}, ShapeBucket{{8, 32}}};
  return in;
}

std::vector<WarmupStep> Plan(const Inputs& in) {
  return MakeWarmupPlan(in.spec, in.toolchain);
}

TEST(WarmupPlanTest, OneStepPerBucketInTheirOrder) {
  const Inputs in = TokenModel();
  const std::vector<WarmupStep> plan = Plan(in);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].bucket, 0);
  EXPECT_EQ(plan[0].name, "batch=1,tokens=16");
  EXPECT_EQ(plan[1].name, "batch=8,tokens=32");
  const CompileRequest& request = plan[1].request;
  EXPECT_EQ(request.model, "tokens:3");
  EXPECT_EQ(request.bucket, "batch=8,tokens=32");
  EXPECT_EQ(request.sizes,
            (std::map<std::string, int64_t>{{"s0", 8}, {"s1", 32}}));
  EXPECT_EQ(request.march, "x86-64-v3");
  EXPECT_EQ(request.simdlen, 256);
  EXPECT_EQ(request.key, ArtifactKey(request.factors));
}

TEST(WarmupPlanTest, DynamicFormsComeBehindTheBuckets) {
  Inputs in = TokenModel();
  const std::vector<WarmupStep> without = Plan(in);
  in.spec.batch_dimension = 0;
  in.spec.compile.dynamic = DynamicForms::kBeside;
  const std::vector<WarmupStep> plan = Plan(in);
  ASSERT_EQ(plan.size(), 4u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(plan[i].dynamic());
    EXPECT_EQ(plan[i].request.key, without[i].request.key);
  }
  EXPECT_TRUE(plan[2].dynamic());
  EXPECT_EQ(plan[2].name, "batch=any,tokens=any");
  EXPECT_TRUE(plan[2].request.sizes.empty());
  EXPECT_TRUE(plan[3].dynamic());
  EXPECT_EQ(plan[3].bucket, 3);
  EXPECT_EQ(plan[3].name, "batch=1,tokens=any");
  EXPECT_EQ(plan[3].request.sizes, (std::map<std::string, int64_t>{{"s0", 1}}));
  EXPECT_NE(plan[2].request.key, plan[3].request.key);
}

TEST(WarmupPlanTest, WithFormsInsteadOnlyWhatTheyAreNotForIsWanted) {
  Inputs in = TokenModel();
  in.spec.batch_dimension = 0;
  in.spec.compile.dynamic = DynamicForms::kInstead;
  in.spec.buckets = {{{1, 16}}, {{8, 32}}, {{8, 1}}};
  const std::vector<WarmupStep> plan = Plan(in);
  ASSERT_EQ(plan.size(), 5u);
  EXPECT_FALSE(plan[0].wanted);
  EXPECT_FALSE(plan[1].wanted);
  EXPECT_TRUE(plan[2].wanted) << "a single token";
  EXPECT_TRUE(plan[3].wanted && plan[4].wanted);
}

TEST(WarmupPlanTest, OneRowNeedsNoFormWhereTheBatchIsAllThereIs) {
  Inputs in = TokenModel();
  in.spec.batch_dimension = 0;
  in.spec.compile.dynamic = DynamicForms::kBeside;
  in.spec.dimensions.pop_back();
  in.spec.buckets.clear();
  ASSERT_EQ(Plan(in).size(), 1u);
  EXPECT_EQ(Plan(in)[0].name, "batch=any");
  in = TokenModel();
  in.spec.batch_dimension = 0;
  in.spec.compile.dynamic = DynamicForms::kBeside;
  in.spec.dimensions[0].min = 2;
  EXPECT_EQ(Plan(in).size(), 3u);
}

TEST(WarmupPlanTest, EachFactorChangesTheKey) {
  const std::vector<std::pair<std::string, std::function<void(Inputs&)>>>
      changes = {
          {"graph", [](Inputs& i) { i.spec.program_digest[0] = 'b'; }},
          {"a size", [](Inputs& i) { i.spec.buckets[0].sizes[1] = 17; }},
          {"a symbol", [](Inputs& i) { i.spec.dimensions[1].symbol = "s2"; }},
          {"march", [](Inputs& i) { i.toolchain.cpu.march = "x86-64-v4"; }},
          {"recipe", [](Inputs& i) { i.toolchain.recipe[0] = 'f'; }},
          {"simdlen", [](Inputs& i) { i.toolchain.cpu.simdlen = 512; }},
          {"torch", [](Inputs& i) { i.toolchain.torch = "2.11.1"; }},
          {"torch.git", [](Inputs& i) { i.toolchain.torch_git = "0a1b2c3"; }},
          {"python", [](Inputs& i) { i.toolchain.python = "3.12"; }},
          {"sympy", [](Inputs& i) { i.toolchain.sympy = "1.13.3"; }},
          {"cxx", [](Inputs& i) { i.toolchain.cxx = "g++ 13"; }},
          {"precision",
           [](Inputs& i) {
             i.spec.compile.precision = ComputePrecision::kBfloat16;
           }},
          {"deterministic",
           [](Inputs& i) { i.spec.compile.deterministic = true; }},
          {"passes", [](Inputs& i) { i.spec.compile.passes_digest = "aa"; }},
          {"other passes",
           [](Inputs& i) { i.spec.compile.passes_digest = "bb"; }},
          {"an option",
           [](Inputs& i) { i.spec.compile.options["epilogue_fusion"] = "1"; }},
          {"its value",
           [](Inputs& i) { i.spec.compile.options["epilogue_fusion"] = "0"; }},
          {"an operator library",
           [](Inputs& i) { i.spec.operator_libraries["mine"] = "aa"; }},
          {"its code",
           [](Inputs& i) { i.spec.operator_libraries["mine"] = "bb"; }},
      };
  std::set<std::string> keys = {Plan(TokenModel())[0].request.key.hex()};
  for (const auto& [name, change] : changes) {
    Inputs in = TokenModel();
    change(in);
    EXPECT_TRUE(keys.insert(Plan(in)[0].request.key.hex()).second) << name;
  }
}

TEST(WarmupPlanTest, WhatCannotChangeTheCodeDoesNotChangeTheKey) {
  const std::vector<std::pair<std::string, std::function<void(Inputs&)>>>
      changes = {
          {"name", [](Inputs& i) { i.spec.name = "other"; }},
          {"version", [](Inputs& i) { i.spec.version = 9; }},
          {"path", [](Inputs& i) { i.spec.program_path = "/elsewhere"; }},
          {"weights", [](Inputs& i) { i.spec.weights_digest = "new"; }},
          {"name of a dimension",
           [](Inputs& i) { i.spec.dimensions[0].name = "n"; }},
          {"padding", [](Inputs& i) { i.spec.dimensions[1].padding = false; }},
          {"path of the passes",
           [](Inputs& i) { i.spec.compile.passes_path = "/elsewhere.py"; }},
          {"other buckets", [](Inputs& i) { i.spec.buckets.resize(1); }},
          {"queue",
           [](Inputs& i) {
             i.spec.dynamic_batching.policies[0].max_queue_size = 1;
           }},
      };
  const std::string key = Plan(TokenModel())[0].request.key.hex();
  for (const auto& [name, change] : changes) {
    Inputs in = TokenModel();
    change(in);
    EXPECT_EQ(Plan(in)[0].request.key.hex(), key) << name;
  }
}

// Artifacts that were made before there were other devices are found.
TEST(WarmupPlanTest, KeysOfTheProcessorAreWhatTheyWere) {
  Inputs in = TokenModel();
  in.toolchain.cuda = "13.0";
  in.toolchain.triton = "3.6.0";
  in.toolchain.gpu = GpuTarget{"sm_90", 132, 79, "580"};
  const std::vector<WarmupStep> plan = Plan(in);
  EXPECT_EQ(plan[0].request.key.hex(),
            "dc50aac830a21fbdab0066cf9ae4f5b2e0d3671a38d350b22b489af2a8d04e58");
  EXPECT_EQ(plan[1].request.key.hex(),
            "9d57d4e633ca3962e5460e89f358b6b0ee7b41997d01fa294e9e8668ec76180a");
  EXPECT_EQ(plan[0].request.device, "cpu");
}

Inputs OnGpu() {
  Inputs in = TokenModel();
  in.spec.devices = {*ParseDevice("cuda:1")};
  in.toolchain.cuda = "13.0";
  in.toolchain.triton = "3.6.0";
  in.toolchain.gpu = GpuTarget{"sm_90", 132, 79, "580"};
  return in;
}

TEST(WarmupPlanTest, AKeyOfAGpuSaysWhichKindItIs) {
  const Inputs in = OnGpu();
  const CompileRequest request =
      MakeWarmupPlan(in.spec, in.toolchain, "cuda:1")[0].request;
  EXPECT_EQ(request.device, "cuda:1");
  const std::pair<const char*, const char*> kExpected[] = {
      {"device", "cuda"},
      {"cuda.arch", "sm_90"},
      {"cuda.sms", "132"},
      {"cuda.memory_gib", "79"},
      {"cuda.driver", "580"},
      {"cuda.toolkit", "13.0"},
      {"triton", "3.6.0"},
      {"cpu.march", "x86-64-v3"},
      {"inductor.aot_inductor.compile_wrapper_opt_level", "\"O1\""},
  };
  for (const auto& [name, value] : kExpected) {
    EXPECT_EQ(request.factors.at(name), value) << name;
  }
  EXPECT_FALSE(request.factors.contains("cpu.simdlen"));
}

TEST(WarmupPlanTest, EachFactorOfAGpuChangesTheKey) {
  const std::vector<std::function<void(Inputs&)>> changes = {
      [](Inputs& i) { i.toolchain.gpu->arch = "sm_80"; },
      [](Inputs& i) { i.toolchain.gpu->sms = 114; },
      [](Inputs& i) { i.toolchain.gpu->memory_gib = 40; },
      [](Inputs& i) { i.toolchain.gpu->driver = "590"; },
      [](Inputs& i) { i.toolchain.cuda = "13.1"; },
      [](Inputs& i) { i.toolchain.triton = "3.7.0"; },
      [](Inputs& i) { i.spec.compile.precision = ComputePrecision::kFloat16; },
      [](Inputs& i) { i.spec.compile.precision = ComputePrecision::kTf32; },
  };
  const std::string key = Plan(OnGpu())[0].request.key.hex();
  std::set<std::string> keys = {key};
  for (const auto& change : changes) {
    Inputs in = OnGpu();
    change(in);
    EXPECT_TRUE(keys.insert(Plan(in)[0].request.key.hex()).second);
  }
  // Which one of several it is, is all one.
  Inputs in = OnGpu();
  in.spec.devices = {*ParseDevice("cuda:0")};
  EXPECT_EQ(Plan(in)[0].request.key.hex(), key);
}

// One artifact serves any CPU limit, and instances may differ.
TEST(WarmupPlanTest, ThreadsAndInstancesAreNoFactors) {
  Inputs in = TokenModel();
  const std::string key = Plan(in)[0].request.key.hex();
  in.spec.threads = 7;
  in.spec.instances = 3;
  EXPECT_EQ(Plan(in)[0].request.key.hex(), key);
}

// Whatever is a factor is in the text that the key is a digest of, so changing
// any of them, listed above or not, changes the key.
TEST(WarmupPlanTest, EveryFactorThatIsStoredIsPartOfTheKey) {
  const CompileRequest request = Plan(TokenModel())[0].request;
  EXPECT_GE(request.factors.size(), 17u);
  for (const auto& [name, value] : request.factors) {
    KeyFactors changed = request.factors;
    changed[name] += "x";
    EXPECT_NE(ArtifactKey(changed), request.key) << name;
    changed.erase(name);
    EXPECT_NE(ArtifactKey(changed), request.key) << name;
  }
}

}  // namespace
}  // namespace stoker
