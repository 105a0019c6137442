// Kernels of torch's own that no arguments can lead astray.
#pragma once

namespace stoker {

// Some kernels of torch 2.11 trap, read memory that isn't theirs or answer with
// it (tests/faults/operator_hunt.py finds them). From here on, on CPUs, in the
// whole process:
//
//   lcm               of the least integer and -1 wraps around, as compiled
//                     code does (compiler/guards/insertion.py)
//   median, nanmedian along a dimension of an expanded tensor answer what they
//                     answer of its copy
//   group norm        takes weights of any strides, and refuses those of other
//                     sizes
//   batch norms       refuse weights and statistics of other sizes
//   _fft_*            refuse dimensions that there are not
//   flash attention   refuses keys and values that don't fit the queries
//   _upsample_bilinear2d_aa  takes inputs of any strides
//
// To be called before the first run of a model; calling it again does nothing.
void CheckKernelsArguments();

}  // namespace stoker
