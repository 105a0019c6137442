#include "wire/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>

#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

TEST(Address, WhatIsNone) {
  for (const char* wrong :
       {"", "8001", ":8001", "localhost", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:http", "unix:", "unix", "fd:", "fd:a:b"}) {
    EXPECT_EQ(Listen(wrong, "gRPC").status().code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
  const std::string too_long = "unix:/" + std::string(108, 'x');
  EXPECT_EQ(CheckListenAddress(too_long).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Address, ASocketThatNobodyPassed) {
  EXPECT_TRUE(CheckListenAddress("fd:grpc").ok());
  EXPECT_EQ(PassedName("fd:grpc"), "grpc");
  EXPECT_FALSE(PassedName("127.0.0.1:0").has_value());
  PassedSockets none;
  EXPECT_TRUE(none.IsLocal("grpc"));
  EXPECT_EQ(none.CloseOthers(), "");
  for (PassedSockets* const passed :
       {&none, static_cast<PassedSockets*>(nullptr)}) {
    const absl::Status status = Listen("fd:grpc", "gRPC", passed).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(),
              "can't listen for gRPC on 'fd:grpc': expected a socket of that "
              "name from the service manager (LISTEN_FDS, LISTEN_FDNAMES), got "
              "none");
  }
}

TEST(Address, AnyPortOfEachFamily) {
  for (const char* address : {"127.0.0.1:0", "localhost:0", "0.0.0.0:0"}) {
    const absl::StatusOr<ListeningSockets> listening = Listen(address, "gRPC");
    ASSERT_TRUE(listening.ok()) << address << ": " << listening.status();
    EXPECT_GT(listening->port, 0) << address;
  }
}

TEST(Address, APortIsNobodyElses) {
  const absl::StatusOr<ListeningSockets> first = Listen("127.0.0.1:0", "gRPC");
  ASSERT_TRUE(first.ok());
  const std::string taken = "127.0.0.1:" + std::to_string(first->port);
  const absl::Status second = Listen(taken, "gRPC").status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.message()), HasSubstr(taken));
  EXPECT_THAT(std::string(second.message()), HasSubstr("in use"));
}

TEST(Address, ASocketLeftBehindIsReplacedAndOneInUseIsNot) {
  const TempFolder folder;
  const std::string path = folder / "grpc.sock";
  { ASSERT_TRUE(Listen("unix:" + path, "gRPC").ok()); }
  EXPECT_TRUE(std::filesystem::exists(path));
  const absl::StatusOr<ListeningSockets> again = Listen("unix:" + path, "gRPC");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->port, 0);
  EXPECT_EQ(Listen("unix:" + path, "gRPC").status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(Address, AFileIsNotReplaced) {
  const TempFolder folder;
  const std::string path = folder / "precious";
  std::filesystem::create_directory(path);
  EXPECT_EQ(Listen("unix:" + path, "gRPC").status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace stoker
