/* NVML of a machine with one GPU, as a library to be opened: driver 580.82.07, 42 % busy, 311.5 W,
 * 60,000 of 80,000 bytes free.
 * A GPU of another UUID isn't there, and FAKE_NVML_BROKEN=1 keeps it from starting. */
#include <stdlib.h>
#include <string.h>

enum { kOk = 0, kNotFound = 6, kUnknown = 999 };
struct utilization {
  unsigned gpu;
  unsigned memory;
};
static int device;

int nvmlInit_v2(void) { return getenv("FAKE_NVML_BROKEN") != NULL ? kUnknown : kOk; }
int nvmlShutdown(void) { return kOk; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  strncpy(text, "580.82.07", size);
  return kOk;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  *handle = &device;
  return strcmp(uuid, "GPU-1") == 0 ? kOk : kNotFound;
}
int nvmlDeviceGetUtilizationRates(void* handle, struct utilization* rates) {
  rates->gpu = 42;
  rates->memory = 7;
  return handle == &device ? kOk : kUnknown;
}
struct memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
int nvmlDeviceGetMemoryInfo(void* handle, struct memory* memory) {
  memory->total = 80000;
  memory->free = 60000;
  memory->used = 20000;
  return handle == &device ? kOk : kUnknown;
}
int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  *milliwatts = 311500;
  return handle == &device ? kOk : kUnknown;
}
