// How many parts a serialised inference.ModelInferRequest has, before anything
// is built of them: generated code takes a hundred bytes and a microsecond for
// an input of two bytes.
//
// Thread-safe: pure functions.
#pragma once

#include <google/protobuf/io/coded_stream.h>

namespace stoker {

// Whether there are at most `most` of them: texts, inputs, outputs, parameters,
// tensors and elements that are texts, at any depth. Looks at no more than that
// many. What is no such message is for others to judge.
bool HasAtMostFields(google::protobuf::io::CodedInputStream& in, int most);

}  // namespace stoker
