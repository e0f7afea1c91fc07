// Lists of cores as the kernel writes them.
#pragma once

#include <string>

#include "terrace/base/system/cores.h"

namespace terrace {

// The cores of a list such as "0-7,64-71", up to the first character that is no part of one.
CoreMask cores_of_list(const std::string& list);

// The list of these cores, such as "1-7,9"; "" of none.
std::string list_of_cores(const CoreMask& cores);

}  // namespace terrace
