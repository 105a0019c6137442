// The other side of models/first_run.h: `stokerd first-run
// [--operator-library=NAME=FILE]... PROGRAM THREADS [FOLDER...]`, started by
// the daemon itself.
#pragma once

namespace stoker {

// Opens each artifact with the program's weights, runs it once on zeros, and
// writes a line to descriptor 3 when it is over, however it went: what is wrong
// with an artifact that doesn't end the process is for the daemon to find.
// Without any, the same with the eager form, on the inputs in the tensor file
// that comes on standard input.
// Returns the exit code; 2 for arguments that are none.
int FirstRunChild(int argc, char** argv);

}  // namespace stoker
