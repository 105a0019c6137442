// Loads and unloads models of a running daemon: `stokerctl model`.
#pragma once

namespace stoker {

class CommandLine;

void AddModelCommands(CommandLine& line);

}  // namespace stoker
