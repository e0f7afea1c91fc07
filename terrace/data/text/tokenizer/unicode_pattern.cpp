// Matches with PCRE2, which has the Unicode classes.
#include "terrace/data/text/tokenizer/unicode_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "terrace/base/error.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

// Unicode's White_Space. PCRE2's own \s has U+180E too, which is none since Unicode 6.3.
constexpr std::string_view spaces =
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";

// The expression with \s and \S spelled out, where PCRE2 has a way to.
std::string with_spaces(std::string_view expression) {
  std::string text;
  bool in_class = false;
  for (size_t at = 0; at < expression.size(); ++at) {
    const char here = expression[at];
    if (here == '\\' && at + 1 < expression.size()) {
      const char next = expression[++at];
      if (next == 's') {
        text += in_class ? std::string(spaces) : fmt::format("[{}]", spaces);
      } else if (next == 'S' && !in_class) {
        text += fmt::format("[^{}]", spaces);
      } else {
        text += here;
        text += next;
      }
      continue;
    }
    if (here == '[' && !in_class)
      in_class = true;
    else if (here == ']' && in_class)
      in_class = false;
    text += here;
  }
  return text;
}

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

UnicodePattern::UnicodePattern(const std::string& expression, const std::string& file_name) {
  if (expression.find("&&") != std::string::npos) {
    throw UserError::of("{}: the expression {} intersects classes with &&, which is not supported", file_name,
                        expression);
  }
  const std::string text = with_spaces(expression);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &offset, nullptr);
  if (code == nullptr) {
    throw UserError::of("{}: {} is no regular expression that can be used: {}", file_name, expression,
                        message_of(error));
  }
  code_ = std::shared_ptr<const pcre2_code>(
      code, [](const pcre2_code* one) { pcre2_code_free(const_cast<pcre2_code*>(one)); });
  // Without a just-in-time compiler matching is slower and gives the same results.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

UnicodePattern::Matcher::Matcher(const UnicodePattern& pattern)
    : code_(pattern.code_), found_(pcre2_match_data_create_from_pattern(code_.get(), nullptr), pcre2_match_data_free) {}

void UnicodePattern::Matcher::split(std::string_view text, const std::function<void(std::string_view)>& piece) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t done = 0;  // all before it is in a piece
  for (size_t from = 0; from < text.size();) {
    const int count = pcre2_match(code_.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK, found_.get(), nullptr);
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0) throw UserError::of("the tokenizer's expression cannot be matched: {}", message_of(count));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(found_.get());
    const size_t begin = ends[0], end = ends[1];
    if (end <= begin) {  // an empty match: the next may begin one character on
      from = begin + std::max<size_t>(1, character_length(text.substr(begin)));
      continue;
    }
    if (begin > done) piece(text.substr(done, begin - done));
    piece(text.substr(begin, end - begin));
    done = from = end;
  }
  if (done < text.size()) piece(text.substr(done));
}

}  // namespace terrace::data
