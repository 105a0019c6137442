// A peer that speaks HTTP/2 frame by frame, right or wrong.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace stoker {

// Of HTTP/2.
struct RawFrame {
  // HTTP/2's numbers; the connection's end is none of them.
  enum Type {
    kData = 0,
    kHeaders = 1,
    kPriority = 2,
    kReset = 3,
    kSettings = 4,
    kPing = 6,
    kGoaway = 7,
    kWindowUpdate = 8,
    kContinuation = 9,
    kEnd = 256,
  };
  int type = kEnd;
  int flags = 0;
  uint32_t stream = 0;
  std::string payload;

  // Of a reset, or of a goodbye.
  uint32_t error() const { return NumberAt(type == kGoaway ? 4 : 0); }
  // Of a goodbye: whatever comes after it isn't answered.
  uint32_t last_stream() const { return NumberAt(0); }

 private:
  uint32_t NumberAt(size_t at) const {
    if (payload.size() < at + 4) return UINT32_MAX;
    uint32_t number = 0;
    std::memcpy(&number, payload.data() + at, 4);
    return ntohl(number);
  }
};

constexpr int kEndStream = 1, kAck = 1, kEndHeaders = 4;

class RawPeer {
 public:
  explicit RawPeer(int port, bool hello = true)
      : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address),
                         sizeof(address)) == 0;
    if (!hello) return;
    const std::string preface = Preface();  // fits into the socket
    RawPeer::Put(preface.data(), preface.size());
  }
  virtual ~RawPeer() { close(socket_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  bool connected() const { return connected_; }

  // What a client says first.
  static std::string Preface() {
    return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
           Frame(RawFrame::kSettings, 0, 0, "");
  }
  void Hello() { SendBytes(Preface()); }

  // False: the server has closed the connection, or doesn't read for 10 s.
  bool SendBytes(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t more = Put(bytes.data() + sent, bytes.size() - sent);
      if (more <= 0) return false;
      sent += static_cast<size_t>(more);
    }
    return true;
  }
  static std::string Number(uint32_t value) {
    const uint32_t wire = htonl(value);
    return std::string(reinterpret_cast<const char*>(&wire), 4);
  }
  static std::string Frame(int type, int flags, uint32_t stream,
                           const std::string& payload) {
    return Number(static_cast<uint32_t>(payload.size())).substr(1) +
           static_cast<char>(type) + static_cast<char>(flags) + Number(stream) +
           payload;
  }
  bool Send(int type, int flags, uint32_t stream, const std::string& payload) {
    return SendBytes(Frame(type, flags, stream, payload));
  }

  // A header that no table keeps.
  static std::string Literal(const std::string& name,
                             const std::string& value) {
    return std::string(1, '\0') + Length(name.size()) + name +
           Length(value.size()) + value;
  }
  static std::string RequestHeaders(const std::string& method) {
    return Literal(":method", "POST") + Literal(":scheme", "http") +
           Literal(":path", method) + Literal(":authority", "test") +
           Literal("content-type", "application/grpc") +
           Literal("te", "trailers");
  }
  bool Open(uint32_t stream, const std::string& method,
            const std::string& more_headers = "") {
    return Send(RawFrame::kHeaders, kEndHeaders, stream,
                RequestHeaders(method) + more_headers);
  }
  static std::string Message(const std::string& content) {
    return std::string(1, '\0') +
           Number(static_cast<uint32_t>(content.size())) + content;
  }
  bool Ask(uint32_t stream, const std::string& method,
           const std::string& content) {
    return Open(stream, method) &&
           Send(RawFrame::kData, kEndStream, stream, Message(content));
  }

  // kEnd: the connection is over, or nothing came for 10 s.
  RawFrame Receive() {
    RawFrame frame;
    const std::string head = Take(9);
    if (head.size() < 9) return frame;
    const auto byte = [&](size_t at) {
      return uint32_t{static_cast<unsigned char>(head[at])};
    };
    const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
    frame.type = static_cast<int>(byte(3));
    frame.flags = static_cast<int>(byte(4));
    frame.stream = byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
    frame.payload = Take(size);
    if (frame.payload.size() < size) frame.type = RawFrame::kEnd;
    return frame;
  }
  // The next of that type, or the end.
  RawFrame Await(int type) {
    for (;;) {
      RawFrame frame = Receive();
      if (frame.type == type || frame.type == RawFrame::kEnd) return frame;
    }
  }
  // The end of a stream: trailers, or a reset.
  RawFrame AwaitEnd(uint32_t stream) {
    for (;;) {
      RawFrame frame = Receive();
      if (frame.type == RawFrame::kEnd) return frame;
      if (frame.stream != stream) continue;
      if (frame.type == RawFrame::kReset || (frame.type <= RawFrame::kHeaders &&
                                             (frame.flags & kEndStream) != 0)) {
        return frame;
      }
    }
  }

 protected:
  // As send and recv, but that they wait for 10 s at most.
  virtual ssize_t Put(const char* bytes, size_t size) {
    pollfd ready = {socket_, POLLOUT, 0};
    if (poll(&ready, 1, 10'000) != 1) return -1;
    return send(socket_, bytes, size, MSG_NOSIGNAL);
  }
  virtual ssize_t Get(char* memory, size_t size) {
    pollfd ready = {socket_, POLLIN, 0};
    if (poll(&ready, 1, 10'000) != 1) return -1;
    return recv(socket_, memory, size, 0);
  }
  int descriptor() const { return socket_; }

 private:
  static std::string Length(size_t size) {
    if (size < 127) return std::string(1, static_cast<char>(size));
    std::string bytes(1, 127);
    for (size -= 127; size >= 128; size /= 128) {
      bytes.push_back(static_cast<char>(size % 128 | 128));
    }
    bytes.push_back(static_cast<char>(size));
    return bytes;
  }

  std::string Take(size_t size) {
    while (received_.size() < size) {
      char piece[16384];
      const ssize_t more = Get(piece, sizeof(piece));
      if (more <= 0) return "";
      received_.append(piece, static_cast<size_t>(more));
    }
    std::string taken = received_.substr(0, size);
    received_.erase(0, size);
    return taken;
  }

  const int socket_;
  bool connected_ = false;
  std::string received_;
};

}  // namespace stoker
