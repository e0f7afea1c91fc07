// study.txt in a search's folder says what its trials depend on beside the values of the parameters: the objective, the
// configuration, the machine and the derived numbers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "terrace/search/study/study.h"

namespace terrace::search {

void write_record(const std::filesystem::path& folder, const Study& study);
// Throws UserError with the first line that differs. A folder without a record passes.
void check_record(const std::filesystem::path& folder, const Study& study);

// Lines that say what a search looks for: the record, the method, the parameters and the constraints. Workers on the
// same trials have the same lines.
std::vector<std::string> identity_of(const Study& study);

}  // namespace terrace::search
