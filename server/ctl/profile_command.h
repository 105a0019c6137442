// stokerctl profile: a timeline of what a running daemon does.
#pragma once

namespace stoker {

class CommandLine;

void AddProfileCommand(CommandLine& line);

}  // namespace stoker
