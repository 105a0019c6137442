// What the load generator itself takes of the machine, so that a result can say
// when it measured the client.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stoker::loadtest {

// Processor time used so far, in seconds.
struct CpuTimes {
  double process = 0;               // this one, all its threads
  double machine = 0;               // all processors: not idle
  std::vector<double> own_threads;  // in the order of CpuClocks::Add
};

// Reads the processor time of this process, the machine and some threads.
class CpuClocks {
 public:
  // Adds the calling thread. All adding comes before the first Read.
  void AddThisThread();
  // The threads added are alive.
  CpuTimes Read() const;

 private:
  std::vector<int> clocks_;
};

struct ClientUse {
  double cores = 0;           // of this process: 1.5 is one and a half
  double busiest_thread = 0;  // share of one core, 0..1
  double machine_cores = 0;   // busy ones, this process included
  int machine_size = 1;
};

ClientUse UseBetween(const CpuTimes& before, const CpuTimes& after,
                     double seconds);

// Resident memory of a process on this machine, in 10^6 bytes; 0 when there is
// no such process.
double ResidentMegabytes(int pid);

// Cores that this process may use.
int AvailableCores();

}  // namespace stoker::loadtest
