#include "base/host_port.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stoker {
namespace {

TEST(HostPortTest, TakesAHostAndAPort) {
  for (const char* good :
       {"127.0.0.1:8001", "[::1]:0", "localhost:65535", "0.0.0.0:00080"}) {
    EXPECT_TRUE(CheckHostPort(good).ok()) << good;
  }
}

TEST(HostPortTest, RefusesWhatALibraryWouldTakeForAnotherPort) {
  for (const char* bad :
       {"", ":", ":8001", "8001", "host", "host:", "host:-1", "host:+1",
        "host: 1", "host:1 ", "host:65536", "host:4294967297", "host:http"}) {
    const absl::Status status = CheckHostPort(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr("\"" + std::string(bad) + "\""));
  }
}

}  // namespace
}  // namespace stoker
