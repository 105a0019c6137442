// A program for another device than it was exported on: torch 2.11's nativert
// runs every operator where the graph says, and has no way to say otherwise.
// Private to this room.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "nlohmann/json_fwd.hpp"
#include "program/program_archive.h"
#include "tensor/device.h"

namespace stoker {

// Every device in the JSON, {"type": "cpu" or "cuda", "index": ...}, becomes
// `device`, the processor or a GPU by index: of values, of the operators'
// arguments, of stored tensors.
void MoveDevices(nlohmann::json& value, const Device& device);

// Operators that make a tensor from none, on the processor unless told
// otherwise (arange, zeros, full), are told `device` where they name none. As
// compiler/specialise/moved.py does for compiled code.
void PlaceFactories(nlohmann::json& program, const Device& device);

// The archive with its graph, wrappers inlined, and its tensors' configurations
// moved to `device`, its weights byte by byte as they are, in an anonymous file
// in memory (runner/program_writer.h). Whoever has read it lets it go: as long
// as it is there, it is one more copy of the weights on the host.
// RESOURCE_EXHAUSTED when there is no memory for it.
absl::StatusOr<FileDescriptor> WriteDeviceProgram(const ProgramArchive& archive,
                                                  const Device& device);

// Lets go of the memory behind it, whoever still has it open.
void EmptyDeviceProgram(const FileDescriptor& program);

}  // namespace stoker
