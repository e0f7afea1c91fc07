// Expands a list of files and folders to input files, in an order that depends only on their names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace terrace::data {

enum class TextFormat { plain, json_lines, parquet };
enum class FormatChoice { by_name, plain, json_lines, parquet };

struct InputFile {
  std::filesystem::path path;
  TextFormat format = TextFormat::plain;
  uint64_t bytes = 0;  // on disk; 0 for pipes
};

// Patterns that choose the files of folders: taken are those that match any pattern of `include`, if there are any, and
// none of `exclude`. A pattern of the shell, such as "*.txt", is matched with the file's name, and one with a slash,
// such as "src/*.md", with the path in the folder, where * matches slashes too.
struct FilePatterns {
  std::vector<std::string> include = {}, exclude = {};
};

// Folders are searched recursively, sorted by name; names that start with a dot and `excluded` are left out. With
// FormatChoice::by_name files that are not text are left out of folders with a warning that names them, and refused
// where they are named themselves. Files named .jsonl, .ndjson or .json (before .gz, .dz or .zst) are JSON lines, files
// named .parquet or with Parquet's first bytes are Parquet, all others plain text. A pipe is read only if it is already
// open: /dev/stdin, /dev/fd/N. Throws UserError for a path that does not exist or is neither file nor folder (a named
// pipe without a writer would never end), and where no file is found.
std::vector<InputFile> find_input_files(const std::vector<std::string>& paths, FormatChoice format,
                                        const std::vector<std::filesystem::path>& excluded = {},
                                        const FilePatterns& patterns = {});

// Returns the endings of the names with their shares of the bytes, the largest share first: "33 of .md (86%), 6 of .svg
// (14%)". Returns "" where all names have the same ending.
std::string endings_text(const std::vector<InputFile>& files);

}  // namespace terrace::data
