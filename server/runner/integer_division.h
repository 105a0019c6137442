// Integer division of torch's own kernels that no pair of values can trap in.
#pragma once

namespace stoker {

// The least integer divided by -1 has no quotient of its type, and x86 traps:
// torch 2.11 dies of SIGFPE in div(rounding_mode="trunc") on INT32 and INT64,
// while its other divisions wrap around. From here on this one wraps around
// too, in the whole process, whoever calls it: by operator or by nativert's
// static kernels. Division by zero stays an exception.
//
// To be called before the first such division; calling it again does nothing.
void MakeTruncatedDivisionSafe();

}  // namespace stoker
