// The half of Connection that receives.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "wire/connection.h"
#include "wire/stream_call.h"

namespace stoker {
namespace {

// From here on what is missing of a frame is worth a place of its own.
constexpr size_t kMinDirect = 4 << 10;

// What one connection receives before others have their turn.
constexpr size_t kMaxPerTurn = 256 << 10;

// What a new call may send before its message's length is known, where messages
// have been as large.
constexpr uint32_t kWidestWindow = 1 << 20;

// Of headers that are not whole, that anybody may have.
constexpr size_t kFreeUnfinished = 4 << 10;

// As much work as a frame makes that is about one stream.
constexpr double kStreamsPerFrame = 100;

// What a hello of TLS begins with, and no preface of HTTP/2.
constexpr char kTlsHandshake = 22;

}  // namespace

void Connection::Receive() {
  for (size_t all = 0; all < kMaxPerTurn;) {
    const MessageAssembler::Room room = RoomForData();
    std::vector<char>& scratch = loop_.scratch();
    // Little behind it: the next piece has a place of its own, too.
    const size_t behind = room.size > 0 ? stream_->LeastRoom() : scratch.size();
    const std::array<iovec, 2> pieces = {
        {{room.memory, room.size}, {scratch.data(), behind}}};
    const int skipped = room.size > 0 ? 0 : 1;
    const long received =
        stream_->Receive(pieces.data() + skipped, 2 - skipped);
    // It may be able to send now.
    if (received == ByteStream::kLater) return Touch();
    if (received == ByteStream::kFlooded) return HangUp(Hangup::kFrames);
    if (received <= 0) return HangUp();
    heard_ = loop_.now();
    pinged_.reset();
    const auto size = static_cast<size_t>(received);
    const size_t placed = std::min(size, room.size);
    if (placed > 0 && !Take({room.memory, placed})) return;
    if (size > placed && !Take({scratch.data(), size - placed})) return;
    // Others have their turn, where this was all or is of small messages.
    if (room.size == 0 || size < room.size) break;
    all += size;
  }
  Touch();
}

// The rest of a large piece of a message goes where it is to stay.
MessageAssembler::Room Connection::RoomForData() const {
  if (frames_.data_left() < kMinDirect) return {};
  StreamCall* const call = CallOf(static_cast<int32_t>(frames_.data_stream()));
  if (call == nullptr) return {};
  MessageAssembler::Room room = call->room();
  room.size = std::min(room.size, frames_.data_left());
  return room.size < kMinDirect ? MessageAssembler::Room() : room;
}

bool Connection::Take(std::string_view bytes) {
  if (!settled_ && bytes[0] == kTlsHandshake) {
    loop_.metrics().ComplainOfTls(loop_.now());
    HangUp(Hangup::kTls);
    return false;
  }
  frames_.Add(bytes,
              [this](const FrameMeter::Head& head) { CountFrame(head); });
  if (reason_.has_value()) {
    Touch();
    return false;
  }
  const ssize_t read = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (read >= 0) return !over_ && KeepUnfinished();
  if (read == NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
    loop_.metrics().ComplainOfProtocol(loop_.now(), peer_.peer(), bytes);
  }
  HangUp(ReasonOf(static_cast<int>(read)));
  return false;
}

bool Connection::KeepUnfinished() {
  const size_t unfinished = frames_.unfinished();
  if (unfinished == 0 && !whole_.due()) return true;
  if (unfinished == 0) {
    whole_.End();
  } else if (!whole_.due()) {
    whole_.Begin(loop_.now());
  }
  const size_t kept = unfinished > kFreeUnfinished ? unfinished : 0;
  const bool well =
      loop_.Keep(static_cast<int64_t>(kept) - static_cast<int64_t>(kept_));
  kept_ = kept;
  if (!well && kept > 0) HangUp(Hangup::kHeaders);
  return !over_;
}

Hangup Connection::ReasonOf(int error) const {
  switch (error) {
    case NGHTTP2_ERR_FLOODED:
      return Hangup::kAcks;
    case NGHTTP2_ERR_TOO_MANY_CONTINUATIONS:
      return Hangup::kHeaders;
    default:
      return reason_.value_or(Hangup::kProtocol);
  }
}

void Connection::CountFrame(const FrameMeter::Head& head) {
  const MonotonicTime now = loop_.now();
  // Some cost as much as there are streams.
  const double streams =
      FrameRules::IsAboutAll(head) ? static_cast<double>(calls_.size()) : 0;
  if (FrameRules::IsUseless(head) &&
      !useless_.Take(now, 1 + streams / kStreamsPerFrame)) {
    AskToCalmDown(Hangup::kFrames);
  }
  if (head.type == NGHTTP2_RST_STREAM && !resets_.Take(now)) {
    AskToCalmDown(Hangup::kResets);
  }
  if (FrameRules::SettingsOf(head) > loop_.limits().max_settings) {
    AskToCalmDown(Hangup::kSettings);
  }
  const uint32_t error = frame_rules_.ErrorOf(head);
  if (error == NGHTTP2_NO_ERROR || reason_.has_value()) return;
  reason_ = Hangup::kProtocol;
  nghttp2_session_terminate_session(session_, error);
}

void Connection::AskToCalmDown(Hangup reason) {
  if (reason_.has_value()) return;
  reason_ = reason;
  nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
}

uint32_t Connection::first_window() const {
  return nghttp2_session_get_local_settings(
      session_, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE);
}

void Connection::OpenWiderFor(size_t message_bytes) {
  if (message_bytes <= window_ || window_ >= kWidestWindow || over_) return;
  const auto wanted = static_cast<uint32_t>(std::bit_ceil(message_bytes));
  window_ = std::min(wanted, kWidestWindow);
  const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                                        window_};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &entry, 1);
}

}  // namespace stoker
