// A GPU that isn't there, beneath CUDA: one H100 for torch's own CUDA half,
// whose kernels compute nothing. What is true of it: order (work of a stream is
// done when somebody waits for it, and not before), what a capture forbids and
// records, which memory is whose, errors that poison everything after them, and
// the count of what there is. A program that breaks a rule which a real GPU
// punishes now and then, such as a copy from memory that is gone by the time it
// is made, is ended here, always, with a sentence on stderr.
//
// runtime*.cc and driver.cc are CUDA's two interfaces to it, as libcudart.so.13
// and libcuda.so.1; control.h is a test's.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/cuda/script.h"

namespace fake_cuda {

using Error = int;  // cudaError_t and CUresult have the same numbers
inline constexpr Error kInvalidValue = 1;
inline constexpr Error kOutOfMemory = 2;
inline constexpr Error kInvalidHandle = 400;
inline constexpr Error kNotReady = 600;
inline constexpr Error kIllegalAddress = 700;
inline constexpr Error kCaptureUnsupported = 900;
inline constexpr Error kCaptureInvalidated = 901;

inline constexpr int64_t kTotalBytes = 85017493504;  // of the H100 of
                                                     // recorded_gpu.py

enum class CaptureMode { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
enum class Place { kPageable, kPinned, kDevice };

struct Work {
  std::function<void()> run;  // under the device's lock
  bool kernel = false;
};

struct Capture {
  std::thread::id thread;
  CaptureMode mode;
  uint64_t id;
  bool invalid = false;
  std::vector<Work> work;
};

struct Stream {
  std::deque<Work> queue;
  uint64_t enqueued = 0;  // so many ever
  uint64_t done = 0;
  bool hung = false;
  std::unique_ptr<Capture> capture;
  // Digests of what was copied to the device since an answer was last copied
  // from it.
  std::vector<uint64_t> inputs;
  bool answered = false;
};

struct Event {
  Stream* stream = nullptr;
  uint64_t after = 0;  // of its stream's work
  double seconds = 0;
  bool captured = false;
};

struct Graph {
  std::vector<Work> work;
  std::vector<uint64_t> inputs;  // its stream's at the capture
};

// Of the calling thread: cudaThreadExchangeStreamCaptureMode.
extern thread_local CaptureMode thread_mode;

// Ends the process with a sentence.
[[noreturn]] void Violated(const std::string& rule);

class Device {
 public:
  // One for the process, never destroyed.
  static Device& The();

  // A call begins: what the script, or an error that poisons, has it end with.
  // `takes_memory`: as well as what has the name "memory".
  Error Begin(const char* call, bool takes_memory = false);
  // As Begin, for what a capture forbids, which it ends.
  Error BeginUnsafe(const char* call, bool takes_memory = false);
  // What the thread was told last, and forgets; what poisons stays.
  Error Ended(Error error);
  Error LastError(bool forget);

  void SetScript(const char* text);
  void At(const char* call, std::function<void()> then);
  long Calls(const char* call);
  long Live(const char* kind);

  // --- memory ---
  Error Allocate(Place place, void** data, size_t bytes);
  Error Free(Place place, void* data);
  Error Register(void* data, size_t bytes);
  void FreeAndTotal(size_t* free, size_t* total);
  Place PlaceOf(const void* data);

  // --- streams; null is the default one ---
  Stream* CreateStream();
  Error DestroyStream(Stream* stream);
  // Waits until all its work, or that before `after`, is done.
  Error Synchronize(Stream* stream, uint64_t after = UINT64_MAX);
  Error SynchronizeAll();
  Error Query(Stream* stream, uint64_t after = UINT64_MAX);

  // --- work ---
  Error Launch(Stream* stream);
  Error Copy(void* to, const void* from, size_t bytes, Stream* stream);
  Error Set(void* to, int value, size_t bytes, Stream* stream);
  Error Call(std::function<void()> function, Stream* stream);
  Error Await(Event* event, Stream* stream);

  // --- events ---
  Event* CreateEvent();
  Error DestroyEvent(Event* event);
  Error Record(Event* event, Stream* stream);
  Error SynchronizeEvent(Event* event);
  Error QueryEvent(Event* event);

  // --- graphs ---
  static CaptureMode ExchangeMode(CaptureMode mode);
  Error BeginCapture(Stream* stream, CaptureMode mode);
  // Null with an error where something ended it before.
  Error EndCapture(Stream* stream, Graph** graph);
  // 0: no capture; 1: one is open; 2: one that was ended by an error.
  int CaptureOf(Stream* stream, uint64_t* id);
  Error DestroyGraph(Graph* graph);
  Graph* Instantiate(const Graph* graph);
  Error LaunchGraph(Graph* graph, Stream* stream);

  // --- modules ---
  void* LoadModule();
  Error UnloadModule(void* module);

 private:
  using Lock = std::unique_lock<std::mutex>;
  Error BeginLocked(const char* call, bool takes_memory);
  Stream* Known(Stream* stream);  // ends the process where it isn't
  Error Enqueue(Stream* stream, Work work);
  Error Drain(Lock& lock, Stream* stream, uint64_t after);
  Error RunOne(Lock& lock, Stream* stream);
  void CopyNow(void* to, const void* from, size_t bytes, Stream* stream);
  bool OnDevice(const void* data) const;
  void CheckLive(const void* data, size_t bytes, const char* what);

  std::mutex mu_;
  std::condition_variable never_;  // what hangs waits for
  Script script_;
  std::map<std::string, std::function<void()>> at_;
  Error poison_ = 0;
  struct Block {
    size_t bytes;
    Place place;
    bool registered;
  };
  std::map<const std::byte*, Block> blocks_;
  int64_t device_bytes_ = 0;
  Stream default_stream_;
  std::set<Stream*> streams_;
  std::set<Event*> events_;
  std::set<Graph*> graphs_;
  std::set<void*> modules_;
  uint64_t captures_ = 0;
};

}  // namespace fake_cuda
