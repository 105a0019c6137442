#include "rpc/load_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "open_inference.pb.h"

namespace stoker {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using inference::RepositoryModelLoadRequest;

ByteChain Bytes(const RepositoryModelLoadRequest& request) {
  return ByteChain::Copy(request.SerializeAsString());
}
std::string Refusal(const ByteChain& message) {
  return std::string(ReadLoadRequest(message).status().message());
}

TEST(LoadRequestTest, AllOfIt) {
  RepositoryModelLoadRequest request;
  request.set_repository_name("there");
  request.set_model_name("mlp");
  auto& parameters = *request.mutable_parameters();
  parameters["config"].set_string_param("{}");
  parameters["file:1/model.pt2"].set_bytes_param(std::string("\0\1", 2));
  parameters["else"].set_int64_param(7);
  const auto read = ReadLoadRequest(Bytes(request));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->repository, "there");
  EXPECT_EQ(read->model, "mlp");
  EXPECT_EQ(read->override.config, "{}");
  ASSERT_EQ(read->override.files.size(), 1U);
  EXPECT_EQ(read->override.files.at("1/model.pt2"), std::string("\0\1", 2));
  EXPECT_EQ(ModelOfLoadRequest(Bytes(request)), "mlp");
}

// In as many pieces as there are bytes.
TEST(LoadRequestTest, InPieces) {
  RepositoryModelLoadRequest request;
  request.set_model_name("mlp");
  (*request.mutable_parameters())["file:model.yaml"].set_bytes_param("a: 1");
  const ByteChain whole = Bytes(request);
  ByteChain pieces;
  for (size_t i = 0; i < whole.size(); ++i) {
    const ByteSlice& all = whole.slices().front();
    pieces.Append({all.owner, all.data + i, 1});
  }
  EXPECT_EQ(ModelOfLoadRequest(pieces), "mlp");
  const auto read = ReadLoadRequest(pieces);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->override.files.at("model.yaml"), "a: 1");
}

TEST(LoadRequestTest, Nothing) {
  const auto read = ReadLoadRequest(ByteChain());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->model, "");
  EXPECT_TRUE(read->override.empty());
}

TEST(LoadRequestTest, ValuesOfOtherTypes) {
  RepositoryModelLoadRequest request;
  (*request.mutable_parameters())["config"].set_bytes_param("{}");
  EXPECT_EQ(Refusal(Bytes(request)),
            "invalid value type for 'config' parameter, expected "
            "string_param.");
  request.clear_parameters();
  (*request.mutable_parameters())["file:x"].set_string_param("{}");
  EXPECT_EQ(Refusal(Bytes(request)),
            "invalid value type for 'file:x' parameter, expected bytes_param.");
  request.clear_parameters();
  (*request.mutable_parameters())["file:x"];
  EXPECT_THAT(Refusal(Bytes(request)), HasSubstr("expected bytes_param"));
}

TEST(LoadRequestTest, TooManyParameters) {
  RepositoryModelLoadRequest request;
  for (int i = 0; i < 101; ++i) {
    (*request.mutable_parameters())[std::to_string(i)];
  }
  EXPECT_EQ(Refusal(Bytes(request)),
            "expected at most 100 parameters, got more");
  EXPECT_EQ(ModelOfLoadRequest(Bytes(request)), std::nullopt);
}

// Whoever is asked about a model is asked about the one that is loaded: what is
// cut or changed anywhere is none for both, or the same.
TEST(LoadRequestTest, BothReadersAgree) {
  RepositoryModelLoadRequest request;
  request.set_repository_name("r");
  request.set_model_name("model");
  (*request.mutable_parameters())["config"].set_string_param("{\"a\": 1}");
  (*request.mutable_parameters())["file:1/model.pt2"].set_bytes_param("abc");
  const std::string whole = request.SerializeAsString();
  const auto check = [](const std::string& text) {
    const ByteChain bytes = ByteChain::Copy(text);
    const auto model = ModelOfLoadRequest(bytes);
    const auto read = ReadLoadRequest(bytes);
    if (read.ok()) {
      EXPECT_EQ(model, read->model);
    }
    RepositoryModelLoadRequest parsed;
    if (read.ok() && parsed.ParseFromString(text)) {
      EXPECT_EQ(parsed.model_name(), read->model);
    }
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    check(whole.substr(0, i));
    for (int value = 0; value < 256; ++value) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      check(changed);
    }
  }
  EXPECT_THAT(Refusal(ByteChain::Copy("\x0a\xff")),
              StartsWith("expected a serialised inference.Repository"));
}

}  // namespace
}  // namespace stoker
