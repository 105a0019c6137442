// Clients that speak TLS: one whose bytes a test carries by hand, and a
// RawPeer behind TLS.
#pragma once

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "tests/unit/wire/certificates.h"
#include "tests/unit/wire/raw_peer.h"

namespace stoker {

struct TlsClientOptions {
  const Identity* own = nullptr;  // its certificate
  int version = TLS1_3_VERSION;
  std::string alpn = std::string("\2h2");
  std::string before;  // what comes before TLS
};

using TestSslContext = std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>>;
using TestSsl = std::unique_ptr<SSL, FreeWith<SSL_free>>;

inline TestSslContext NewClientContext(const TlsClientOptions& options) {
  TestSslContext context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), options.version);
  SSL_CTX_set_max_proto_version(context.get(), options.version);
  if (!options.alpn.empty()) {
    SSL_CTX_set_alpn_protos(
        context.get(),
        reinterpret_cast<const unsigned char*>(options.alpn.data()),
        static_cast<unsigned>(options.alpn.size()));
  }
  if (options.own != nullptr) {
    SSL_CTX_use_certificate(context.get(), options.own->certificate.get());
    SSL_CTX_use_PrivateKey(context.get(), options.own->key.get());
  }
  return context;
}

// Its bytes go where the test carries them.
class TlsClient {
 public:
  explicit TlsClient(const TlsClientOptions& options = {})
      : context_(NewClientContext(options)), ssl_(SSL_new(context_.get())) {
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_.get());
  }

  SSL* ssl() { return ssl_.get(); }
  // True: the handshake is over.
  bool Shake() { return SSL_do_handshake(ssl_.get()) == 1; }
  // What it has to say.
  std::string TakeOutput() {
    std::string bytes;
    char piece[16384];
    for (;;) {
      const int more = BIO_read(SSL_get_wbio(ssl_.get()), piece, sizeof(piece));
      if (more <= 0) return bytes;
      bytes.append(piece, static_cast<size_t>(more));
    }
  }
  void Give(std::string_view bytes) {
    BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(),
              static_cast<int>(bytes.size()));
  }
  void Write(std::string_view text) {
    size_t written = 0;
    ASSERT_EQ(SSL_write_ex(ssl_.get(), text.data(), text.size(), &written), 1);
  }
  std::string Read() {
    std::string text;
    char piece[16384];
    for (;;) {
      ERR_clear_error();
      const int more = SSL_read(ssl_.get(), piece, sizeof(piece));
      if (more <= 0) return text;
      text.append(piece, static_cast<size_t>(more));
    }
  }
  // Whether the server has said that it sends no more.
  bool HeardClose() {
    return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  }

 private:
  const TestSslContext context_;
  const TestSsl ssl_;
};

// HTTP/2 frame by frame, behind TLS.
class TlsPeer : public RawPeer {
 public:
  explicit TlsPeer(int port, const TlsClientOptions& options = {})
      : RawPeer(port, false),
        context_(NewClientContext(options)),
        ssl_(SSL_new(context_.get())) {
    const timeval limit = {10, 0};
    setsockopt(descriptor(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(descriptor(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    SendPlain(options.before);
    SSL_set_fd(ssl_.get(), descriptor());
    ERR_clear_error();
    secure_ = SSL_connect(ssl_.get()) == 1;
    if (secure_) Hello();
  }

  // Whether the handshake came to its end.
  bool secure() const { return secure_; }
  // Before the next that is sent.
  void RenewKeys() { SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED); }
  // The serial number of what the server showed; -1: nothing.
  long ServerSerial() {
    const TestCertificate shown(SSL_get1_peer_certificate(ssl_.get()));
    if (shown == nullptr) return -1;
    return ASN1_INTEGER_get(X509_get0_serialNumber(shown.get()));
  }

 protected:
  ssize_t Put(const char* bytes, size_t size) override {
    ERR_clear_error();
    return SSL_write(ssl_.get(), bytes, static_cast<int>(size));
  }
  ssize_t Get(char* memory, size_t size) override {
    ERR_clear_error();
    return SSL_read(ssl_.get(), memory, static_cast<int>(size));
  }

 private:
  void SendPlain(const std::string& bytes) {
    send(descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  const TestSslContext context_;
  const TestSsl ssl_;
  bool secure_ = false;
};

}  // namespace stoker
