// What is to go wrong, and the count of all calls (tests/fakes/cuda/control.h).
//
// Not thread-safe: under the device's lock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake_cuda {

inline constexpr int kHang = -1;

class Script {
 public:
  Script();
  // In place of what there was.
  void Read(const std::string& text);
  // Counts a call; its error, 0 for none. Reads the file where it has changed.
  int Count(const char* call);
  long calls(const std::string& call) const;

  int64_t free_bytes() const { return free_bytes_; }  // -1: not said
  bool answers_zeros() const { return answers_ == "zeros"; }
  bool answers_inputs() const { return answers_ == "inputs"; }
  int baked() const { return baked_; }  // -1: none
  int launch_us() const { return launch_us_; }

 private:
  struct Rule {
    std::string call;
    long skip = 0;
    long times = 0;
    int error = 0;
  };
  void ReadFileIfChanged();

  const std::string file_;
  std::string stamp_;  // of the file, when it was read
  std::vector<Rule> rules_;
  std::map<std::string, long> calls_;
  int64_t free_bytes_ = -1;
  std::string answers_;
  int baked_ = -1;
  int launch_us_ = 0;
};

}  // namespace fake_cuda
