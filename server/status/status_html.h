// A Status as one page for people: no other file, complete without JavaScript,
// fit for a telephone.
#pragma once

#include "status/page.h"
#include "status/status.h"

namespace stoker {

// Names and reasons are escaped, and the page's policy lets nothing run but its
// own script, which asks for the page anew every few seconds.
Page StatusPage(const Status& status);

}  // namespace stoker
