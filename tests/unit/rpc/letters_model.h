// A model whose clients have BYTES, and requests for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rpc/append_bytes_element.h"
#include "tests/unit/rpc/codec_fixtures.h"

namespace stoker {

// As they lie on the wire.
inline std::string Elements(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) AppendBytesElement(text, bytes);
  return bytes;
}

// letters: text UINT8 [batch,n 2..64], other alike, code UINT8
// [batch,4]; at most 8 rows.
inline ModelSpec Letters() {
  ModelSpec spec;
  spec.name = "letters";
  spec.dimensions = {{"batch", "s0", 1, 64, true}, {"n", "s1", 2, 64, true}};
  const DimExpr batch = DimExpr::Dimension(0), n = DimExpr::Dimension(1);
  spec.inputs = {{"text", DataType::kUint8, {batch, n}, 0, {}},
                 {"other", DataType::kUint8, {batch, n}, '.', {}},
                 {"code", DataType::kUint8, {batch, DimExpr::Constant(4)}}};
  for (InputSpec& input : spec.inputs) input.is_bytes = true;
  spec.inputs[2].reshape = {{-1, 1}, {-1}};
  spec.batch_dimension = 0;
  spec.max_batch_size = 8;
  return spec;
}

inline inference::ModelInferRequest LettersRequest(
    const std::vector<std::string>& text, const std::vector<std::string>& other,
    const std::vector<std::string>& code) {
  inference::ModelInferRequest request;
  AddInput(request, "text", "BYTES", {static_cast<int64_t>(text.size())});
  AddInput(request, "other", "BYTES", {static_cast<int64_t>(other.size())});
  AddInput(request, "code", "BYTES", {static_cast<int64_t>(code.size()), 1});
  for (const auto* texts : {&text, &other, &code}) {
    request.add_raw_input_contents(Elements(*texts));
  }
  return request;
}

}  // namespace stoker
