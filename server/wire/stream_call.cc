#include "wire/stream_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "wire/connection.h"
#include "wire/header_text.h"
#include "wire/loop.h"

namespace stoker {
namespace {

// A window opens for so much of a large message at a time.
constexpr size_t kMaxWindow = 16 << 20;

// What a call that may not go on has for the message that is being sent.
constexpr absl::Duration kLastWords = absl::Milliseconds(500);

// The least that is shown of a name that nobody knows.
constexpr size_t kMaxShown = 128;

}  // namespace

StreamCall::StreamCall(WireLoop& loop, Connection& connection, int32_t stream)
    : loop_(loop),
      connection_(&connection),
      stream_(stream),
      in_(loop.limits().max_message_bytes),
      arriving_(loop.limits().stall_limit, loop.limits().progress_bytes),
      leaving_(loop.limits().stall_limit, loop.limits().progress_bytes) {
  loop_.CountAwaited();
}

StreamCall::~StreamCall() {
  // It may hold what its own end gives back.
  handler_.reset();
  loop_.Keep(-static_cast<int64_t>(kept_));
  loop_.CountOff();
}

const std::string* StreamCall::FindHeader(std::string_view name) const {
  for (const Header& header : metadata_) {
    if (header.name == name) return &header.value;
  }
  return nullptr;
}

std::shared_ptr<Peer> StreamCall::peer() {
  return connection_ != nullptr ? connection_->peer()
                                : std::make_shared<Peer>();
}

void StreamCall::AddHeader(std::string_view name, std::string_view value) {
  header_bytes_ += SizeOf(name, value);
  // Decoded all the same, or the connection's table would be wrong.
  if (header_bytes_ > loop_.limits().max_header_bytes) return;
  if (name == ":path") {
    method_ = value;
  } else if (name == ":method") {
    is_post_ = value == "POST";
  } else if (name == "content-type") {
    is_grpc_ = value.substr(0, 16) == "application/grpc" &&
               (value.size() == 16 || value[16] == '+' || value[16] == ';');
  } else if (name == "grpc-timeout") {
    timeout_ = ParseGrpcTimeout(value);
  } else if (name == "grpc-encoding") {
    if (const auto known = ParseEncoding(value)) {
      encoding_ = *known;
    } else {
      bad_encoding_ = value.substr(0, kMaxShown);
    }
  } else if (name == "grpc-accept-encoding") {
    accepted_ = EncodingSet::Parse(value);
  } else if (name.front() != ':' && name != "te" && name != "user-agent" &&
             name != "accept-encoding") {
    metadata_.push_back({std::string(name), std::string(value)});
  }
}

bool StreamCall::CheckRequest() {
  if (header_bytes_ > loop_.limits().max_header_bytes) {
    loop_.metrics().Count(CallEnd::kHeaders);
    End({absl::StatusCode::kResourceExhausted,
         absl::StrCat("expected at most ", loop_.limits().max_header_bytes,
                      " bytes of headers, got ", header_bytes_),
         ""});
  } else if (!is_post_) {
    RefuseHttp("405");
  } else if (!is_grpc_) {
    RefuseHttp("415");
  } else if (bad_encoding_.has_value()) {
    End({absl::StatusCode::kUnimplemented,
         absl::StrCat("expected grpc-encoding identity, deflate or gzip, got '",
                      *bad_encoding_, "'"),
         ""});
  } else {
    return true;
  }
  return false;
}

void StreamCall::Begin() {
  self_ = std::static_pointer_cast<StreamCall>(shared_from_this());
  window_ = connection_->first_window();
  if (timeout_.has_value()) deadline_ = loop_.now() + *timeout_;
  in_.SetEncoding(encoding_);
  if (accepted_.Has(encoding_)) answer_encoding_ = encoding_;
  if (CheckRequest()) {
    handler_ = loop_.make_handler()(*this);
    if (handler_ == nullptr) {
      const bool cut = method_.size() > kMaxShown;
      End({absl::StatusCode::kUnimplemented,
           absl::StrCat(
               "unknown method '",
               cut ? method_.substr(0, kMaxShown - 3) + "..." : method_, "'"),
           ""});
    }
  }
  if (handler_ == nullptr) {
    handler_done_ = true;
    return;
  }
  connection_->Earn();
  waiting_ = loop_.BeginWaiting(*this);
  handler_->OnStart();
  if (loop_.draining()) Stop();
}

CallStatus StreamCall::ReserveFor(size_t bytes) {
  return handler_->Reserve(bytes);
}

void StreamCall::OnData(std::string_view bytes) {
  window_ -= std::min<uint32_t>(window_, static_cast<uint32_t>(bytes.size()));
  if (handler_ == nullptr || ending_) return;
  if (!arriving_.due()) arriving_.Begin(loop_.now());
  arriving_.Add(bytes.size(), loop_.now());
  if (!reading_) {
    in_.Keep(bytes);
    if (CountKept()) return;
    loop_.metrics().Count(CallEnd::kKept);
    return End({absl::StatusCode::kResourceExhausted,
                "too much waits to be read on all streams", ""});
  }
  const CallStatus bad =
      in_.Add(bytes, [this](size_t size) { return ReserveFor(size); });
  if (!bad.ok()) return End(bad);
  if (in_.has_message() || in_.inflating()) {
    LeaveWaiting();
    arriving_.End();
    Happened();
  }
  OpenWindow();
}

MessageAssembler::Room StreamCall::room() {
  if (!reading_ || ending_ || handler_ == nullptr) return {};
  return in_.room();
}

bool StreamCall::CountKept() {
  const size_t waiting = in_.waiting();
  const size_t kept = waiting > kFirstWindow ? waiting - kFirstWindow : 0;
  if (kept == kept_) return true;
  const bool well =
      loop_.Keep(static_cast<int64_t>(kept) - static_cast<int64_t>(kept_));
  kept_ = kept;
  return well;
}

// As far as memory was reserved for it; and for the next message once there is
// room for it.
void StreamCall::OpenWindow() {
  if (in_ended_ || connection_ == nullptr || ending_) return;
  size_t wanted = std::min(in_.missing(), kMaxWindow);
  if (wanted == 0) {
    if (in_.has_message() || in_.inflating() || in_.waiting() > 0) return;
    if (!reading_ || window_ > kFirstWindow / 2) return;
    wanted = kFirstWindow;
  }
  if (window_ >= wanted || window_ > kMaxWindow / 2) return;
  const auto more = static_cast<uint32_t>(wanted) - window_;
  window_ += more;
  nghttp2_submit_window_update(connection_->session(), NGHTTP2_FLAG_NONE,
                               stream_, static_cast<int32_t>(more));
  connection_->Touch();
}

void StreamCall::OnEndOfData() {
  LeaveWaiting();
  in_ended_ = true;
  arriving_.End();
  if (reading_) Happened();
}

void StreamCall::LeaveWaiting() {
  if (!waiting_.has_value()) return;
  loop_.EndWaiting(*waiting_);
  waiting_.reset();
}

void StreamCall::EndWaiting() {
  loop_.metrics().Count(CallEnd::kWaiting);
  LeaveWaiting();
  End({absl::StatusCode::kResourceExhausted,
       "too many calls wait for their first message, and this one has waited "
       "for longest",
       ""});
}

void StreamCall::OnClosed() {
  LeaveWaiting();
  connection_ = nullptr;
  in_ended_ = true;
  arriving_.End();
  leaving_.End();
  TellOfCancel();
  ReleaseIfOver();
}

void StreamCall::TellOfCancel() {
  if (handler_ == nullptr || handler_done_) return;
  // What was written and waits in the output is told of when that has gone.
  if (writing_ && left_ > 0) {
    writing_ = false;
    written_ = false;
  }
  left_ = 0;
  message_.Clear();
  cancelled_ = true;
  Happened();
}

void StreamCall::Stop() {
  if (handler_ == nullptr || handler_done_) return;
  stopped_ = true;
  Happened();
}

void StreamCall::Happened() {
  if (queued_) return;
  queued_ = true;
  auto self = std::static_pointer_cast<StreamCall>(shared_from_this());
  if (connection_ != nullptr) {
    connection_->Deliver(std::move(self));
  } else {
    loop_.Deliver(std::move(self));
  }
}

void StreamCall::HappenNow() {
  queued_ = false;
  if (handler_ == nullptr) return ReleaseIfOver();
  if (std::exchange(stopped_, false)) handler_->OnStop();
  if (written_.has_value()) {
    const bool ok = *written_;
    written_.reset();
    handler_->OnWritten(ok);
  }
  GiveMessage();
  if (std::exchange(cancelled_, false) && !finishing_.load()) {
    handler_->OnCancel();
  }
  ReleaseIfOver();
}

void StreamCall::GiveMessage() {
  const auto reserve = [this](size_t size) { return ReserveFor(size); };
  if (!reading_) return;
  const bool dead = connection_ == nullptr || ending_;
  if (!dead) {
    CallStatus bad;
    if (in_.inflating()) {
      bad = in_.Step(reserve);
    } else if (!in_.has_message() && in_.waiting() > 0) {
      bad = in_.Resume(reserve);
      CountKept();
    }
    if (!bad.ok()) return End(bad);
    if (in_.inflating()) return Happened();
  }
  if (dead || (in_ended_ && !in_.has_message())) {
    reading_ = false;
    handler_->OnEndOfMessages();
    return;
  }
  if (!in_.has_message()) return OpenWindow();
  reading_ = false;
  arriving_.End();
  connection_->Earn();
  const ByteChain message = in_.Take();
  // One that the client sends before it may go on; not of a stream, whose next
  // one might come before it is asked for.
  if (soon_) connection_->OpenWiderFor(message.size());
  handler_->OnMessage(message);
}

void StreamCall::Tick(MonotonicTime now) {
  if (connection_ == nullptr) return;
  if (now >= deadline_ && !ending_) {
    return End({absl::StatusCode::kDeadlineExceeded, "Deadline Exceeded", ""});
  }
  if (leaving_.Stalled(now)) {
    leaving_.End();
    loop_.CountStall();
    return Reset(NGHTTP2_CANCEL);
  }
  if (arriving_.Stalled(now)) {
    arriving_.End();
    loop_.CountStall();
    End({absl::StatusCode::kDeadlineExceeded,
         absl::StrCat("expected a whole message within ",
                      absl::FormatDuration(loop_.limits().stall_limit)),
         ""});
  }
  AskWhetherItGoesOn(now);
}

void StreamCall::AskWhetherItGoesOn(MonotonicTime now) {
  if (handler_ == nullptr || handler_done_ || ending_) return;
  if (!refused_.has_value()) {
    CallStatus may = handler_->MayGoOn();
    if (may.ok()) return;
    refused_ = std::move(may);
    refused_until_ = now + kLastWords;
  }
  // Cut off in the middle of a message, the client wouldn't learn why.
  if (left_ > 0 && now < refused_until_) return;
  loop_.metrics().Count(CallEnd::kForbidden);
  End(*refused_);
}

void StreamCall::Reset(uint32_t error) {
  nghttp2_submit_rst_stream(connection_->session(), NGHTTP2_FLAG_NONE, stream_,
                            error);
  connection_->Touch();
}

void StreamCall::End(const CallStatus& status) {
  if (ending_ || connection_ == nullptr) return;
  if (status.too_long) loop_.metrics().Count(CallEnd::kTooLong);
  LeaveWaiting();
  arriving_.End();
  // A message that is half sent can't be followed by trailers.
  if (left_ > 0) return Reset(NGHTTP2_CANCEL);
  ending_ = true;
  status_ = status;
  SubmitAnswer();
  TellOfCancel();
}

void StreamCall::ReleaseIfOver() {
  if (connection_ != nullptr || !handler_done_ || queued_) return;
  // The caller holds it still.
  self_.reset();
}

template <typename Work>
void StreamCall::OnLoop(Work work) {
  if (loop_.OnThread()) {
    work();
  } else {
    loop_.Run([keep = shared_from_this(), work = std::move(work)]() mutable {
      work();
    });
  }
}

void StreamCall::Read() {
  OnLoop([this] { StartRead(false); });
}

void StreamCall::ReadSoon() {
  OnLoop([this] { StartRead(true); });
}

void StreamCall::Write(const ByteChain& message) {
  OnLoop([this, packed = Packed(message)] { StartWrite(packed); });
}

void StreamCall::Finish(const CallStatus& status) {
  if (!BeginToFinish()) return;
  OnLoop([this, status] { StartFinish(status); });
}

void StreamCall::Answer(const ByteChain& message) {
  if (!BeginToFinish()) return;
  OnLoop([this, packed = Packed(message)] { StartAnswer(packed); });
}

}  // namespace stoker
