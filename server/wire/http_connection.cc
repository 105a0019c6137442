#include "wire/http_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "wire/http_exchange.h"
#include "wire/loop.h"

namespace stoker {
namespace {

// What is read at a time, so that no more than this can be of a next request:
// it waits in memory that no request has reserved yet. TLS may hold a record
// besides.
constexpr size_t kPiece = 32 << 10;

// How long a peer is listened to that was answered before all it had to say was
// read: closed at once, its system would throw the answer away.
constexpr absl::Duration kLongestLinger = absl::Seconds(2);

// What a hello of TLS begins with, and no request.
constexpr char kTlsHello = 22;

// A peer that has gone without a word is found out by the system.
constexpr int kSilentSeconds = 60;
constexpr int kProbeSeconds = 15;
constexpr int kProbes = 4;

void WatchPeer(int socket) {
  const int on = 1;
  if (setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) != 0) {
    return;  // a unix socket's peer can't go so
  }
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kSilentSeconds,
             sizeof(kSilentSeconds));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeSeconds,
             sizeof(kProbeSeconds));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
}

// "Not Found" of "NOT_FOUND".
std::string Reason(int status) {
  std::string reason = llhttp_status_name(static_cast<llhttp_status_t>(status));
  if (reason == "OK") return reason;
  for (size_t i = 1; i < reason.size(); ++i) {
    if (reason[i] == '_') {
      reason[i] = ' ';
    } else if (reason[i - 1] != ' ') {
      reason[i] = absl::ascii_tolower(static_cast<unsigned char>(reason[i]));
    }
  }
  return reason;
}

const std::string& DateLine(absl::Time now) {
  thread_local int64_t second = 0;
  thread_local std::string line;
  if (const int64_t then = absl::ToUnixSeconds(now); then != second) {
    second = then;
    line = absl::StrCat(
        "Date: ",
        absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", now, absl::UTCTimeZone()),
        "\r\n");
  }
  return line;
}

}  // namespace

HttpConnection::HttpConnection(WireLoop& loop,
                               std::unique_ptr<ByteStream> stream,
                               PeerTicket peer,
                               const MakeHttpHandler& make_handler)
    : loop_(loop),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      make_handler_(make_handler),
      parser_(loop.limits().max_header_bytes, *this),
      taken_(loop.limits().stall_limit, loop.limits().progress_bytes),
      born_(loop.now()),
      heard_(loop.now()),
      head_since_(loop.now()),
      idle_since_(loop.now()) {
  loop_.metrics().Opened();
}

HttpConnection::~HttpConnection() {
  if (!over_) HangUp();
  loop_.metrics().Closed();
}

MakeConnection HttpConnection::Maker(MakeHttpHandler make_handler) {
  return
      [make = std::move(make_handler)](
          WireLoop& loop, std::unique_ptr<ByteStream> stream, PeerTicket peer) {
        return std::make_unique<HttpConnection>(loop, std::move(stream),
                                                std::move(peer), make);
      };
}

void HttpConnection::Begin() {
  WatchPeer(stream_->descriptor());
  watched_ = EPOLLIN;
  loop_.Watch(stream_->descriptor(), watched_, *this);
  if (stream_->ShakesHands()) {
    PeerConnection* const out = loop_.handshakes().Enter(*this);
    if (out != nullptr) out->HangUp(Hangup::kHandshakes);
  }
}

void HttpConnection::OnReady(uint32_t events) {
  if (over_) return;
  if ((events & EPOLLOUT) != 0) {
    if (stream_->Send(nullptr, 0) == ByteStream::kBroken) return HangUp();
    Touch();
  }
  if (stream_->ShakesHands()) {
    if ((events & ~uint32_t{EPOLLOUT}) == 0) return;
    // Nothing can come to an end with a peer that has gone.
    if (shaking_ && (events & (EPOLLHUP | EPOLLERR)) != 0) return HangUp();
    shaking_ = true;
    loop_.handshakes().Queue(*this);
    return WatchSocket();
  }
  if ((events & EPOLLIN) != 0 && !Waits()) return Receive();
  if ((events & EPOLLIN) != 0) {
    ahead_ = true;
    WatchSocket();
    return;
  }
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) return HangUp();
  if ((events & EPOLLRDHUP) != 0) OnPeerEnded();
}

void HttpConnection::ShakeHands() {
  shaking_ = false;
  Receive();
  if (!stream_->ShakesHands()) loop_.handshakes().Leave(*this);
}

bool HttpConnection::Waits() const {
  return exchange_ != nullptr && exchange_->arrived();
}

void HttpConnection::Receive() {
  std::vector<char>& memory = loop_.scratch();
  const size_t expected = exchange_ != nullptr ? exchange_->missing() : 0;
  const size_t least = std::max(kPiece, stream_->LeastRoom());
  const iovec room = {memory.data(),
                      std::clamp(expected, least, memory.size())};
  const long received = stream_->Receive(&room, 1);
  // It may be able to send now.
  if (received == ByteStream::kLater) return Touch();
  if (received == ByteStream::kFlooded) return HangUp(Hangup::kFrames);
  if (received <= 0) return OnPeerEnded();
  heard_ = loop_.now();
  std::string_view bytes(memory.data(), static_cast<size_t>(received));
  if (!settled_ && bytes.front() == kTlsHello) {
    loop_.metrics().ComplainOfTls(loop_.now());
    return HangUp(Hangup::kTls);
  }
  settled_ = true;
  if (!deaf_ && !Waits() && pending_.empty()) {
    bytes.remove_prefix(Parse(bytes));
  }
  if (!deaf_) pending_.append(bytes);
  Touch();
}

// Who says that no more comes, while an answer is still to be made, has gone as
// far as anybody can tell.
void HttpConnection::OnPeerEnded() {
  if (!answered_at_.has_value()) return HangUp();
  peer_ended_ = true;
  WatchSocket();
}

size_t HttpConnection::Parse(std::string_view bytes) {
  if (!head_since_.has_value() && exchange_ == nullptr) {
    head_since_ = loop_.now();
  }
  const size_t used = parser_.Read(bytes);
  if (parser_.fault().has_value()) {
    Fail(*parser_.fault());
    return bytes.size();
  }
  if (deaf_) return bytes.size();
  return used;
}

bool HttpConnection::TakeExpectation(const HttpHead& head) {
  const std::string* const expected = head.Find("expect");
  if (expected == nullptr) return true;
  if (absl::EqualsIgnoreCase(*expected, "100-continue")) return true;
  Fail({417, "expected Expect: 100-continue or none"});
  return false;
}

bool HttpConnection::OnHead(HttpHead head) {
  head_since_.reset();
  if (!TakeExpectation(head)) return false;
  const bool waits = head.has_body() && head.Find("expect") != nullptr &&
                     !parser_.is_http_1_0();
  keep_alive_ = parser_.keeps_alive();
  exchange_ = std::make_shared<HttpExchange>(loop_, *this, std::move(head));
  if (!exchange_->Begin(make_handler_)) {
    deaf_ = true;
    return false;
  }
  if (waits) output_.Append("HTTP/1.1 100 Continue\r\n\r\n");
  return true;
}

bool HttpConnection::OnBody(std::string_view bytes) {
  if (exchange_ != nullptr && exchange_->OnBody(bytes)) return true;
  deaf_ = true;
  return false;
}

void HttpConnection::OnEnd() {
  if (exchange_ != nullptr) exchange_->OnEnd();
}

void HttpConnection::Fail(const HttpFault& fault) {
  deaf_ = true;
  loop_.metrics().Count(Hangup::kProtocol);
  if (exchange_ != nullptr) {
    const bool answered = exchange_->answered();
    std::exchange(exchange_, nullptr)->OnClosed();
    if (answered) return HangUp();
  }
  HttpAnswer answer;
  answer.status = fault.status;
  answer.body = HttpErrorBody(fault.text);
  WriteAnswer(answer, /*with_body=*/true, /*keep_alive=*/false);
}

void HttpConnection::Send(const HttpExchange& exchange,
                          const HttpAnswer& answer) {
  // What is left of a body that nobody wants can't be told from the next
  // request.
  const bool whole = exchange.arrived() || !exchange.head().has_body();
  if (!whole) deaf_ = true;
  WriteAnswer(answer, exchange.head().method != "HEAD",
              keep_alive_ && whole && !draining_);
}

void HttpConnection::WriteAnswer(const HttpAnswer& answer, bool with_body,
                                 bool keep_alive) {
  keep_alive_ = keep_alive;
  const bool tell = !keep_alive || parser_.is_http_1_0();
  output_.Append(
      absl::StrCat("HTTP/1.1 ", answer.status, " ", Reason(answer.status),
                   "\r\nContent-Type: ", answer.content_type,
                   "\r\nContent-Length: ", answer.body.size(), "\r\n",
                   DateLine(loop_.clock().WallNow()), answer.headers,
                   !tell         ? ""
                   : !keep_alive ? "Connection: close\r\n"
                                 : "Connection: keep-alive\r\n",
                   "\r\n"));
  for (const ByteSlice& slice : answer.body.slices()) {
    if (with_body) output_.Append(slice, 0, slice.size);
  }
  answered_at_ = output_.appended();
  Touch();
}

void HttpConnection::Touch() {
  if (busy_ || over_) return;
  busy_ = true;
  loop_.Busy(*this);
}

bool HttpConnection::Serve(absl::Duration slice) {
  const MonotonicTime until = loop_.clock().Now() + slice;
  for (;;) {
    const bool inflates = exchange_ != nullptr && exchange_->Step();
    Flush();
    if (over_) return busy_ = false;
    if (!inflates) {
      if (exchange_ != nullptr || deaf_ || pending_.empty()) {
        return busy_ = false;
      }
      pending_begin_ +=
          Parse(std::string_view(pending_).substr(pending_begin_));
      if (pending_begin_ >= pending_.size()) {
        pending_.clear();
        pending_begin_ = 0;
      }
    }
    if (loop_.clock().Now() >= until) return true;
  }
}

void HttpConnection::Flush() {
  const uint64_t before = output_.sent();
  if (!output_.SendTo(*stream_)) return HangUp();
  taken_.Add(output_.sent() - before, loop_.now());
  if (output_.empty() && !stream_->OwesBytes()) {
    taken_.End();
  } else if (!taken_.due()) {
    taken_.Begin(loop_.now());
  }
  if (answered_at_.has_value() && output_.sent() >= *answered_at_) {
    FinishAnswer();
  }
  if (!over_) WatchSocket();
}

void HttpConnection::FinishAnswer() {
  // What is encrypted and waits is the stream's.
  if (!keep_alive_ && stream_->OwesBytes()) return;
  answered_at_.reset();
  exchange_.reset();
  ahead_ = false;
  idle_since_ = loop_.now();
  if (keep_alive_ && !deaf_ && !draining_) {
    peer_ended_ = false;  // who has gone is found out by reading on
    return parser_.Next();
  }
  if (deaf_ && !peer_ended_) return Linger();
  HangUp();
}

void HttpConnection::Linger() {
  lingering_since_ = loop_.now();
  pending_.clear();
  stream_->EndSending();
}

void HttpConnection::WatchSocket() {
  uint32_t wanted = 0;
  // While it waits, its next requests stay in the system's memory. Most peers
  // send none: they are told apart when something comes.
  if (!peer_ended_ && !shaking_) {
    wanted = Waits() && ahead_ ? EPOLLRDHUP : EPOLLIN;
  }
  if (stream_->OwesBytes() || (!output_.empty() && stream_->CanSend())) {
    wanted |= EPOLLOUT;
  }
  if (wanted == watched_) return;
  watched_ = wanted;
  loop_.Rewatch(stream_->descriptor(), wanted, *this);
}

void HttpConnection::HangUp(Hangup reason) {
  loop_.metrics().Count(reason);
  HangUp();
}

void HttpConnection::HangUp() {
  if (over_) return;
  over_ = true;
  loop_.handshakes().Leave(*this);
  loop_.Unwatch(stream_->descriptor());
  loop_.Bury(*this);
  if (exchange_ != nullptr) std::exchange(exchange_, nullptr)->OnClosed();
}

void HttpConnection::Drain() {
  draining_ = true;
  if (idle() && !parser_.in_request() && !answered_at_.has_value()) HangUp();
}

void HttpConnection::StopCalls() {
  if (exchange_ != nullptr) exchange_->Stop();
}

void HttpConnection::Tick(MonotonicTime now) {
  if (over_) return;
  if (exchange_ != nullptr) exchange_->Tick(now);
  if (!over_) CheckTimes(now);
}

void HttpConnection::CheckTimes(MonotonicTime now) {
  const WireLimits& limits = loop_.limits();
  if (taken_.Stalled(now)) return HangUp(Hangup::kStalled);
  if (lingering_since_.has_value()) {
    if (now - *lingering_since_ >= kLongestLinger) HangUp();
    return;
  }
  if (exchange_ != nullptr || answered_at_.has_value()) return;
  if (head_since_.has_value() && now - *head_since_ >= limits.handshake_limit) {
    if (!settled_) return HangUp(Hangup::kHandshake);
    head_since_.reset();
    return Fail(
        {408, absl::StrCat("expected a whole head within ",
                           absl::FormatDuration(limits.handshake_limit))});
  }
  if (now - born_ >= limits.max_age) return HangUp(Hangup::kAge);
  if (!head_since_.has_value() && now - idle_since_ >= limits.max_idle) {
    HangUp(Hangup::kIdle);
  }
}

}  // namespace stoker
