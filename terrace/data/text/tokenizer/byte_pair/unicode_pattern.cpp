// Matches with PCRE2, which has the Unicode classes.
#include "terrace/data/text/tokenizer/byte_pair/unicode_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "terrace/base/error.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

// Unicode's White_Space. PCRE2's own \s has U+180E too, which is none since Unicode 6.3.
constexpr std::string_view spaces =
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";

// Characters of a word: the binary property Alphabetic, which older versions of PCRE2 lack, by its categories and the
// letters in circles and squares, and marks, digits and connectors.
constexpr std::string_view word_characters =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{"
    "1F189}";

// Returns what an escape of Oniguruma is in PCRE2, where the two differ; `rest` begins behind the backslash, and the
// bytes that are used are removed from it.
std::string translated_escape(std::string_view& rest, bool in_class) {
  const char kind = rest.front();
  rest.remove_prefix(1);
  const auto set = [&](std::string_view characters) {
    return in_class ? std::string(characters) : fmt::format("[{}]", characters);
  };
  if (kind == 's') return set(spaces);
  if (kind == 'w') return set(word_characters);
  if (kind == 'h') return set("0-9A-Fa-f");
  if (kind == 'S' && !in_class) return fmt::format("[^{}]", spaces);
  if (kind == 'W' && !in_class) return fmt::format("[^{}]", word_characters);
  if (kind == 'u' && rest.size() >= 4) {
    const std::string code(rest.substr(0, 4));
    rest.remove_prefix(4);
    return "\\x{" + code + "}";
  }
  return std::string("\\") + kind;
}

// Returns the expression, which the tokenizers package gives to Oniguruma, as PCRE2 understands it. Throws UserError
// for what only Oniguruma has.
std::string translated(std::string_view expression, const std::string& file_name) {
  const auto refuse = [&](std::string_view what) {
    return UserError::of("{}: the expression {} has {}, which is not supported", file_name, expression, what);
  };
  if (expression.find("&&") != std::string_view::npos) throw refuse("an intersection of classes, &&");
  if (expression.find("(?m") != std::string_view::npos) throw refuse("the option (?m)");
  std::string text;
  bool in_class = false;
  for (std::string_view rest = expression; !rest.empty();) {
    const char here = rest.front();
    rest.remove_prefix(1);
    if (here == '\\' && !rest.empty()) {
      text += translated_escape(rest, in_class);
      continue;
    }
    text += here;
    if (in_class && here == '[') {
      const size_t end = rest.starts_with(':') ? rest.find(":]") : std::string_view::npos;
      if (end == std::string_view::npos) throw refuse("a class within a class");
      text += rest.substr(0, end + 2);  // such as [:alpha:]
      rest.remove_prefix(end + 2);
    } else if (in_class && here == ']') {
      in_class = false;
    } else if (!in_class && here == '[') {
      in_class = true;
      for (const char first : {'^', ']'}) {  // a bracket that comes first is a character
        if (!rest.starts_with(first)) continue;
        text += first;
        rest.remove_prefix(1);
      }
    }
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
  const std::string text = translated(expression, file_name);
  int error = 0;
  // In Oniguruma ^ and $ always are the ends of lines.
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, nullptr);
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

std::optional<UnicodePattern::Matcher::Match> UnicodePattern::Matcher::next(std::string_view text, size_t from) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  while (from < text.size()) {
    const int count = pcre2_match(code_.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK, found_.get(), nullptr);
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0) throw UserError::of("the tokenizer's expression cannot be matched: {}", message_of(count));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(found_.get());
    if (ends[1] > ends[0]) return Match{.begin = ends[0], .end = ends[1]};
    // Behind an empty match, the next one may begin one character on.
    from = ends[0] + std::max<size_t>(1, character_length(text.substr(std::min(ends[0], text.size()))));
  }
  return std::nullopt;
}

}  // namespace terrace::data
