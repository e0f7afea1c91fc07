// Parses JSON by events, so that only one string is kept and no tree is built.
#include "terrace/data/text/json_lines.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "terrace/base/text/json.h"

namespace terrace::data {
namespace {

class FieldReader : public nlohmann::json_sax<Json> {
 public:
  FieldReader(std::string_view field, std::string& text) : field_(field), text_(text) {
    for (size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
      end = field.find('.', begin);
      steps_.push_back(field.substr(begin, end == std::string_view::npos ? end : end - begin));
    }
  }

  bool found() const { return found_; }
  const std::string& error() const { return error_; }

  bool null() override { return other_value("null"); }
  bool boolean(bool) override { return other_value("a boolean"); }
  bool number_integer(number_integer_t) override { return other_value("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other_value("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other_value("a number"); }
  bool binary(binary_t&) override { return other_value("binary"); }
  bool start_array(std::size_t) override { return other_value("an array") && ++depth_ > 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool start_object(std::size_t) override {
    const bool on_path = on_path_;
    if (depth_ > 0 && !other_value("an object")) return false;
    if (on_path) ++entered_;
    return ++depth_ > 0;
  }
  bool end_object() override {
    if (entered_ > 0 && depth_ == entered_ + 1) --entered_;
    return --depth_ >= 0;
  }

  bool key(string_t& name) override {
    // The objects of the path lie directly in each other, so the innermost one entered has this depth.
    const bool is_next = depth_ == entered_ + 1 && name == steps_[static_cast<size_t>(entered_)];
    const bool is_last = static_cast<size_t>(entered_) + 1 == steps_.size();
    wanted_ = (is_next && is_last) || (depth_ == 1 && name == field_);
    on_path_ = is_next && !is_last;
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ == 0) return other_value("a string");
    if (wanted_) {
      text_ = std::move(value);
      found_ = true;
    }
    wanted_ = on_path_ = false;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& problem) override {
    // The library's message repeats the position and its own error number in brackets.
    const std::string what = problem.what();
    const size_t reason = what.find(": ");
    error_ =
        fmt::format("not JSON at byte {}: {}", position, reason == std::string::npos ? what : what.substr(reason + 2));
    return false;
  }

 private:
  bool other_value(std::string_view kind) {
    if (depth_ == 0) error_ = fmt::format("{} instead of an object", kind);
    if (wanted_) error_ = fmt::format("field \"{}\" is {} instead of a string", field_, kind);
    on_path_ = false;
    return error_.empty();
  }

  std::string_view field_;
  std::vector<std::string_view> steps_;  // of "meta.text": "meta" and "text"
  int64_t entered_ = 0;                  // the objects of these steps that are open
  bool on_path_ = false;                 // the value of the last key is the next of these objects
  std::string& text_;
  std::string error_;
  int64_t depth_ = 0;
  bool wanted_ = false;
  bool found_ = false;
};

}  // namespace

namespace {

std::optional<std::string> problem_of(std::string_view line, std::string_view field, std::string& text) {
  FieldReader reader(field, text);
  const bool whole = Json::sax_parse(line, &reader);
  if (!reader.error().empty()) return reader.error();
  if (!whole) return "not JSON";
  if (!reader.found()) return fmt::format("no field \"{}\"", field);
  return std::nullopt;
}

// Returns the line with other numbers of the same length for NaN, Infinity and -Infinity, which JSON does not have and
// Python and JavaScript's libraries write; nothing where there are none.
std::optional<std::string> with_finite_numbers(std::string_view line) {
  std::optional<std::string> changed;
  bool in_string = false;
  char before = '\0';  // the last byte that is no blank
  for (size_t at = 0; at < line.size(); ++at) {
    const char here = line[at];
    if (in_string) {
      if (here == '\\') ++at;
      in_string = here != '"';
      continue;
    }
    in_string = here == '"';
    const bool is_value = before == ':' || before == ',' || before == '[';
    for (std::string_view word : {"NaN", "-NaN", "Infinity", "-Infinity"}) {
      const size_t end = at + word.size();
      if (!is_value || !line.substr(at).starts_with(word)) continue;
      if (end < line.size() && std::string_view(" \t\r,]}").find(line[end]) == std::string_view::npos) continue;
      if (!changed) changed = line;
      changed->replace(at, word.size(), "0" + std::string(word.size() - 1, ' '));
      at = end - 1;
      break;
    }
    if (here != ' ' && here != '\t' && here != '\r') before = here;
  }
  return changed;
}

}  // namespace

std::optional<std::string> extract_text(std::string_view line, std::string_view field, std::string& text) {
  const std::optional<std::string> problem = problem_of(line, field, text);
  if (!problem) return std::nullopt;
  // Only a line that has a problem is searched for them.
  const std::optional<std::string> finite = with_finite_numbers(line);
  return finite ? problem_of(*finite, field, text) : problem;
}

}  // namespace terrace::data
