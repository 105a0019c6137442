// What the driver's own library, NVML, knows of a GPU: its driver's version,
// how busy it is, what power it draws. Opened at run time: there is none where
// there is no driver.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace stoker {

class GpuMonitor {
 public:
  struct Reading {
    std::optional<double> busy;   // share of the last second, 0 to 1
    std::optional<double> watts;  // of the whole GPU; a MIG slice has none
    std::optional<int64_t> free_bytes;
  };

  // Null when the library isn't there or doesn't start.
  static std::unique_ptr<GpuMonitor> Open(
      const std::string& library = "libnvidia-ml.so.1");
  ~GpuMonitor();

  // "580.82.07"; empty when NVML doesn't say.
  std::string DriverVersion() const;
  // Of the GPU with this UUID; nothing where NVML doesn't know it.
  Reading Read(const std::string& uuid) const;

 private:
  struct Functions;
  explicit GpuMonitor(std::unique_ptr<Functions> functions);
  const std::unique_ptr<Functions> functions_;
};

// The branch of the installed driver, "580", by NVML or by what the kernel's
// module says in `version_file`; "unknown" when neither does.
std::string DriverBranch(
    const GpuMonitor* monitor,
    const std::string& version_file = "/proc/driver/nvidia/version");

}  // namespace stoker
