#include "runner/gpu_monitor.h"

#include <dlfcn.h>

#include <fstream>
#include <regex>
#include <utility>

namespace stoker {
namespace {

// Of nvml.h, which isn't installed where this is built.
using NvmlDevice = void*;
struct NvmlUtilisation {
  unsigned gpu = 0;  // percent
  unsigned memory = 0;
};
struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
constexpr int kOk = 0;
constexpr unsigned kVersionLength = 80;

}  // namespace

struct GpuMonitor::Functions {
  void* handle = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_uuid)(const char*, NvmlDevice*) = nullptr;
  int (*utilisation)(NvmlDevice, NvmlUtilisation*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;  // milliwatts
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;

  template <typename F>
  bool Load(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(handle, name));
    return function != nullptr;
  }
  bool LoadAll() {
    return Load(init, "nvmlInit_v2") && Load(shutdown, "nvmlShutdown") &&
           Load(driver_version, "nvmlSystemGetDriverVersion") &&
           Load(by_uuid, "nvmlDeviceGetHandleByUUID") &&
           Load(utilisation, "nvmlDeviceGetUtilizationRates") &&
           Load(power, "nvmlDeviceGetPowerUsage") &&
           Load(memory, "nvmlDeviceGetMemoryInfo");
  }
};

GpuMonitor::GpuMonitor(std::unique_ptr<Functions> functions)
    : functions_(std::move(functions)) {}

std::unique_ptr<GpuMonitor> GpuMonitor::Open(const std::string& library) {
  auto functions = std::make_unique<Functions>();
  functions->handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (functions->handle == nullptr) return nullptr;
  if (!functions->LoadAll() || functions->init() != kOk) {
    dlclose(functions->handle);
    return nullptr;
  }
  return std::unique_ptr<GpuMonitor>(new GpuMonitor(std::move(functions)));
}

GpuMonitor::~GpuMonitor() {
  functions_->shutdown();
  dlclose(functions_->handle);
}

std::string GpuMonitor::DriverVersion() const {
  char text[kVersionLength] = {};
  return functions_->driver_version(text, kVersionLength) == kOk ? text : "";
}

GpuMonitor::Reading GpuMonitor::Read(const std::string& uuid) const {
  Reading reading;
  NvmlDevice device = nullptr;
  if (functions_->by_uuid(uuid.c_str(), &device) != kOk) return reading;
  NvmlUtilisation utilisation;
  if (functions_->utilisation(device, &utilisation) == kOk) {
    reading.busy = utilisation.gpu / 100.0;
  }
  unsigned milliwatts = 0;
  if (functions_->power(device, &milliwatts) == kOk) {
    reading.watts = milliwatts / 1000.0;
  }
  NvmlMemory memory;
  if (functions_->memory(device, &memory) == kOk) {
    reading.free_bytes = static_cast<int64_t>(memory.free);
  }
  return reading;
}

std::string DriverBranch(const GpuMonitor* monitor,
                         const std::string& version_file) {
  std::string text = monitor == nullptr ? "" : monitor->DriverVersion();
  if (text.empty()) {
    std::ifstream file(version_file);
    std::getline(file, text);
  }
  // "580.82.07", alone or in "... Kernel Module for x86_64  580.82.07 ...".
  static const std::regex& version =
      *new std::regex(R"((?:^|\s)(\d{3,})\.\d+)");
  std::smatch found;
  return std::regex_search(text, found, version) ? found[1].str() : "unknown";
}

}  // namespace stoker
