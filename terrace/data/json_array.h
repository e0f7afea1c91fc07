// Reads the elements of a JSON array as lines of JSON.
#pragma once

#include <filesystem>
#include <memory>

#include "terrace/data/byte_source.h"

namespace terrace::data {

// Returns a source with a line for each element of the array, in which line ends between tokens are blanks, if the
// first byte of `source` that is no blank is "["; otherwise a source with the same bytes. Throws UserError that names
// the file where the array does not end.
std::unique_ptr<ByteSource> elements_as_lines(std::unique_ptr<ByteSource> source, const std::filesystem::path& path);

}  // namespace terrace::data
