// The three pipes of a child process, served together so that none is ever full
// for good: what it is to be told waits until it takes it, what it replies and
// what it writes to stdout and stderr is handed over as it comes.
//
// One thread at a time, which has SIGPIPE blocked or ignored.
#pragma once

#include <poll.h>

#include <functional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/subprocess.h"

namespace stoker {

class ProcessPipes {
 public:
  // Gets a piece, never an empty one.
  using Sink = std::function<void(std::string_view)>;

  // `child` outlives this object.
  ProcessPipes(Subprocess& child, Sink on_reply, Sink on_log);
  ProcessPipes(const ProcessPipes&) = delete;
  ProcessPipes& operator=(const ProcessPipes&) = delete;

  // What the child is told next. Lost when its stdin is closed.
  void Give(std::string_view bytes);
  // Closes the child's stdin once it has taken everything.
  void EndInput();
  // Closes it now.
  void DropInput();

  // False once the child's end is closed.
  bool reply_open() const { return reply_open_; }
  bool log_open() const { return log_open_; }

  // Waits until there is something to do, for `limit` at most, and does it:
  // calls the sinks, but bounds what it reads at a time, so that a flood in one
  // pipe can't starve the others. `also` are descriptors of the caller's that
  // end the waiting, with their results. False when nothing has happened.
  bool Serve(absl::Duration limit, absl::Span<pollfd> also = {});

 private:
  void Write();

  Subprocess& child_;
  const Sink on_reply_;
  const Sink on_log_;
  std::string outbox_;
  size_t taken_ = 0;  // of the outbox, by the child
  bool input_ends_ = false;
  bool reply_open_ = true;
  bool log_open_ = true;
};

}  // namespace stoker
