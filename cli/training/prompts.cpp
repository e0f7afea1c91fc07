// Reads and encodes prompts, and reports every line that cannot be used.
#include "cli/training/prompts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <iterator>
#include <sstream>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/byte_order_mark.h"
#include "terrace/generate/generate.h"

namespace terrace::cli {
namespace {

std::string name_of_file(const std::string& file) { return file == "-" ? "standard input" : file; }

// The text without a mark of UTF-8, which is no part of a prompt.
std::string read_all(const std::string& file) {
  std::string text = file != "-"
                         ? read_text(file)
                         : std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  if (has_utf16_mark(text)) {
    throw UserError::of("{} is text in UTF-16; convert it to UTF-8, such as with: iconv -f UTF-16 -t UTF-8",
                        name_of_file(file));
  }
  if (text.starts_with(utf8_mark)) text.erase(0, utf8_mark.size());
  return text;
}

void throw_all(const std::vector<std::string>& problems) {
  constexpr size_t shown = 20;
  if (problems.empty()) return;
  const size_t count = std::min(shown, problems.size());
  const std::string rest =
      count < problems.size() ? fmt::format("\nand {} more lines", problems.size() - count) : std::string();
  throw UserError::of("{}{}", fmt::join(problems.begin(), problems.begin() + static_cast<int64_t>(count), "\n"), rest);
}

std::vector<Prompt> lines_of(const std::string& file, const std::string& all) {
  std::istringstream text(all);
  std::vector<Prompt> prompts;
  std::vector<std::string> problems;
  int64_t line = 0;
  for (std::string words; std::getline(text, words);) {
    ++line;
    if (words.ends_with('\r')) words.pop_back();
    if (words.empty()) {
      problems.push_back(fmt::format("{}, line {}: the line is empty, where a prompt is expected; remove it",
                                     name_of_file(file), line));
    }
    prompts.push_back({.text = std::move(words), .line = line});
  }
  if (prompts.empty()) throw UserError::of("{} is empty: write one prompt a line", name_of_file(file));
  throw_all(problems);
  return prompts;
}

std::vector<int64_t> encode(const std::string& text, const data::Tokenizer& tokenizer, data::SpecialTokens special) {
  const std::vector<int32_t> ids = tokenizer.encode(text, special);
  return {ids.begin(), ids.end()};
}

}  // namespace

std::string read_prompt_text(const PromptSource& source) {
  if (source.has_lines()) return read_all(source.lines);
  return source.file.empty() ? source.text : read_all(source.file);
}

std::vector<Prompt> split_prompts(const PromptSource& source, const std::string& text) {
  if (source.has_lines()) return lines_of(source.lines, text);
  return {{.text = text}};
}

void encode_prompts(const PromptSource& source, const data::Tokenizer& tokenizer, const models::TextLimits& model,
                    int32_t begin_token, std::vector<Prompt>& prompts) {
  std::vector<std::string> problems;
  for (Prompt& prompt : prompts) {
    prompt.tokens = encode(prompt.text, tokenizer, source.special_tokens);
    const bool begins = !prompt.tokens.empty() && prompt.tokens.front() == begin_token;
    if (begin_token >= 0 && !begins) prompt.tokens.insert(prompt.tokens.begin(), begin_token);
    if (!source.has_lines()) {
      // An empty prompt becomes an end token: in training, a document follows the end token of another one.
      if (prompt.tokens.empty() && tokenizer.end_token() >= 0) prompt.tokens = {tokenizer.end_token()};
      if (prompt.tokens.empty()) throw UserError("the prompt is empty: give --prompt TEXT or --prompt-file PATH");
      continue;
    }
    try {
      generate::check_prompt(prompt.tokens, model);
    } catch (const UserError& error) {
      problems.push_back(fmt::format("{}, line {}: {}", name_of_file(source.lines), prompt.line, error.what()));
    }
  }
  throw_all(problems);
}

}  // namespace terrace::cli
