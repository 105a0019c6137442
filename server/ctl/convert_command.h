// Writes a model.yaml from Triton's config.pbtxt: `stokerctl convert`.
#pragma once

namespace stoker {

class CommandLine;

void AddConvertCommand(CommandLine& line);

}  // namespace stoker
