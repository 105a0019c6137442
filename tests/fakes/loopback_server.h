// A server on a free port of loopback, whose every byte is the test's: it takes
// connections one after the other, reads what a request is, and answers with
// what the test says. An empty answer: none, and the connection stays open.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/thread.h"

namespace stoker {

class LoopbackServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;

  explicit LoopbackServer(Answer answer) : answer_(std::move(answer)) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(socket_, generic, size) != 0 || listen(socket_, 16) != 0 ||
        getsockname(socket_, generic, &size) != 0) {
      abort();
    }
    port_ = ntohs(address.sin_port);
    thread_ = Thread("loopback", [this] { Loop(); });
  }
  ~LoopbackServer() {
    shutdown(socket_, SHUT_RDWR);
    thread_.Join();
    for (const int held : held_) close(held);
    close(socket_);
  }

  std::string url() const { return absl::StrCat("http://127.0.0.1:", port_); }
  std::vector<std::string> requests() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return requests_;
  }

 private:
  void Loop() {
    for (;;) {
      const int fd = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::string request = Read(fd);
      {
        absl::MutexLock lock(&mu_);
        requests_.push_back(request);
      }
      const std::string answer = answer_(request);
      if (answer.empty()) {
        held_.push_back(fd);
        continue;
      }
      send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
      close(fd);
    }
  }

  static std::string Read(int fd) {
    std::string request;
    char piece[4096];
    for (;;) {
      const size_t head = request.find("\r\n\r\n");
      const size_t length = request.find("Content-Length: ");
      size_t size = 0;
      if (head != request.npos && length != request.npos) {
        const std::string text = request.substr(length + 16);
        if (absl::SimpleAtoi(text.substr(0, text.find('\r')), &size) &&
            request.size() >= head + 4 + size) {
          return request;
        }
      }
      const ssize_t got = recv(fd, piece, sizeof(piece), 0);
      if (got <= 0) return request;
      request.append(piece, static_cast<size_t>(got));
    }
  }

  const Answer answer_;
  int socket_ = -1;
  int port_ = 0;
  std::vector<int> held_;  // of the thread, until it has ended
  absl::Mutex mu_;
  std::vector<std::string> requests_ ABSL_GUARDED_BY(mu_);
  Thread thread_;
};

}  // namespace stoker
