#include "loadtest/generator/client_use.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace stoker::loadtest {
namespace {

double Seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

double ReadClock(clockid_t clock) {
  timespec time{};
  return clock_gettime(clock, &time) == 0 ? Seconds(time) : 0;
}

// The first line of /proc/stat: ticks as user, nice, system, idle, iowait, irq,
// softirq, steal, ...
double MachineSeconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  double ticks = 0;
  file >> name;
  for (int field = 0; field < 8; ++field) {
    double value = 0;
    file >> value;
    const bool idle = field == 3 || field == 4;
    if (!idle) ticks += value;
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

void CpuClocks::AddThisThread() {
  clockid_t clock = 0;
  if (pthread_getcpuclockid(pthread_self(), &clock) == 0)
    clocks_.push_back(clock);
}

CpuTimes CpuClocks::Read() const {
  CpuTimes times{ReadClock(CLOCK_PROCESS_CPUTIME_ID), MachineSeconds(), {}};
  for (const int clock : clocks_) times.own_threads.push_back(ReadClock(clock));
  return times;
}

ClientUse UseBetween(const CpuTimes& before, const CpuTimes& after,
                     double seconds) {
  ClientUse use;
  use.machine_size = AvailableCores();
  if (seconds <= 0) return use;
  use.cores = (after.process - before.process) / seconds;
  use.machine_cores = (after.machine - before.machine) / seconds;
  for (size_t i = 0; i < after.own_threads.size(); ++i) {
    const double share =
        (after.own_threads[i] - before.own_threads[i]) / seconds;
    use.busiest_thread = std::max(use.busiest_thread, share);
  }
  return use;
}

double ResidentMegabytes(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  int64_t whole = 0, resident = 0;
  file >> whole >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) * 1e-6;
}

int AvailableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace stoker::loadtest
