// Prints continuations in the order of their prompts and samples, though they are drawn at the same time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/training/prompts.h"
#include "terrace/base/text/json.h"
#include "terrace/data/text/tokenizer/tokenizer.h"
#include "terrace/generate/generate.h"

namespace terrace::cli {

// {"text", "tokens", "finish"}.
Json continuation_json(const generate::Continuation& continuation, const data::Tokenizer& tokenizer);

// One line of JSON. Byte tokens can end inside a character, and JSON cannot hold a part of a character.
std::string json_line(const Json& json);

class ContinuationPrinter {
 public:
  // text: prints each token of the first continuation that has not ended as soon as it is drawn, and keeps those of the
  // ones after it. json_lines: prints one object for each continuation. nothing: prints nothing.
  enum class Form { text, json_lines, nothing };
  ContinuationPrinter(Form form, const std::vector<Prompt>& prompts, int64_t samples, const data::Tokenizer& tokenizer);

  // Passes the events on to this object, which must outlive the listener.
  generate::Listener listener();

 private:
  struct Kept {
    std::string text;
    bool ended = false;
  };

  size_t number_of(const generate::ContinuationId& id) const;
  void on_token(const generate::ContinuationId& id, int64_t token);
  void on_end(const generate::ContinuationId& id, const generate::Continuation& continuation);
  void start(size_t number);

  Form form_;
  const std::vector<Prompt>& prompts_;
  size_t samples_;
  const data::Tokenizer& tokenizer_;
  std::vector<Kept> kept_;
  size_t shown_ = 0;  // the first continuation that has not ended
  bool started_ = false;
};

}  // namespace terrace::cli
