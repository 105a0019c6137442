// A policy before a server: every method, by gRPC's own client.
#include <gmock/gmock.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "access/method.h"
#include "rpc/health_client.h"
#include "tests/unit/rpc/access_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

constexpr char kAuthorOnly[] =
    "{callers: [web], groups: [infer, metadata, health, statistics], "
    "models: [author]}";

TEST_F(AccessTest, NoMethodIsLeftOpen) {
  ServeWith("{callers: [web], groups: [metrics]}");
  for (const Method& method : AllMethods()) {
    if (method.is_page()) continue;
    const std::string path(method.path);
    EXPECT_EQ(Call(path, "").error_code(), grpc::UNAUTHENTICATED) << path;
    EXPECT_EQ(Call(path, "wrong").error_code(), grpc::UNAUTHENTICATED) << path;
    const grpc::Status known = Call(path, "secret");
    EXPECT_EQ(known.error_code(), grpc::PERMISSION_DENIED) << path;
    EXPECT_THAT(known.error_message(),
                HasSubstr(absl::StrCat("caller 'web' may not call ",
                                       std::string(method.name()), " (group ",
                                       NameOf(method.group), ")")));
  }
}

TEST_F(AccessTest, EachGroupOpensItsMethodsOnly) {
  ServeWith("{callers: [web], groups: [health]}");
  for (const std::string& group : MethodGroupNames()) {
    Write(absl::StrCat("{callers: [web], groups: [", group, "]}"));
    gate_->Look();
    for (const Method& method : AllMethods()) {
      if (method.is_page()) continue;
      const grpc::StatusCode code =
          Call(std::string(method.path), "secret").error_code();
      EXPECT_EQ(code == grpc::PERMISSION_DENIED, NameOf(method.group) != group)
          << method.path << " with " << group << ": " << code;
      EXPECT_NE(code, grpc::UNAUTHENTICATED) << method.path;
    }
  }
}

TEST_F(AccessTest, ModelsAreThoseOfTheRule) {
  ServeWith(kAuthorOnly);
  EXPECT_EQ(Metadata("author"), grpc::OK);
  // Whether there is such a model isn't to be found out.
  EXPECT_EQ(Metadata("other"), grpc::PERMISSION_DENIED);
  EXPECT_EQ(Metadata(""), grpc::PERMISSION_DENIED);

  grpc::ClientContext context;
  Show(context, "secret");
  inference::ModelInferResponse response;
  EXPECT_TRUE(stub_->ModelInfer(&context, Request(1), &response).ok());
  inference::ModelInferRequest other = Request(1);
  other.set_model_name("other");
  EXPECT_EQ(Ask(&inference::GRPCInferenceService::Stub::ModelInfer, other),
            grpc::PERMISSION_DENIED);
  EXPECT_EQ(MetricValue(metrics_, "stoker_access_refused_total",
                        {{"reason", "permission"}}),
            3);
  EXPECT_EQ(MetricValue(metrics_, "stoker_requests_total",
                        {{"outcome", "permission_denied"}}),
            1);
}

TEST_F(AccessTest, WhatListsAllModelsTakesARuleForAll) {
  ServeWith(kAuthorOnly);
  using Stub = inference::GRPCInferenceService::Stub;
  EXPECT_EQ(Ask(&Stub::RepositoryIndex, inference::RepositoryIndexRequest()),
            grpc::PERMISSION_DENIED);
  inference::ModelStatisticsRequest statistics;
  EXPECT_EQ(Ask(&Stub::ModelStatistics, statistics), grpc::PERMISSION_DENIED);
  statistics.set_name("author");
  EXPECT_EQ(Ask(&Stub::ModelStatistics, statistics), grpc::OK);
  Write("{callers: [web], groups: [metadata, statistics]}");
  gate_->Look();
  EXPECT_EQ(Ask(&Stub::RepositoryIndex, inference::RepositoryIndexRequest()),
            grpc::OK);
  EXPECT_EQ(Ask(&Stub::ModelStatistics, inference::ModelStatisticsRequest()),
            grpc::OK);
}

TEST_F(AccessTest, HealthOfTheServerIsAboutNoModel) {
  ServeWith(kAuthorOnly);
  for (const char* service : {"", "liveness", "readiness", "startup",
                              "inference.GRPCInferenceService", "author"}) {
    EXPECT_EQ(Health(service), grpc::OK) << service;
  }
  EXPECT_EQ(Health("other"), grpc::PERMISSION_DENIED);
}

TEST_F(AccessTest, AStreamIsAskedAboutEveryRequest) {
  ServeWith(kAuthorOnly);
  grpc::ClientContext context;
  Show(context, "secret");
  auto stream = stub_->ModelStreamInfer(&context);
  inference::ModelStreamInferResponse response;
  const auto ask = [&](const std::string& model) {
    inference::ModelInferRequest request = Request(7);
    request.set_model_name(model);
    EXPECT_TRUE(stream->Write(request));
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.infer_response().id(), "id-7");
    return response.error_message();
  };
  EXPECT_EQ(ask("author"), "");
  EXPECT_THAT(ask("other"), HasSubstr("may not call ModelStreamInfer"));
  EXPECT_EQ(ask("author"), "");
  // Its caller gets less than he had.
  Write("{callers: [web], groups: [infer], models: [other]}");
  gate_->Look();
  EXPECT_THAT(ask("author"), HasSubstr("may not call ModelStreamInfer"));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(AccessTest, TheDaemonsOwnConnectionNeedsNoToken) {
  ServeWith("{callers: [web], groups: [metrics]}");
  absl::StatusOr<FileDescriptor> connection = server_->Connect();
  ASSERT_TRUE(connection.ok());
  const absl::StatusOr<bool> serves =
      AskHealth(*std::move(connection), "", absl::Seconds(10));
  ASSERT_TRUE(serves.ok()) << serves.status();
  EXPECT_TRUE(*serves);
}

// A client that sends no header at all costs a server with a policy one
// comparison; one that is refused holds nothing.
TEST_F(AccessTest, WhoIsRefusedHoldsNoMemory) {
  ServeWith(kAuthorOnly);
  inference::ModelInferRequest large = Request(1);
  large.set_id(std::string(1 << 20, 'x'));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Infer(large).error_code(), grpc::UNAUTHENTICATED);
  }
  EXPECT_EQ(MetricValue(metrics_, "stoker_request_memory_bytes"), 0);
}

}  // namespace
}  // namespace stoker
