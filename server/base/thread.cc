#include "base/thread.h"

#include <pthread.h>

#include <utility>

namespace stoker {
namespace {

constexpr size_t kKernelNameChars = 15;

}  // namespace

Thread::Thread(const std::string& name, std::function<void()> body)
    : thread_(
          [name = name.substr(0, kKernelNameChars), body = std::move(body)] {
            pthread_setname_np(pthread_self(), name.c_str());
            body();
          }) {}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this != &other) {
    Join();
    thread_ = std::move(other.thread_);
  }
  return *this;
}

Thread::~Thread() { Join(); }

void Thread::Join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace stoker
