// study.txt in a search's folder says what its trials depend on beside the values of the parameters: the objective, the
// configuration, the machine and the derived numbers.
#pragma once

#include <filesystem>

#include "terrace/search/study.h"

namespace terrace::search {

void write_record(const std::filesystem::path& folder, const Study& study);
// Throws UserError with the first line that differs. A folder without a record passes.
void check_record(const std::filesystem::path& folder, const Study& study);

}  // namespace terrace::search
