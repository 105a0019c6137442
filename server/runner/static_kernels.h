// Torch's interpreter without the kernels of its own. Private to this room.
#pragma once

namespace stoker {

// Torch 2.11's nativert runs about two hundred operators through kernels of its
// own instead of the dispatcher's. The one of aten.mul.Scalar lays its result
// out like its input and then writes it densely: for a slice, a strided view or
// an expanded tensor that is a wrong answer, or a write outside of the result.
// From here on every program that is opened in this process runs what eager
// PyTorch runs.
//
// To be called before the first program is opened; calling it again does
// nothing. Throws c10::Error when torch has no such kernels, or has them
// elsewhere: another version needs another look.
void UseDispatchedKernelsOnly();

}  // namespace stoker
