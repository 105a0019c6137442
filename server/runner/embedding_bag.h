// Embedding bags of torch's own kernels that no offset can lead astray.
#pragma once

namespace stoker {

// Torch 2.11 looks at the first and the last offset of an embedding bag only: a
// negative one between them reads memory before the indices. From here on
// offsets that don't begin with 0, that decrease or that pass the indices are
// an exception on CPUs, in the whole process, as they are for compiled code
// (compiler/guards/insertion.py).
//
// To be called before the first run of a model; calling it again does nothing.
void MakeEmbeddingBagsSafe();

}  // namespace stoker
