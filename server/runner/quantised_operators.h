// What programs call that were quantised by PT2E (torch.ao or torchao):
// quantized_decomposed::*, which torch registers from Python. Private to this
// room.
#pragma once

namespace stoker {

// Makes numbers small integers, and takes them back, with scales and zero
// points of a whole tensor, of a channel, of a token (the last axis) or of a
// group of the last axis:
//
//   quantize_per_tensor, dequantize_per_tensor  (also .tensor, .tensor2)
//   quantize_per_channel, dequantize_per_channel
//   quantize_per_token, dequantize_per_token
//   quantize_per_channel_group, dequantize_per_channel_group
//   choose_qparams.tensor, choose_qparams_symmetric.tensor
//   choose_qparams_per_token, choose_qparams_per_token_asymmetric
//
// Step by step what torch 2.11's Python does
// (torch/ao/quantization/fx/_decomposed.py), so that answers are the same bit
// for bit; refuses what that refuses. To be called by one thread at a time;
// registers once.
void RegisterQuantisedOperators();

}  // namespace stoker
