// Policies: what one allows, and hashes of tokens for it: `stokerctl policy`.
#pragma once

namespace stoker {

class CommandLine;

void AddPolicyCommands(CommandLine& line);

}  // namespace stoker
