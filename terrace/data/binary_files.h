// Recognises files that are not text by their first bytes.
#pragma once

#include <filesystem>
#include <string>

namespace terrace::data {

// Returns what the file is instead of text, such as "a PNG picture"; "" for text. Compressed files are judged by their
// content. Throws as open_bytes() does.
std::string why_not_text(const std::filesystem::path& path);

// Returns whether the file has Parquet's first bytes; false where it cannot be read.
bool is_parquet(const std::filesystem::path& path);

}  // namespace terrace::data
