#include "access/method.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace stoker {
namespace {

TEST(MethodTest, EachIsThereOnce) {
  std::set<std::string_view> paths;
  for (const Method& method : AllMethods()) {
    EXPECT_TRUE(paths.insert(method.path).second) << method.path;
    EXPECT_EQ(FindMethod(method.path), &method);
  }
}

TEST(MethodTest, GroupsHaveNames) {
  EXPECT_EQ(NameOf(MethodGroup::kHealth), "health");
  EXPECT_EQ(NameOf(MethodGroup::kSharedMemory), "shared_memory");
  EXPECT_EQ(NameOf(MethodGroup::kMetrics), "metrics");
}

TEST(MethodTest, PeopleNameThemShortly) {
  EXPECT_EQ(FindMethodNamed("ModelInfer")->group, MethodGroup::kInfer);
  EXPECT_EQ(FindMethodNamed("/metrics")->group, MethodGroup::kMetrics);
  EXPECT_EQ(FindMethodNamed("/health/liveness")->group, MethodGroup::kHealth);
  EXPECT_EQ(FindMethodNamed("/")->group, MethodGroup::kMetrics);
  EXPECT_EQ(
      FindMethodNamed("/inference.GRPCInferenceService/ModelInfer")->group,
      MethodGroup::kInfer);
  EXPECT_EQ(FindMethodNamed("Nothing"), nullptr);
  EXPECT_EQ(FindMethodNamed(""), nullptr);
}

TEST(MethodTest, ReflectionIsMetadata) {
  EXPECT_EQ(FindMethodNamed("ServerReflectionInfo")->group,
            MethodGroup::kMetadata);
}

TEST(MethodTest, WhatChangesTheServer) {
  std::set<std::string> changes;
  for (const Method& method : AllMethods()) {
    if (method.changes) changes.emplace(method.name());
  }
  EXPECT_EQ(changes,
            (std::set<std::string>{
                "RepositoryModelLoad", "RepositoryModelUnload", "LogSettings",
                "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister",
                "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister",
                "TraceSetting"}));
}

}  // namespace
}  // namespace stoker
