// Where the kernel cache is unless somebody says otherwise.
#pragma once

#include <string>

namespace stoker {

// $XDG_CACHE_HOME/stoker/kernels, else ~/.cache/stoker/kernels.
std::string DefaultCacheFolder();

}  // namespace stoker
