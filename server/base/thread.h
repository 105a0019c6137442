// A named thread that is joined by its destructor.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace stoker {

// Not thread-safe itself: create, join and destroy from the owner's thread.
// Stop whatever `body` loops on before destroying the Thread.
class Thread {
 public:
  Thread() = default;
  // `name` is what top -H and gdb show; the kernel keeps 15 characters of it.
  Thread(const std::string& name, std::function<void()> body);
  Thread(Thread&&) = default;
  // Joins the thread that was here before.
  Thread& operator=(Thread&& other) noexcept;
  ~Thread();

  // Waits for `body` to return. Idempotent.
  void Join();

 private:
  std::thread thread_;
};

}  // namespace stoker
