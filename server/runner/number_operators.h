// Comparisons and the remainder of numbers, as Python has them: nativert's own
// take integers alone. Private to this room.
#pragma once

namespace stoker {

// eq, ne, lt, le, gt and ge(Scalar a, Scalar b) -> bool, and
// mod(Scalar a, Scalar b) -> Scalar, whose sign is b's, and which refuses a b
// of 0. Registered with torch as stoker.*, which graphs get by
// program/number_arguments.h alone. To be called by one thread at a time;
// registers once.
void RegisterNumberOperators();

}  // namespace stoker
