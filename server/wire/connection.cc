#include "wire/connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "wire/session_callbacks.h"
#include "wire/stream_call.h"

namespace stoker {
namespace {

// Answers wait in the calls beyond this, where a peer's windows and its reading
// hold them back.
constexpr size_t kMaxOutput = 256 << 10;
// Frames that wait in the session when the output is full: answers of refused
// calls and resets, which no window holds back, of some hundred bytes each. A
// peer that doesn't read isn't read either.
constexpr size_t kMaxUnread = 2'000;

// Of all calls of a connection together. Its bytes lie in memory that was
// reserved, so this bounds nothing but what is on its way.
constexpr int32_t kConnectionWindow = 8 << 20;

// A message of some hundred kilobytes comes in one frame: the rest of it is
// received where it stays, with one call of the system for all that is here.
// With frames of 64 KB each call brought one, and the system acknowledged each
// and woke the client for it: 600 KB cost 1.7 times the CPU.
constexpr uint32_t kMaxFrame = 1 << 20;

// What a peer earns by a message, and by a piece of an answer which it may
// acknowledge by windows of the stream and of the connection.
constexpr double kPerMessage = 4;
constexpr double kPerPiece = 3;

// What a ping says that follows the first goodbye: its answer shows that the
// client has read that.
constexpr uint8_t kGoodbye[8] = {'g', 'o', 'o', 'd', 'b', 'y', 'e', 0};
// For its answer, which may never come: longer than a message takes around the
// world and back.
constexpr absl::Duration kGoodbyeLimit = absl::Seconds(1);

bool IsAnswerTo(const nghttp2_frame& frame, const uint8_t (&said)[8]) {
  return frame.hd.type == NGHTTP2_PING &&
         (frame.hd.flags & NGHTTP2_FLAG_ACK) != 0 &&
         std::equal(std::begin(said), std::end(said), frame.ping.opaque_data);
}

}  // namespace

Connection::Connection(WireLoop& loop, std::unique_ptr<ByteStream> stream,
                       PeerTicket peer)
    : loop_(loop),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      taken_(loop.limits().stall_limit, loop.limits().progress_bytes),
      window_(StreamCall::kFirstWindow),
      whole_(loop.limits().stall_limit, loop.limits().progress_bytes),
      useless_(loop.limits().useless_frames,
               loop.limits().useless_frames_per_second),
      resets_(static_cast<double>(loop.limits().resets),
              static_cast<double>(loop.limits().resets_per_second)),
      born_(loop.now()),
      heard_(loop.now()),
      idle_since_(loop.now()) {
  loop_.metrics().Opened();
}

std::unique_ptr<PeerConnection> Connection::Make(
    WireLoop& loop, std::unique_ptr<ByteStream> stream, PeerTicket peer) {
  return std::make_unique<Connection>(loop, std::move(stream), std::move(peer));
}

Connection::~Connection() {
  if (!over_) HangUp();
  nghttp2_session_del(session_);
  loop_.metrics().Closed();
}

void Connection::Begin() {
  session_ = SessionCallbacks::NewSession(*this, loop_.limits());
  SendSettings();
  watched_ = EPOLLIN;
  loop_.Watch(stream_->descriptor(), watched_, *this);
  if (stream_->ShakesHands()) {
    PeerConnection* const out = loop_.handshakes().Enter(*this);
    if (out != nullptr) out->HangUp(Hangup::kHandshakes);
  }
  Touch();
}

void Connection::SendSettings() {
  const WireLimits& limits = loop_.limits();
  const std::array<nghttp2_settings_entry, 5> settings = {{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.max_calls},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.max_header_bytes},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kMaxFrame},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, StreamCall::kFirstWindow},
      // Trees of priorities cost a server memory and time.
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(),
                          settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                        kConnectionWindow);
}

void Connection::OnReady(uint32_t events) {
  if (over_) return;
  if ((events & EPOLLOUT) != 0) {
    if (stream_->Send(nullptr, 0) == ByteStream::kBroken) return HangUp();
    Flush();
  }
  if (over_ || (events & ~uint32_t{EPOLLOUT}) == 0) return;
  if (stream_->ShakesHands()) {
    // Nothing can come to an end with a peer that has gone.
    if (shaking_ && (events & (EPOLLHUP | EPOLLERR)) != 0) return HangUp();
    shaking_ = true;
    loop_.handshakes().Queue(*this);
    return WatchSocket();
  }
  // Its calls are to be told first what it sent before.
  if (deliveries_.empty()) Receive();
}

void Connection::ShakeHands() {
  shaking_ = false;
  Receive();
  if (!stream_->ShakesHands()) loop_.handshakes().Leave(*this);
}

void Connection::Touch() {
  if (busy_ || over_) return;
  busy_ = true;
  loop_.Busy(*this);
}

void Connection::Deliver(std::shared_ptr<StreamCall> call) {
  deliveries_.push_back(std::move(call));
  Touch();
}

bool Connection::Serve(absl::Duration slice) {
  const MonotonicTime until = loop_.clock().Now() + slice;
  while (!deliveries_.empty()) {
    const std::shared_ptr<StreamCall> call = std::move(deliveries_.front());
    deliveries_.pop_front();
    call->HappenNow();
    if (loop_.clock().Now() >= until) break;
  }
  Flush();
  busy_ = !over_ && !deliveries_.empty();
  return busy_;
}

bool Connection::HasRoom() const { return output_.size() < kMaxOutput; }

bool Connection::FillOutput() {
  while (HasRoom()) {
    const uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (size < 0) return false;
    if (size == 0) return true;
    output_.Append(
        {reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)});
  }
  return true;
}

void Connection::Flush() {
  for (;;) {
    if (!FillOutput()) return HangUp(Hangup::kProtocol);
    const uint64_t before = output_.sent();
    if (!output_.SendTo(*stream_)) return HangUp();
    taken_.Add(output_.sent() - before, loop_.now());
    TellOfSent();
    if (!output_.empty() || output_.sent() == before) break;
  }
  if (output_.empty() && !stream_->OwesBytes()) {
    taken_.End();
    if (nghttp2_session_want_read(session_) == 0 &&
        nghttp2_session_want_write(session_) == 0) {
      if (drained_) return HangUp();
      return HangUp(reason_.value_or(Hangup::kProtocol));
    }
  } else if (!taken_.due()) {
    taken_.Begin(loop_.now());
  }
  WatchSocket();
}

void Connection::WatchSocket() {
  uint32_t wanted = 0;
  const bool reads =
      nghttp2_session_get_outbound_queue_size(session_) < kMaxUnread;
  if (reads && !shaking_) wanted |= EPOLLIN;
  if (stream_->OwesBytes() || (!output_.empty() && stream_->CanSend())) {
    wanted |= EPOLLOUT;
  }
  if (wanted == watched_) return;
  watched_ = wanted;
  loop_.Rewatch(stream_->descriptor(), wanted, *this);
}

void Connection::WhenSent(std::shared_ptr<StreamCall> call) {
  sending_.push_back({output_.appended(), std::move(call)});
}

void Connection::TellOfSent() {
  while (!sending_.empty() && sending_.front().until <= output_.sent()) {
    const std::shared_ptr<StreamCall> call = std::move(sending_.front().call);
    sending_.pop_front();
    call->OnSent(true);
  }
}

void Connection::HangUp(Hangup reason) {
  loop_.metrics().Count(reason);
  HangUp();
}

void Connection::HangUp() {
  if (over_) return;
  over_ = true;
  if (draining_since_.has_value() && !drained_) loop_.CountOff();
  loop_.handshakes().Leave(*this);
  loop_.Keep(-static_cast<int64_t>(std::exchange(kept_, 0)));
  loop_.Unwatch(stream_->descriptor());
  loop_.Bury(*this);
  const auto calls = std::exchange(calls_, {});
  for (const auto& [stream, call] : calls) call->OnClosed();
  for (const Sending& one : std::exchange(sending_, {})) {
    one.call->OnSent(false);
  }
  for (auto& call : std::exchange(deliveries_, {})) {
    loop_.Deliver(std::move(call));
  }
}

StreamCall* Connection::CallOf(int32_t stream) const {
  const auto found = calls_.find(stream);
  return found == calls_.end() ? nullptr : found->second.get();
}

void Connection::Earn() { useless_.Earn(kPerMessage); }

void Connection::OnHeadersBegin(const nghttp2_frame& frame) {
  list_bytes_ = 0;
  if (frame.headers.cat != NGHTTP2_HCAT_REQUEST) return;
  const int32_t stream = frame.hd.stream_id;
  calls_[stream] = std::make_shared<StreamCall>(loop_, *this, stream);
  if (calls_.size() == loop_.limits().max_calls) loop_.metrics().CountFull();
}

bool Connection::OnHeader(const nghttp2_frame& frame, std::string_view name,
                          std::string_view value) {
  // Each is looked at byte by byte before it is here, however few bytes named
  // it.
  list_bytes_ += StreamCall::SizeOf(name, value);
  const WireLimits& limits = loop_.limits();
  if (list_bytes_ <= limits.header_excess * limits.max_header_bytes) {
    const bool trailer = frame.headers.cat != NGHTTP2_HCAT_REQUEST;
    StreamCall* const call = trailer ? nullptr : CallOf(frame.hd.stream_id);
    if (call != nullptr) call->AddHeader(name, value);
    return true;
  }
  reason_ = Hangup::kHeaders;
  return false;
}

void Connection::OnFrame(const nghttp2_frame& frame) {
  settled_ = true;
  const bool ends = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  if (frame.hd.type == NGHTTP2_HEADERS) {
    StreamCall* const call = CallOf(frame.hd.stream_id);
    if (call == nullptr) return;
    if (frame.headers.cat == NGHTTP2_HCAT_REQUEST) call->Begin();
    if (ends) call->OnEndOfData();
  } else if (frame.hd.type == NGHTTP2_DATA && ends) {
    if (StreamCall* call = CallOf(frame.hd.stream_id)) call->OnEndOfData();
  } else if (IsAnswerTo(frame, kGoodbye) && draining_since_.has_value()) {
    FinishDrain();
  }
}

void Connection::OnData(int32_t stream, std::string_view bytes) {
  nghttp2_session_consume_connection(session_, bytes.size());
  if (StreamCall* call = CallOf(stream)) call->OnData(bytes);
}

void Connection::OnFrameSent(const nghttp2_frame& frame) {
  const int32_t stream = frame.hd.stream_id;
  if (frame.hd.type == NGHTTP2_DATA) useless_.Earn(kPerPiece);
  if (frame.hd.type == NGHTTP2_GOAWAY && draining_since_.has_value() &&
      !drained_) {
    // No sooner: pings overtake what is only submitted.
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, kGoodbye);
  }
  if (frame.hd.type == NGHTTP2_RST_STREAM) {
    const uint32_t why = frame.rst_stream.error_code;
    if (why != NGHTTP2_NO_ERROR && why != NGHTTP2_CANCEL &&
        !resets_.Take(loop_.now())) {
      AskToCalmDown(Hangup::kResets);
    }
  } else if ((frame.hd.type == NGHTTP2_HEADERS ||
              frame.hd.type == NGHTTP2_DATA) &&
             (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
             nghttp2_session_get_stream_remote_close(session_, stream) == 0) {
    // The client need not send the rest. Before the answer's end this would
    // overtake it.
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream,
                              NGHTTP2_NO_ERROR);
  }
}

void Connection::OnStreamClosed(int32_t stream) {
  const auto found = calls_.find(stream);
  if (found == calls_.end()) return;
  const std::shared_ptr<StreamCall> call = std::move(found->second);
  calls_.erase(found);
  if (calls_.empty()) idle_since_ = loop_.now();
  call->OnClosed();
}

void Connection::Drain() {
  if (draining_since_.has_value() || over_) return;
  draining_since_ = loop_.now();
  loop_.CountAwaited();
  // Calls that are on their way are still taken: the second one names the last.
  nghttp2_submit_shutdown_notice(session_);
  Touch();
}

void Connection::StopCalls() {
  for (const auto& [stream, call] : calls_) call->Stop();
}

void Connection::FinishDrain() {
  if (drained_) return;
  drained_ = true;
  loop_.CountOff();
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_),
                        NGHTTP2_NO_ERROR, nullptr, 0);
  Touch();
}

void Connection::Tick(MonotonicTime now) {
  if (over_) return;
  for (const auto& [stream, call] : calls_) call->Tick(now);
  CheckTimes(now);
  if (!over_) CheckAge(now);
}

void Connection::CheckTimes(MonotonicTime now) {
  const WireLimits& limits = loop_.limits();
  if (!settled_ && now - born_ >= limits.handshake_limit) {
    return HangUp(Hangup::kHandshake);
  }
  if (taken_.Stalled(now) || whole_.Stalled(now)) {
    return HangUp(Hangup::kStalled);
  }
  if (pinged_.has_value()) {
    if (now - *pinged_ >= limits.keepalive) HangUp(Hangup::kSilent);
  } else if (settled_ && now - heard_ >= limits.keepalive) {
    pinged_ = now;
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
    Touch();
  }
}

void Connection::CheckAge(MonotonicTime now) {
  const WireLimits& limits = loop_.limits();
  if (draining_since_.has_value()) {
    if (now - *draining_since_ >= kGoodbyeLimit) FinishDrain();
    if (too_old_ && now - *draining_since_ >= limits.age_grace) HangUp();
    return;
  }
  const bool idles = calls_.empty() && now - idle_since_ >= limits.max_idle;
  if (!idles && now - born_ < limits.max_age) return;
  loop_.metrics().Count(idles ? Hangup::kIdle : Hangup::kAge);
  too_old_ = true;
  Drain();
}

}  // namespace stoker
