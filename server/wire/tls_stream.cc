#include "wire/tls_stream.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "wire/tls_material.h"

namespace stoker {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kRecordBytes = 16 << 10;
// What is encrypted before the socket is asked to take it.
constexpr size_t kWriteBytes = 128 << 10;

constexpr unsigned char kHandshakeRecord = 22;

// Renewals of keys; each costs the server time and moves nothing.
constexpr int kMaxLateMessages = 100;

// Of the thread: what passes through while one call runs.
struct Buffers {
  std::array<char, kReadBytes> received;
  std::string written;
  std::string joined;
};

Buffers& OfThread() {
  thread_local const auto buffers = std::make_unique<Buffers>();
  return *buffers;
}

TlsFailure ReasonOf(SSL* ssl, unsigned long error) {
  const int reason = ERR_GET_REASON(error);
  switch (reason) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_INAPPROPRIATE_FALLBACK:
      return TlsFailure::kVersion;
    case SSL_R_NO_SHARED_CIPHER:
      return TlsFailure::kCipher;
    case SSL_R_NO_APPLICATION_PROTOCOL:
    case SSL_R_CALLBACK_FAILED:  // CheckHello's
      return TlsFailure::kAlpn;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return TlsFailure::kNoCertificate;
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      switch (SSL_get_verify_result(ssl)) {
        case X509_V_ERR_CERT_HAS_EXPIRED:
          return TlsFailure::kExpired;
        case X509_V_ERR_APPLICATION_VERIFICATION:
          return TlsFailure::kName;
        default:
          return TlsFailure::kCertificate;
      }
    default:
      // Alerts of the peer have numbers of their own.
      return reason >= SSL_AD_REASON_OFFSET ? TlsFailure::kRejected
                                            : TlsFailure::kOther;
  }
}

}  // namespace

BIO_METHOD* TlsStream::Method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK,
                                    "stoker socket");
    BIO_meth_set_read(made, &TlsStream::OnRead);
    BIO_meth_set_write(made, &TlsStream::OnWrite);
    BIO_meth_set_ctrl(made, &TlsStream::OnControl);
    return made;
  }();
  return method;
}

int TlsStream::OnRead(BIO* bio, char* memory, int size) {
  std::string_view& incoming =
      static_cast<TlsStream*>(BIO_get_data(bio))->incoming_;
  BIO_clear_retry_flags(bio);
  if (incoming.empty()) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const size_t taken = std::min(incoming.size(), static_cast<size_t>(size));
  std::memcpy(memory, incoming.data(), taken);
  incoming.remove_prefix(taken);
  return static_cast<int>(taken);
}

int TlsStream::OnWrite(BIO*, const char* bytes, int size) {
  OfThread().written.append(bytes, static_cast<size_t>(size));
  return size;
}

long TlsStream::OnControl(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

void TlsStream::OnMessage(int sent, int, int type, const void*, size_t, SSL*,
                          void* stream) {
  auto* const self = static_cast<TlsStream*>(stream);
  if (sent == 0 && type == SSL3_RT_HANDSHAKE && self->done_) {
    ++self->late_messages_;
  }
}

TlsStream::TlsStream(FileDescriptor socket, TlsContext& tls,
                     TlsProtocol protocol, std::string peer)
    : socket_(std::move(socket)),
      tls_(tls),
      protocol_(protocol),
      peer_(std::move(peer)) {}

bool TlsStream::Prepare() {
  ssl_.reset(tls_.NewConnection(protocol_));
  BIO* const bio = BIO_new(Method());
  if (ssl_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    ssl_.reset();
    return false;
  }
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_accept_state(ssl_.get());
  SSL_set_msg_callback(ssl_.get(), &TlsStream::OnMessage);
  SSL_set_msg_callback_arg(ssl_.get(), this);
  return true;
}

TlsStream::~TlsStream() {
  if (!done_ && !failed_) {
    Report(TlsFailure::kUnfinished, "it was not over in time");
  }
  if (!done_ || failed_ || OwesBytes()) return;
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
  FlushWritten();
}

void TlsStream::Report(TlsFailure reason, const std::string& detail) {
  if (failed_) return;
  failed_ = true;
  if (!done_) tls_.OnFailure(reason, peer_, detail);
}

// Without an authority to verify it no certificate is asked for.
std::vector<std::string> TlsStream::PeerNames() const {
  if (!done_ || SSL_get_verify_result(ssl_.get()) != X509_V_OK) return {};
  const X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  std::vector<std::string> names;
  if (certificate == nullptr) return names;
  for (AlternativeName& name : AlternativeNames(certificate)) {
    names.push_back(std::move(name.text));
  }
  return names;
}

size_t TlsStream::LeastRoom() const { return kReadBytes; }

long TlsStream::Receive(const iovec* pieces, int count) {
  if (failed_) return kBroken;
  if (closed_) return 0;
  std::array<char, kReadBytes>& received = OfThread().received;
  // No more than fits decrypted: nothing may wait in OpenSSL that the socket
  // doesn't tell of. It may hold a part of one record already.
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += pieces[i].iov_len;
  const size_t room = std::min(size - kRecordBytes, received.size());
  const ssize_t came = recv(socket_.get(), received.data(), room, 0);
  if (came < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return kLater;
  }
  if (came <= 0) {
    Report(TlsFailure::kClosed, "the client has gone");
    return came == 0 ? 0 : kBroken;
  }
  if (!heard_ && static_cast<unsigned char>(received[0]) != kHandshakeRecord) {
    Report(TlsFailure::kPlainText, "the client doesn't speak TLS");
    return kBroken;
  }
  if (ssl_ == nullptr && !Prepare()) {
    Report(TlsFailure::kOther, "no memory");
    return kBroken;
  }
  heard_ = true;
  incoming_ = {received.data(), static_cast<size_t>(came)};
  const long decrypted = Decrypt(pieces, count);
  incoming_ = {};
  if (!FlushWritten()) return kBroken;
  return decrypted;
}

long TlsStream::Decrypt(const iovec* pieces, int count) {
  ERR_clear_error();
  if (!done_) {
    const int result = SSL_do_handshake(ssl_.get());
    if (result != 1) return Fail(result);
    done_ = true;
  }
  size_t all = 0;
  size_t offset = 0;  // in the first piece
  while (count > 0) {
    size_t more = 0;
    const int result =
        SSL_read_ex(ssl_.get(), static_cast<char*>(pieces->iov_base) + offset,
                    pieces->iov_len - offset, &more);
    if (late_messages_ > kMaxLateMessages) return kFlooded;
    if (result != 1) {
      const long failure = Fail(result);
      if (failure == kBroken) return kBroken;
      closed_ = failure == 0;
      if (all == 0) return failure;
      break;
    }
    all += more;
    offset += more;
    if (offset < pieces->iov_len) continue;
    offset = 0;
    ++pieces;
    --count;
  }
  return static_cast<long>(all);
}

long TlsStream::Fail(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return kLater;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    default:
      break;
  }
  const TlsFailure reason = ReasonOf(ssl_.get(), ERR_peek_last_error());
  const long verdict = SSL_get_verify_result(ssl_.get());
  std::string detail = TakeSslError();
  if (verdict != X509_V_OK) {
    detail += std::string(" (") + X509_verify_cert_error_string(verdict) + ")";
  }
  Report(reason, detail);
  return kBroken;
}

bool TlsStream::FlushWritten() {
  std::string& written = OfThread().written;
  std::string_view left = written;
  if (!unsent_.empty()) {
    unsent_.append(written);
    written.clear();
    left = unsent_;
  }
  bool broken = false;
  while (!left.empty()) {
    const ssize_t sent =
        send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      broken = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
      break;
    }
    left.remove_prefix(static_cast<size_t>(sent));
  }
  unsent_ = left.empty() || broken ? std::string() : std::string(left);
  written.clear();
  return !broken;
}

bool TlsStream::Encrypt(std::string_view bytes) {
  if (bytes.empty()) return true;
  size_t taken = 0;
  ERR_clear_error();
  return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &taken) == 1;
}

// What is written half must not be left to the thread's next stream.
long TlsStream::FailToSend() {
  OfThread().written.clear();
  Fail(0);
  return kBroken;
}

long TlsStream::Send(const iovec* pieces, int count) {
  if (failed_) return kBroken;
  if (!FlushWritten()) return kBroken;
  if (!done_ || OwesBytes() || count == 0) return kLater;
  Buffers& buffers = OfThread();
  std::string& joined = buffers.joined;
  joined.clear();
  size_t all = 0;
  for (int i = 0; i < count && unsent_.empty(); ++i) {
    const std::string_view piece(static_cast<const char*>(pieces[i].iov_base),
                                 pieces[i].iov_len);
    all += piece.size();
    // Small ones share a record, large ones are encrypted where they lie.
    if (joined.size() + piece.size() <= kRecordBytes) {
      joined.append(piece);
    } else {
      if (!Encrypt(joined) || !Encrypt(piece)) return FailToSend();
      joined.clear();
    }
    if (buffers.written.size() >= kWriteBytes && !FlushWritten()) {
      return kBroken;
    }
  }
  const bool encrypted = Encrypt(joined);
  joined.clear();
  if (!encrypted) return FailToSend();
  if (!FlushWritten()) return kBroken;
  return static_cast<long>(all);
}

}  // namespace stoker
