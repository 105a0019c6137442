// The other side of models/isolated_eager.h: `stokerd isolated-runs
// [--operator-library=NAME=FILE]... PROGRAM`, started by the daemon itself.
#pragma once

namespace stoker {

// Opens the program's eager form, then answers requests from standard input on
// descriptor 3, each from a child that is forked for it. Returns the exit code
// when there are no more requests; 2 for arguments that are none.
int IsolatedRuns(int argc, char** argv);

}  // namespace stoker
