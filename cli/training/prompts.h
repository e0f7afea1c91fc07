// The prompts of terrace generate: one of the command line or of a file, or one from each line of a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/data/text/tokenizer/tokenizer.h"
#include "terrace/models/text_of_family.h"

namespace terrace::cli {

struct Prompt {
  std::string text;
  int64_t line = 0;  // of the file with one prompt a line, from 1; else 0
  std::vector<int64_t> tokens = {};
};

struct PromptSource {
  std::string text;   // --prompt
  std::string file;   // --prompt-file: the whole file; "-": standard input
  std::string lines;  // --prompts: each line of the file; "-": standard input
  // The person who writes a prompt means the tokens, such as those of a chat; documents are others' texts.
  data::SpecialTokens special_tokens = data::SpecialTokens::keep;
  bool has_lines() const { return !lines.empty(); }
};

// The text of the source. Throws UserError for a file that cannot be read.
std::string read_prompt_text(const PromptSource& source);

// The prompts in the text. Throws UserError with file and line for empty lines.
std::vector<Prompt> split_prompts(const PromptSource& source, const std::string& text);

// Fills in the tokens, with `begin_token` in front unless it is -1 or the prompt names it itself. Throws UserError,
// with file and line, for prompts that do not fit the model.
void encode_prompts(const PromptSource& source, const data::Tokenizer& tokenizer, const models::TextLimits& model,
                    int32_t begin_token, std::vector<Prompt>& prompts);

}  // namespace terrace::cli
