// A call that is a stream of HTTP/2: gRPC's headers, messages and trailers on
// one side, a Call on the other.
//
// Its operations may be started from any thread; all else is called on its
// loop's thread. It holds itself until its handler has finished it and its
// stream is closed.
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "base/monotonic_time.h"
#include "wire/byte_chain.h"
#include "wire/call.h"
#include "wire/encoding.h"
#include "wire/message_assembler.h"
#include "wire/progress.h"

namespace stoker {

class Connection;
class WireLoop;

class StreamCall final : public Call {
 public:
  // What a client may send before any memory is reserved for it.
  static constexpr uint32_t kFirstWindow = 65535;

  StreamCall(WireLoop& loop, Connection& connection, int32_t stream);
  ~StreamCall() override;

  // Call. Any thread.
  const std::string& method() const override { return method_; }
  MonotonicTime deadline() const override { return deadline_; }
  const std::string* FindHeader(std::string_view name) const override;
  std::shared_ptr<Peer> peer() override;
  void Read() override;
  void ReadSoon() override;
  void Write(const ByteChain& message) override;
  void Finish(const CallStatus& status) override;
  void Answer(const ByteChain& message) override;

  // ---- for its connection

  // As HTTP/2 counts.
  static size_t SizeOf(std::string_view name, std::string_view value) {
    constexpr size_t kOverhead = 32;
    return name.size() + value.size() + kOverhead;
  }
  void AddHeader(std::string_view name, std::string_view value);
  // The headers are complete.
  void Begin();
  void OnData(std::string_view bytes);
  // Where the next of it goes in the end.
  MessageAssembler::Room room();
  void OnEndOfData();
  // The stream is over, whoever ended it; the connection may go.
  void OnClosed();
  // Tells the handler what happened.
  void HappenNow();
  void Tick(MonotonicTime now);
  // The server stops.
  void Stop();
  // Others need the place of a call that waits for its first message.
  void EndWaiting();
  // What was put into the connection's output has left it, or never will.
  void OnSent(bool ok);
  // Puts the next `size` bytes of the answer into the connection's output.
  void SendAnswer(size_t size);

 private:
  struct Header {
    std::string name, value;
  };
  struct Outgoing {
    ByteChain bytes;
    bool compressed = false;
  };

  // What is done with a call on its thread, for each operation.
  void StartRead(bool soon);
  void StartWrite(const Outgoing& message);
  void StartFinish(const CallStatus& status);
  void StartAnswer(const Outgoing& message);

  template <typename Work>
  void OnLoop(Work work);
  // As it is sent. On the thread that has it, which may be any.
  Outgoing Packed(const ByteChain& message) const;
  bool BeginToFinish() { return !finishing_.exchange(true); }

  // Refusals before there is a handler; false: it was refused.
  bool CheckRequest();
  void RefuseHttp(std::string_view status);
  CallStatus ReserveFor(size_t bytes);
  // Ends the call for the client; the handler is told, and finishes it for
  // itself.
  void End(const CallStatus& status);
  void Reset(uint32_t error);
  void AskWhetherItGoesOn(MonotonicTime now);

  void LeaveWaiting();
  void Happened();  // the handler is to be told something
  void GiveMessage();
  // Counts what waits beyond the first window. False: all calls together have
  // too much.
  bool CountKept();
  void OpenWindow();
  void SetMessage(const Outgoing& message);
  void SubmitHeaders(bool with_data);
  void SubmitWithData(const nghttp2_nv* entries, size_t count);
  void SubmitTrailers();
  void SubmitAnswer();
  void TellOfCancel();
  void ReleaseIfOver();
  static ssize_t ReadAnswer(nghttp2_session* session, int32_t stream,
                            uint8_t* memory, size_t size, uint32_t* flags,
                            nghttp2_data_source* source, void* user_data);

  WireLoop& loop_;
  Connection* connection_;  // null once the stream is closed
  const int32_t stream_;
  std::shared_ptr<StreamCall> self_;  // from Begin until it is over
  std::unique_ptr<CallHandler> handler_;

  // The request's headers; constant from Begin on.
  std::string method_;
  MonotonicTime deadline_ = MonotonicTime::InfiniteFuture();
  std::optional<absl::Duration> timeout_;
  std::optional<std::string> bad_encoding_;
  // What its messages may be compressed with, and answers: the same where the
  // client takes it.
  Encoding encoding_ = Encoding::kIdentity;
  Encoding answer_encoding_ = Encoding::kIdentity;
  EncodingSet accepted_;
  absl::InlinedVector<Header, 4> metadata_;
  size_t header_bytes_ = 0;
  bool is_post_ = false;
  bool is_grpc_ = false;

  // What arrives.
  MessageAssembler in_;
  bool in_ended_ = false;  // the client sends no more
  bool reading_ = false;
  bool soon_ = false;  // and as ReadSoon does
  std::optional<std::list<StreamCall*>::iterator> waiting_;
  uint32_t window_ = kFirstWindow;  // what the client may send
  size_t kept_ = 0;                 // of the loop's, for bytes nobody reads yet
  Progress arriving_;

  // What happened, and the handler was not told yet.
  bool queued_ = false;
  bool stopped_ = false;
  bool cancelled_ = false;
  std::optional<bool> written_;

  // The handler said so; when it ends without more ado.
  std::optional<CallStatus> refused_;
  MonotonicTime refused_until_;

  // What is sent.
  bool has_headers_ = false;
  bool deferred_ = false;  // nghttp2 waits to be told that there is more
  bool writing_ = false;   // OnWritten is owed
  bool ending_ = false;    // status_ comes behind the message
  bool is_text_ = false;   // which is for people, without status_
  std::array<char, 5> prefix_ = {};
  size_t prefix_left_ = 0;
  ByteChain message_;
  size_t slice_ = 0;         // of the message, that comes next
  size_t slice_offset_ = 0;  // in that one
  size_t left_ = 0;          // bytes, the prefix included
  CallStatus status_;
  Progress leaving_;

  std::atomic<bool> finishing_ = false;  // the handler has begun to finish it
  bool handler_done_ = false;            // and the loop knows
};

}  // namespace stoker
