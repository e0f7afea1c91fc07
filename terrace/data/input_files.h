// Expands a list of files and folders to input files, in an order that depends only on their names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace terrace::data {

enum class TextFormat { plain, json_lines };
enum class FormatChoice { by_name, plain, json_lines };

struct InputFile {
  std::filesystem::path path;
  TextFormat format = TextFormat::plain;
  uint64_t bytes = 0;  // on disk; 0 for pipes
};

// Folders are searched recursively, sorted by name; names that start with a dot and `excluded` are left out. Files
// named .jsonl, .ndjson or .json (before .gz, .dz or .zst) are JSON lines, all others plain text. A pipe is read only
// if it is already open: /dev/stdin, /dev/fd/N. Throws UserError for a path that does not exist or is neither file nor
// folder (a named pipe without a writer would never end), and where no file is found.
std::vector<InputFile> find_input_files(const std::vector<std::string>& paths, FormatChoice format,
                                        const std::vector<std::filesystem::path>& excluded = {});

}  // namespace terrace::data
