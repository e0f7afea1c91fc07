// Holds the version that the build defines.
#include "terrace/base/version.h"

namespace terrace {

std::string_view version() { return TERRACE_VERSION; }

}  // namespace terrace
