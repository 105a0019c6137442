// torchvision's operators that detectors call, for CPUs: torchvision's own
// library needs Python.
//
//   nms             suppresses boxes that overlap one of a higher score
//   roi_align       averages of bilinear samples in parts of a box (He et al.,
//                   Mask R-CNN, 2017)
//   deform_conv2d   a convolution that samples where it is told (Dai et al.,
//                   Deformable Convolutional Networks, 2017; with a mask: Zhu
//                   et al., Deformable ConvNets v2, 2018)
//
// They answer what torchvision's do, for FP32 and FP64, and refuse shapes that
// those refuse. Further they refuse a box of a row that there is not, and one
// so large that averaging it would take for ever.
#pragma once

namespace stoker {

// Registers them with torch as torchvision.*, under the schemas of torchvision
// 0.26. To be called before a program is opened; calling it again does nothing.
// The same operators as server/program/program_check.cc allows.
void RegisterVisionOperators();

}  // namespace stoker
