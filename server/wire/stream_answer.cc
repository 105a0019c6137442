// The half of StreamCall that writes.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "wire/connection.h"
#include "wire/deflater.h"
#include "wire/header_text.h"
#include "wire/loop.h"
#include "wire/stream_call.h"

namespace stoker {
namespace {

// Both outlive the call of nghttp2 that they are given to.
nghttp2_nv Entry(std::string_view name, std::string_view value) {
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())),
          name.size(), value.size(), NGHTTP2_NV_FLAG_NO_COPY_NAME};
}
nghttp2_nv Constant(std::string_view name, std::string_view value) {
  nghttp2_nv entry = Entry(name, value);
  entry.flags |= NGHTTP2_NV_FLAG_NO_COPY_VALUE;
  return entry;
}

// Trailers with their texts, for as long as nghttp2 copies them.
class Trailers {
 public:
  explicit Trailers(const CallStatus& status)
      : code_(std::to_string(static_cast<int>(status.code))),
        message_(PercentEncoded(status.message)),
        details_(status.details.empty() ? "" : Base64(status.details)) {}

  template <typename Entries>
  void AddTo(Entries& entries) const {
    entries.push_back(Entry("grpc-status", code_));
    if (!message_.empty()) entries.push_back(Entry("grpc-message", message_));
    if (!details_.empty()) {
      entries.push_back(Entry("grpc-status-details-bin", details_));
    }
  }

 private:
  const std::string code_, message_, details_;
};

using Entries = absl::InlinedVector<nghttp2_nv, 8>;

// Compressed on a loop's thread, which others wait for: a fraction of a
// millisecond.
constexpr size_t kQuickDeflate = 32 << 10;

Entries AnswerHeaders() {
  return {Constant(":status", "200"),
          Constant("content-type", "application/grpc"),
          Constant("grpc-accept-encoding", "identity, deflate, gzip")};
}

}  // namespace

void StreamCall::RefuseHttp(std::string_view status) {
  ending_ = true;
  is_text_ = true;
  has_headers_ = true;
  SetMessage({ByteChain::Copy("This port speaks gRPC.\n")});
  left_ -= std::exchange(prefix_left_, 0);
  const Entries entries = {Entry(":status", status),
                           Constant("content-type", "text/plain")};
  SubmitWithData(entries.data(), entries.size());
  connection_->Touch();
}

void StreamCall::StartRead(bool soon) {
  reading_ = true;
  soon_ = soon;
  if (connection_ == nullptr || ending_ || in_ended_ || in_.waiting() > 0) {
    return Happened();
  }
  if (soon && !arriving_.due()) arriving_.Begin(loop_.now());
  OpenWindow();
}

StreamCall::Outgoing StreamCall::Packed(const ByteChain& message) const {
  Outgoing packed = {message};
  const size_t size = message.size();
  if (answer_encoding_ == Encoding::kIdentity || size < kLeastDeflated ||
      (size > kQuickDeflate && loop_.OnThread()) ||
      !Deflate(answer_encoding_, packed.bytes)) {
    return packed;
  }
  // Of what doesn't shrink the client is spared to undo it.
  packed.compressed = packed.bytes.size() < size;
  if (!packed.compressed) packed.bytes = message;
  return packed;
}

void StreamCall::SetMessage(const Outgoing& message) {
  const auto size = static_cast<uint32_t>(message.bytes.size());
  prefix_ = {static_cast<char>(message.compressed),
             static_cast<char>(size >> 24), static_cast<char>(size >> 16),
             static_cast<char>(size >> 8), static_cast<char>(size)};
  prefix_left_ = prefix_.size();
  message_ = message.bytes;
  slice_ = 0;
  slice_offset_ = 0;
  left_ = prefix_.size() + size;
  leaving_.Begin(loop_.now());
}

void StreamCall::StartWrite(const Outgoing& message) {
  if (connection_ == nullptr || ending_) {
    written_ = false;
    return Happened();
  }
  writing_ = true;
  SetMessage(message);
  SubmitAnswer();
}

void StreamCall::StartFinish(const CallStatus& status) {
  handler_done_ = true;
  LeaveWaiting();
  arriving_.End();
  if (connection_ != nullptr && !ending_) {
    ending_ = true;
    status_ = status;
    SubmitAnswer();
  }
  ReleaseIfOver();
}

void StreamCall::StartAnswer(const Outgoing& message) {
  handler_done_ = true;
  LeaveWaiting();
  arriving_.End();
  if (connection_ != nullptr && !ending_) {
    ending_ = true;
    SetMessage(message);
    SubmitAnswer();
  }
  ReleaseIfOver();
}

void StreamCall::SubmitAnswer() {
  if (!has_headers_) {
    SubmitHeaders(left_ > 0);
  } else if (deferred_) {
    deferred_ = false;
    nghttp2_session_resume_data(connection_->session(), stream_);
  }
  connection_->Touch();
}

void StreamCall::SubmitHeaders(bool with_data) {
  has_headers_ = true;
  Entries entries = AnswerHeaders();
  if (with_data) {
    if (answer_encoding_ != Encoding::kIdentity) {
      entries.push_back(
          Constant("grpc-encoding", EncodingName(answer_encoding_)));
    }
    return SubmitWithData(entries.data(), entries.size());
  }
  // Nothing but a status: one list of headers.
  const Trailers trailers(status_);
  trailers.AddTo(entries);
  nghttp2_submit_response(connection_->session(), stream_, entries.data(),
                          entries.size(), nullptr);
}

void StreamCall::SubmitWithData(const nghttp2_nv* entries, size_t count) {
  nghttp2_data_provider provider = {};
  provider.source.ptr = this;
  provider.read_callback = &StreamCall::ReadAnswer;
  nghttp2_submit_response(connection_->session(), stream_, entries, count,
                          &provider);
}

void StreamCall::SubmitTrailers() {
  Entries entries;
  const Trailers trailers(status_);
  trailers.AddTo(entries);
  nghttp2_submit_trailer(connection_->session(), stream_, entries.data(),
                         entries.size());
}

ssize_t StreamCall::ReadAnswer(nghttp2_session* /*session*/, int32_t /*stream*/,
                               uint8_t* /*memory*/, size_t size,
                               uint32_t* flags, nghttp2_data_source* source,
                               void* /*user_data*/) {
  StreamCall& call = *static_cast<StreamCall*>(source->ptr);
  if (call.left_ == 0 && !call.ending_) {
    call.deferred_ = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  const size_t here = std::min(size, call.left_);
  if (here == call.left_ && call.ending_) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (call.is_text_) return static_cast<ssize_t>(here);
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    call.SubmitTrailers();
  }
  return static_cast<ssize_t>(here);
}

void StreamCall::SendAnswer(size_t size) {
  OutputBuffer& output = connection_->output();
  left_ -= size;
  leaving_.Add(size, loop_.now());
  const size_t of_prefix = std::min(size, prefix_left_);
  output.Append({prefix_.data() + prefix_.size() - prefix_left_, of_prefix});
  prefix_left_ -= of_prefix;
  size -= of_prefix;
  while (size > 0) {
    const ByteSlice& slice = message_.slices()[slice_];
    const size_t here = std::min(size, slice.size - slice_offset_);
    output.Append(slice, slice_offset_, here);
    size -= here;
    slice_offset_ += here;
    if (slice_offset_ == slice.size) {
      ++slice_;
      slice_offset_ = 0;
    }
  }
  if (left_ > 0) return;
  leaving_.End();
  message_.Clear();
  if (writing_ || ending_) {
    connection_->WhenSent(
        std::static_pointer_cast<StreamCall>(shared_from_this()));
  }
}

void StreamCall::OnSent(bool ok) {
  if (!writing_) return;
  writing_ = false;
  written_ = ok;
  Happened();
}

}  // namespace stoker
