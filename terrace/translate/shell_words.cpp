// Reads one letter after the other and knows whether it is quoted.
#include "terrace/translate/shell_words.h"

#include <algorithm>
#include <cctype>

#include "terrace/base/error.h"
#include "terrace/config/domain.h"

namespace terrace::translate {
namespace {

bool is_blank(char letter) { return std::isspace(static_cast<unsigned char>(letter)) != 0; }
bool is_name(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_'; }

class WordReader {
 public:
  WordReader(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  std::vector<std::string> words() {
    while (at_ < text_.size() && !ended_) read_letter();
    end_word();
    if (!unknown_.empty()) {
      throw UserError::of("{} has values that only your shell knows: {}; write the values in their places", source_,
                          config::listed(unknown_, "and"));
    }
    return words_;
  }

 private:
  void read_letter() {
    const char letter = text_[at_];
    if (is_blank(letter)) {
      end_word();
      ++at_;
    } else if (letter == '#' && !in_word_) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (letter == '\'') {
      const size_t end = partner(letter);
      add(text_.substr(at_ + 1, end - at_ - 1));
      at_ = end + 1;
    } else if (letter == '"') {
      read_quoted();
    } else if (letter == '\\') {
      read_escaped();
    } else if (letter == '$' || letter == '`') {
      read_unknown();
    } else if (std::string_view("|;&<>").find(letter) != std::string_view::npos) {
      end_command(letter);
    } else {
      add(text_.substr(at_++, 1));
    }
  }

  // Text between double quotation marks, in which backslashes and dollars keep their meaning.
  void read_quoted() {
    const size_t end = partner('"');
    in_word_ = true;
    for (++at_; at_ < end;) {
      const char letter = text_[at_];
      const bool escapes =
          letter == '\\' && std::string_view("\"\\$`\n").find(text_[at_ + 1]) != std::string_view::npos;
      if (escapes) {
        read_escaped();
      } else if (letter == '$' || letter == '`') {
        read_unknown();
      } else {
        add(text_.substr(at_++, 1));
      }
    }
    at_ = end + 1;
  }

  // A line break after a backslash continues the line.
  void read_escaped() {
    ++at_;
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ == text_.size()) return;
    if (text_[at_] != '\n') {
      add(text_.substr(at_, 1));
    }
    ++at_;
  }

  // Notes what stands at a dollar or a backquote: $NAME, ${NAME[@]}, $(command) or `command`.
  void read_unknown() {
    const std::string_view rest = text_.substr(at_);
    size_t length = 1;
    if (rest.starts_with("${")) {
      length = rest.find('}') == std::string_view::npos ? rest.size() : rest.find('}') + 1;
    } else if (rest.starts_with("$(")) {
      length = rest.find(')') == std::string_view::npos ? rest.size() : rest.find(')') + 1;
    } else if (rest.front() == '`') {
      length = rest.find('`', 1) == std::string_view::npos ? rest.size() : rest.find('`', 1) + 1;
    } else {
      while (length < rest.size() && is_name(rest[length])) ++length;
    }
    const std::string name(rest.substr(0, length));
    if (name == "$") {
      add(name);  // a dollar that begins no name is itself
    } else if (std::ranges::find(unknown_, name) == unknown_.end()) {
      unknown_.push_back(name);
    }
    in_word_ = true;
    at_ += length;
  }

  // The number before a redirection, as in 2>&1, belongs to it.
  void end_command(char letter) {
    const bool redirects = letter == '<' || letter == '>';
    if (redirects && std::ranges::all_of(word_, [](unsigned char digit) { return std::isdigit(digit) != 0; })) {
      word_.clear();
      in_word_ = false;
    }
    ended_ = true;
  }

  // Where the quotation that begins here ends.
  size_t partner(char mark) const {
    for (size_t end = at_ + 1; end < text_.size(); ++end) {
      if (mark == '"' && text_[end] == '\\') {
        ++end;
      } else if (text_[end] == mark) {
        return end;
      }
    }
    throw UserError::of(
        "{}: the quotation mark {} before {} has no partner; close it, or write \\{} for the mark itself", source_,
        mark, config::toml_text(text_.substr(at_ + 1, 20)), mark);
  }

  void add(std::string_view letters) {
    word_ += letters;
    in_word_ = true;
  }
  void end_word() {
    if (in_word_) words_.push_back(word_);
    word_.clear();
    in_word_ = false;
  }

  std::string_view text_, source_;
  size_t at_ = 0;
  std::string word_;
  bool in_word_ = false, ended_ = false;
  std::vector<std::string> words_, unknown_;
};

}  // namespace

std::vector<std::string> shell_words(std::string_view text, std::string_view source) {
  return WordReader(text, source).words();
}

}  // namespace terrace::translate
