// The files that a list of files and folders stands for, in an order that depends on their names alone.
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

// Folders are searched with all below them, sorted by name; names that start with a dot and `excluded` are left out.
// By name, .jsonl, .ndjson and .json (before .gz, .dz or .zst) are JSON lines and all else is plain text. A pipe is
// read where it is open already: /dev/stdin, /dev/fd/N. Throws UserError for a path that does not exist, for one that
// is no file or folder (a named pipe without a writer would never end), and where no file is found.
std::vector<InputFile> find_input_files(const std::vector<std::string>& paths, FormatChoice format,
                                        const std::vector<std::filesystem::path>& excluded = {});

}  // namespace terrace::data
