// How a test tells the GPU that isn't there what is to go wrong, and asks what
// became of it. The GPU itself: tests/fakes/cuda/device.h.
//
// A script is lines of words; FAKE_CUDA_SCRIPT names a file of them, which is
// read again when it has changed, and fake_cuda_script gives one at once.
//
//   CALL SKIP TIMES ERROR   so many calls of CUDA's by that name, after so many
//                           that go well, end with the error's number (TIMES
//                           -1: all). CALL "memory": any call that takes some;
//                           "kernel": on the device, when its turn has come;
//                           ERROR "hang": it never ends
//   free BYTES              others have taken the rest of the memory
//   answers zeros           what is copied from the device is zeros: kernels
//                           compute nothing, and what they were to write is
//                           whatever was there
//   answers inputs          it is a digest of what was copied to it before, so
//                           that answers to other inputs are others
//   baked N                 then a replay's is as if the N-th of these inputs,
//                           from 0, were what it was at the capture
//   launch_us N             the host's time for each launch
#pragma once

extern "C" {

// In place of the script so far. Null: none.
void fake_cuda_script(const char* text);
// `then` is called with `argument` at the next call of that name, and not
// again.
void fake_cuda_at(const char* call, void (*then)(void*), void* argument);
// How often it was called since the process began; "memory": any that takes
// some.
long fake_cuda_calls(const char* call);
// How many there are now: "device_bytes", "host_bytes", "streams", "events",
// "graphs", "modules".
long fake_cuda_live(const char* kind);

}  // extern "C"
