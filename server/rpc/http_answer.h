// Answers over HTTP: which status an error has, what is said with it, and what
// answers are to be compressed with.
//
// Thread-safe: pure functions.
#pragma once

#include <string>

#include "wire/call.h"
#include "wire/encoding.h"
#include "wire/http_call.h"

namespace stoker {

// {"error": ...} with the status that stands for the code, and when to come
// back where load alone is the reason.
HttpAnswer ErrorAnswer(const CallStatus& status);

// What the client wants its answer compressed with: where it names one coding,
// and no more, that is a wish. Clients that list all they know get elements as
// they are, which are not worth the time.
Encoding WantedCoding(const HttpHead& head);

}  // namespace stoker
