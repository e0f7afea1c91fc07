// Goes through the lines of a help text by what they are: rows of a table, commands, or sentences.
#include "cli/help_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

namespace terrace::cli {
namespace {

constexpr size_t least_columns = 40;
constexpr size_t description_column = 30;  // CLI11's default, at which descriptions of flags begin

size_t columns_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// The words between spaces; with `quoted` a part in double quotes is not divided.
std::vector<std::string> words_of(const std::string& text, bool quoted) {
  std::vector<std::string> words;
  std::string word;
  bool in_quotes = false;
  for (const char c : text) {
    if (c == '"') in_quotes = quoted && !in_quotes;
    if (c != ' ' || in_quotes) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

// Lines of at most `width` columns, of which all but the first begin with `prefix`. Each that another follows
// ends with `joint`.
std::string filled(std::string line, const std::vector<std::string>& words, const std::string& prefix, size_t width,
                   const std::string& joint = "") {
  std::string text;
  bool is_empty = true;  // nothing stands behind the indentation
  for (const std::string& word : words) {
    const size_t gap = is_empty ? 0 : 1;
    if (!is_empty && columns_of(line) + gap + columns_of(word) + joint.size() > width) {
      text += line + joint + "\n";
      line = prefix + word;
    } else {
      line += std::string(gap, ' ') + word;
    }
    is_empty = false;
  }
  return text + line + "\n";
}

size_t leading_spaces(const std::string& line) { return std::min(line.size(), line.find_first_not_of(' ')); }

// "  --set TEXT ...             Replace one key: ..", and a line with the description alone.
std::string wrapped_row(const std::string& line, size_t width) {
  const size_t indent = width >= 2 * description_column ? description_column : 6;
  const bool has_column =
      line.size() > description_column && line[description_column - 1] == ' ' && line[description_column] != ' ';
  const std::string prefix(indent, ' ');
  if (!has_column) return filled(std::string(leading_spaces(line), ' '), words_of(line, false), prefix, width);
  const std::string name = line.substr(0, description_column);
  const std::vector<std::string> words = words_of(line.substr(description_column), false);
  if (indent == description_column) return filled(name, words, prefix, width);
  return name.substr(0, name.find_last_not_of(' ') + 1) + "\n" + filled(prefix, words, prefix, width);
}

bool is_table(const std::string& heading) {
  return heading == "Positionals:" || heading == "Options:" || heading == "Subcommands:";
}

// Whether the next line goes on with the sentence of this one.
bool goes_on(const std::string& line, const std::string& next) {
  return !line.empty() && !next.empty() && line.front() != ' ' && next.front() != ' ' && line.back() != '.' &&
         line.back() != ':' && !is_table(next);
}

class WrappedHelp : public CLI::Formatter {
 public:
  explicit WrappedHelp(size_t width) : width_(width) {}
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    const std::string help = CLI::Formatter::make_help(app, std::move(name), mode);
    return width_ == 0 ? help : wrapped_help(help, width_);
  }

 private:
  size_t width_;
};

}  // namespace

std::string wrapped_help(const std::string& help, size_t width) {
  width = std::max(width, least_columns);
  std::vector<std::string> lines;
  std::istringstream stream(help);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::string text;
  bool in_table = false, is_command = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string line = lines[i];
    in_table = line.empty() ? false : in_table || is_table(line);
    const std::string indent(leading_spaces(line), ' ');
    const bool is_comment = line.starts_with("  # ");
    if (columns_of(line) <= width) {
      text += line + "\n";
    } else if (in_table) {
      text += wrapped_row(line, width);
    } else if (is_comment) {
      text += filled("  # ", words_of(line.substr(4), false), "  # ", width);
    } else if (is_command) {
      text += filled(indent, words_of(line, true), indent + "    ", width, " \\");
    } else if (!indent.empty()) {
      text += filled(indent, words_of(line, false), indent, width);
    } else {
      while (i + 1 < lines.size() && goes_on(lines[i], lines[i + 1])) line += " " + lines[++i];
      text += filled("", words_of(line, false), "", width);
    }
    is_command = is_comment;
  }
  return text;
}

size_t output_columns() {
  if (::isatty(STDOUT_FILENO) == 0) return 0;
  const char* given = std::getenv("COLUMNS");
  const long columns = given == nullptr ? 0 : std::strtol(given, nullptr, 10);
  if (columns > 0) return static_cast<size_t>(columns);
  winsize size = {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::shared_ptr<CLI::FormatterBase> help_formatter(size_t width) { return std::make_shared<WrappedHelp>(width); }

}  // namespace terrace::cli
