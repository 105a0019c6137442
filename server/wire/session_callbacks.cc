#include "wire/session_callbacks.h"

#include <memory>
#include <string_view>

#include "wire/connection.h"
#include "wire/stream_call.h"

namespace stoker {
namespace {

Connection& Of(void* user_data) { return *static_cast<Connection*>(user_data); }

std::string_view View(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

nghttp2_session_callbacks* SessionCallbacks::Make() {
  nghttp2_session_callbacks* made = nullptr;
  nghttp2_session_callbacks_new(&made);
  nghttp2_session_callbacks_set_on_begin_headers_callback(
      made, [](nghttp2_session*, const nghttp2_frame* frame, void* data) {
        Of(data).OnHeadersBegin(*frame);
        return 0;
      });
  nghttp2_session_callbacks_set_on_header_callback(
      made,
      [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
         size_t name_size, const uint8_t* value, size_t value_size,
         uint8_t /*flags*/, void* data) -> int {
        const bool well = Of(data).OnHeader(*frame, View(name, name_size),
                                            View(value, value_size));
        return well ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
      });
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      made, [](nghttp2_session*, const nghttp2_frame* frame, void* data) {
        Of(data).OnFrame(*frame);
        return 0;
      });
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
      made, [](nghttp2_session*, uint8_t /*flags*/, int32_t stream,
               const uint8_t* bytes, size_t size, void* data) {
        Of(data).OnData(stream, View(bytes, size));
        return 0;
      });
  nghttp2_session_callbacks_set_on_frame_send_callback(
      made, [](nghttp2_session*, const nghttp2_frame* frame, void* data) {
        Of(data).OnFrameSent(*frame);
        return 0;
      });
  nghttp2_session_callbacks_set_on_stream_close_callback(
      made,
      [](nghttp2_session*, int32_t stream, uint32_t /*error*/, void* data) {
        Of(data).OnStreamClosed(stream);
        return 0;
      });
  nghttp2_session_callbacks_set_send_data_callback(
      made,
      [](nghttp2_session*, nghttp2_frame* frame, const uint8_t* head,
         size_t size, nghttp2_data_source*, void* data) -> int {
        constexpr size_t kHeadBytes = 9;
        Connection& connection = Of(data);
        if (!connection.HasRoom()) return NGHTTP2_ERR_WOULDBLOCK;
        StreamCall* const call = connection.CallOf(frame->hd.stream_id);
        if (call == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        connection.output().Append(View(head, kHeadBytes));
        call->SendAnswer(size);
        return 0;
      });
  return made;
}

nghttp2_session* SessionCallbacks::NewSession(Connection& connection,
                                              const WireLimits& limits) {
  static nghttp2_session_callbacks* const callbacks = Make();
  nghttp2_option* made = nullptr;
  nghttp2_option_new(&made);
  const std::unique_ptr<nghttp2_option, decltype(&nghttp2_option_del)> option(
      made, &nghttp2_option_del);
  // Windows are the memory ceiling: they open when memory is reserved.
  nghttp2_option_set_no_auto_window_update(made, 1);
  nghttp2_option_set_no_closed_streams(made, 1);
  nghttp2_option_set_max_outbound_ack(made, limits.max_waiting_acks);
  nghttp2_option_set_max_settings(made, limits.max_settings);
  nghttp2_option_set_max_continuations(made, limits.max_continuations);
  nghttp2_option_set_stream_reset_rate_limit(made, limits.resets,
                                             limits.resets_per_second);
  nghttp2_session* session = nullptr;
  nghttp2_session_server_new2(&session, callbacks, &connection, made);
  return session;
}

}  // namespace stoker
