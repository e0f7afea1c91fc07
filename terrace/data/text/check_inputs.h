// Looks at the beginning of every input file, so that all bad ones are named before hours of encoding.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "terrace/data/text/text_blocks.h"

namespace terrace::data {

// The number of malformed lines that a message shows.
inline constexpr size_t malformed_shown = 10;

[[noreturn]] void throw_malformed(uint64_t count, uint64_t allowed, const std::vector<MalformedLine>& first);

// Throws UserError with all files that cannot be read, such as Parquet without the column of rules.field, or with the
// first malformed lines of every file if there are more than `max_malformed` at the beginnings of the files. Reads
// regular files of JSON and Parquet only. `check_stop` is called for each of them and may throw.
void check_inputs(const std::vector<InputFile>& files, const BlockRules& rules, uint64_t max_malformed,
                  const std::function<void()>& check_stop);

}  // namespace terrace::data
