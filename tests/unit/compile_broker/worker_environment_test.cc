// What reaches the compile worker of the environment that a daemon has.
#include "compile_broker/worker_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/unit/compile_broker/broker_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using WorkerEnvironmentTest = CompileBrokerTest;

TEST_F(WorkerEnvironmentTest, OnlyWhatIsListedReachesTheWorker) {
  setenv("STOKER_CXX", "/usr/bin/g++", 1);
  for (const char* name :
       {"TORCHINDUCTOR_FREEZING", "TORCHINDUCTOR_MAX_AUTOTUNE", "TORCH_LOGS",
        "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CPATH", "CPLUS_INCLUDE_PATH",
        "LIBRARY_PATH", "GCC_EXEC_PREFIX", "LD_PRELOAD_NOT", "PYTHONPATH",
        "PYTHONHASHSEED", "OMP_NUM_THREADS", "TRITON_DEBUG"}) {
    setenv(name, "nonsense", 1);
  }
  StartBroker(Options());
  const std::string seen = Submit(Request("environment"))->Message();
  EXPECT_THAT(seen, HasSubstr("PATH="));
  EXPECT_THAT(seen, HasSubstr("STOKER_CXX=/usr/bin/g++"));
  EXPECT_THAT(seen, Not(HasSubstr("nonsense")));
}

}  // namespace
}  // namespace stoker
