// A line of the request log, without its end. Pure.
#pragma once

#include <string>

#include "telemetry/request_record.h"

namespace stoker {

enum class LineFormat {
  kJson,  // an object; what isn't known is left out
  kText,  // name=value, values with spaces or quotes in JSON's
};

// Never more than one line, whatever the names in it are.
void AppendRequestLine(const RequestRecord& record, LineFormat format,
                       std::string& out);

}  // namespace stoker
