// A socket whose bytes OpenSSL encrypts. It asks for no memory of its own but
// for what the socket doesn't take, and OpenSSL's: bytes pass through buffers
// of the thread.
//
// Not thread-safe. Nothing here blocks.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "wire/byte_stream.h"
#include "wire/tls_context.h"

namespace stoker {

class TlsStream final : public ByteStream {
 public:
  // `tls` outlives it. `peer`: its address, for what is said of it.
  TlsStream(FileDescriptor socket, TlsContext& tls, TlsProtocol protocol,
            std::string peer);
  ~TlsStream() override;

  int descriptor() const override { return socket_.get(); }
  // While there is no more than the handshake, kLater.
  long Receive(const iovec* pieces, int count) override;
  size_t LeastRoom() const override;
  long Send(const iovec* pieces, int count) override;
  bool CanSend() const override { return done_; }
  bool ShakesHands() const override { return !done_ && !failed_; }
  bool OwesBytes() const override { return !unsent_.empty(); }
  std::vector<std::string> PeerNames() const override;

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  // What OpenSSL needs; when the first bytes are here: who says nothing costs
  // no more than a socket. False: no memory.
  bool Prepare();
  static BIO_METHOD* Method();
  static int OnRead(BIO* bio, char* memory, int size);
  static int OnWrite(BIO* bio, const char* bytes, int size);
  static long OnControl(BIO* bio, int command, long number, void* pointer);
  static void OnMessage(int sent, int version, int type, const void* bytes,
                        size_t size, SSL* ssl, void* stream);

  long Decrypt(const iovec* pieces, int count);
  // What an error of OpenSSL comes to: the peer's end or the stream's.
  long Fail(int result);
  long FailToSend();
  void Report(TlsFailure reason, const std::string& detail);
  bool Encrypt(std::string_view bytes);
  // Sends what was written, and keeps what the socket doesn't take. False: it
  // is broken.
  bool FlushWritten();

  const FileDescriptor socket_;
  TlsContext& tls_;
  const TlsProtocol protocol_;
  const std::string peer_;
  std::unique_ptr<SSL, Free> ssl_;
  bool done_ = false;  // the handshake
  bool failed_ = false;
  bool heard_ = false;
  bool closed_ = false;  // the peer has said that it sends no more
  int late_messages_ = 0;
  std::string_view incoming_;
  std::string unsent_;  // encrypted
};

}  // namespace stoker
