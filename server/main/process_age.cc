#include "main/process_age.h"

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace stoker {

absl::Duration ProcessAge() {
  // Field 22 of /proc/self/stat: start in clock ticks after boot. The second
  // field may hold spaces, but ends with the last ')'.
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const size_t paren = line.rfind(')');
  if (paren == std::string::npos) return absl::ZeroDuration();
  std::istringstream fields(line.substr(paren + 2));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  fields >> ticks;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::DurationFromTimespec(now) -
         absl::Seconds(ticks / static_cast<double>(sysconf(_SC_CLK_TCK)));
}

}  // namespace stoker
