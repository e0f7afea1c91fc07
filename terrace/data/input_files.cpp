// Finds inputs and detects formats by name.
#include "terrace/data/input_files.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/binary_files.h"
#include "terrace/data/folder_files.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

TextFormat format_of(const fs::path& path, FormatChoice choice) {
  if (choice == FormatChoice::plain) return TextFormat::plain;
  if (choice == FormatChoice::json_lines) return TextFormat::json_lines;
  if (choice == FormatChoice::parquet || (fs::is_regular_file(path) && is_parquet(path))) return TextFormat::parquet;
  fs::path name = path.filename();
  const std::string packed = name.extension();
  if (packed == ".gz" || packed == ".dz" || packed == ".zst") name = name.stem();
  const std::string extension = name.extension();
  if (extension == ".parquet") return TextFormat::parquet;
  const bool json = extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
  return json ? TextFormat::json_lines : TextFormat::plain;
}

// Returns whether the path is a pipe that this process has open: the shell opens one for /dev/stdin and <(COMMAND).
bool is_open_pipe(const fs::path& path) {
  if (!fs::is_fifo(path)) return false;
  const fs::path folder = path.parent_path();
  return path == "/dev/stdin" || folder == "/dev/fd" || folder == "/proc/self/fd";
}

const char* kind_of(fs::file_type type) {
  switch (type) {
    case fs::file_type::fifo:
      return "a named pipe";
    case fs::file_type::socket:
      return "a socket";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device";
    default:
      return "no regular file";
  }
}

void check_kind(const fs::path& path) {
  if (fs::is_regular_file(path) || is_open_pipe(path)) return;
  throw UserError::of(
      "input {} is {}; give files and folders, or text from another program as: PROGRAM | terrace data prepare "
      "/dev/stdin",
      path.string(), kind_of(fs::status(path).type()));
}

bool matches_any(const fs::path& in_folder, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    const fs::path shown = pattern.find('/') == std::string::npos ? in_folder.filename() : in_folder;
    return ::fnmatch(pattern.c_str(), shown.c_str(), 0) == 0;
  });
}

bool is_wanted(const fs::path& in_folder, const FilePatterns& patterns) {
  return (patterns.include.empty() || matches_any(in_folder, patterns.include)) &&
         !matches_any(in_folder, patterns.exclude);
}

// Returns a list of at most ten files: "a.png (a PNG picture), b.bin (bytes that are 0)".
std::string listed_files(const std::vector<std::pair<fs::path, std::string>>& files) {
  constexpr size_t most = 10;
  std::string text;
  for (size_t i = 0; i < std::min(files.size(), most); ++i) {
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", files[i].first.string(), files[i].second);
  }
  return text + (files.size() > most ? fmt::format(" and {} more", files.size() - most) : "");
}

// Returns the files of a folder or the file of a path. Throws UserError if there is none to read.
std::vector<fs::path> files_of(const std::string& path, const std::vector<fs::path>& excluded,
                               const FilePatterns& patterns) {
  if (!fs::exists(path)) throw UserError::of("input {} does not exist; name files and folders of text", path);
  if (!fs::is_directory(path)) {
    check_kind(path);
    return {path};
  }
  std::vector<fs::path> files = files_below(path);
  std::erase_if(files, [&](const fs::path& file) { return is_one_of(file, excluded); });
  if (files.empty()) throw UserError::of("folder {} holds no files", path);
  std::erase_if(files, [&](const fs::path& file) { return !is_wanted(file.lexically_relative(path), patterns); });
  if (files.empty()) {
    throw UserError::of("folder {} holds no file that --include and --exclude leave; a pattern is one such as '*.txt'",
                        path);
  }
  return files;
}

// Collects the files of all paths and what is wrong with them.
class InputSearch {
 public:
  explicit InputSearch(FormatChoice format) : format_(format) {}

  void add_path(const std::string& path, const std::vector<fs::path>& excluded, const FilePatterns& patterns) {
    note([&] {
      for (const fs::path& file : files_of(path, excluded, patterns)) {
        note([&] { add_file(file, fs::is_directory(path)); });
      }
    });
  }

  std::vector<InputFile> take() {
    if (!refused_.empty()) {
      problems_.push_back(fmt::format("not text: {}; leave {} out, or give --format text to take the bytes as they are",
                                      listed_files(refused_), refused_.size() == 1 ? "it" : "them"));
    }
    throw_problems(problems_, "problems with the input");
    if (!left_out_.empty()) {
      log_warning("left out {} that {} not text: {}; --format text takes the bytes as they are",
                  counted(left_out_.size(), "file"), plural(left_out_.size(), "is", "are"), listed_files(left_out_));
    }
    if (inputs_.empty() && !left_out_.empty()) throw UserError("the input holds no file of text");
    if (inputs_.empty()) throw UserError("no input files; name at least one file or folder");
    return std::move(inputs_);
  }

 private:
  using Reasons = std::vector<std::pair<fs::path, std::string>>;

  template <typename Part>
  void note(const Part& part) {
    try {
      part();
    } catch (const UserError& error) {
      problems_.emplace_back(error.what());
    }
  }

  void add_file(const fs::path& file, bool is_in_folder) {
    const TextFormat read_as = format_of(file, format_);
    const bool judged = format_ == FormatChoice::by_name && read_as != TextFormat::parquet && fs::is_regular_file(file);
    const std::string reason = judged ? why_not_text(file) : "";
    if (!reason.empty()) {
      (is_in_folder ? left_out_ : refused_).emplace_back(file, reason);
    } else {
      inputs_.push_back({file, read_as, fs::is_regular_file(file) ? fs::file_size(file) : 0});
    }
  }

  FormatChoice format_;
  std::vector<InputFile> inputs_;
  Reasons left_out_, refused_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<InputFile> find_input_files(const std::vector<std::string>& paths, FormatChoice format,
                                        const std::vector<fs::path>& excluded, const FilePatterns& patterns) {
  InputSearch search(format);
  for (const std::string& path : paths) search.add_path(path, excluded, patterns);
  return search.take();
}

std::string endings_text(const std::vector<InputFile>& files) {
  struct Ending {
    std::string name;
    uint64_t files = 0, bytes = 0;
  };
  std::vector<Ending> endings;
  uint64_t bytes = 0;
  for (const InputFile& file : files) {
    const std::string name = file.path.has_extension() ? file.path.extension().string() : "no ending";
    auto found = std::ranges::find(endings, name, &Ending::name);
    if (found == endings.end()) found = endings.insert(found, {.name = name});
    ++found->files;
    found->bytes += file.bytes;
    bytes += file.bytes;
  }
  if (endings.size() < 2 || bytes == 0) return "";
  std::ranges::stable_sort(endings, std::greater(), &Ending::bytes);
  constexpr size_t most = 8;
  std::string text;
  for (size_t i = 0; i < std::min(most, endings.size()); ++i) {
    const double percent = 100 * static_cast<double>(endings[i].bytes) / static_cast<double>(bytes);
    text += fmt::format("{}{} of {} ({:.0f}%)", i == 0 ? "" : ", ", endings[i].files, endings[i].name, percent);
  }
  return endings.size() > most ? fmt::format("{} and {} more endings", text, endings.size() - most) : text;
}

}  // namespace terrace::data
