// What transformers 5 calls for mixtures of experts whose weights aren't
// bfloat16: transformers::grouped_mm_fallback, which it registers from Python.
// Private to this room.
#pragma once

namespace stoker {

// grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor:
// input [S, in], sorted by expert; weight [experts, in, out]; offs [experts],
// INT32 or INT64, the row behind each expert's last. Returns [S, out]; rows
// behind the last expert's are 0. Refuses offsets that fall, or lead beyond the
// input. To be called by one thread at a time; registers once.
void RegisterGroupedMm();

}  // namespace stoker
