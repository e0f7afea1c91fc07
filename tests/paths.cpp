// The paths that the build gives to the tests.
#include "tests/paths.h"

namespace terrace::tests {

std::filesystem::path source_dir() { return TERRACE_SOURCE_DIR; }

std::string python() { return TERRACE_PYTHON; }

std::filesystem::path transformers5() {
  return std::filesystem::path(python()).parent_path().parent_path() / "transformers5";
}

}  // namespace terrace::tests
