// Lists of ranks in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace::mesh {

// "rank 3", "ranks 0, 2 and 4 to 7" of ascending numbers.
std::string rank_list(const std::vector<int64_t>& ranks);

}  // namespace terrace::mesh
