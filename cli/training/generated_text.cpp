// Keeps what cannot be printed yet.
#include "cli/training/generated_text.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace terrace::cli {

Json continuation_json(const generate::Continuation& continuation, const data::Tokenizer& tokenizer) {
  std::string text;
  for (int64_t token : continuation.tokens) text += tokenizer.text_of(static_cast<int32_t>(token));
  return {{"text", text}, {"tokens", continuation.tokens}, {"finish", generate::name_of(continuation.finish)}};
}

std::string json_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

ContinuationPrinter::ContinuationPrinter(Form form, const std::vector<Prompt>& prompts, int64_t samples,
                                         const data::Tokenizer& tokenizer)
    : form_(form),
      prompts_(prompts),
      samples_(static_cast<size_t>(samples)),
      tokenizer_(tokenizer),
      kept_(prompts.size() * samples_) {}

generate::Listener ContinuationPrinter::listener() {
  if (form_ == Form::nothing) return {};
  return {.on_token = [this](const generate::ContinuationId& id, int64_t token) { on_token(id, token); },
          .on_end = [this](const generate::ContinuationId& id,
                           const generate::Continuation& continuation) { on_end(id, continuation); }};
}

size_t ContinuationPrinter::number_of(const generate::ContinuationId& id) const {
  return id.prompt * samples_ + static_cast<size_t>(id.sample);
}

void ContinuationPrinter::on_token(const generate::ContinuationId& id, int64_t token) {
  if (form_ != Form::text) return;
  if (!std::exchange(started_, true)) start(0);
  const std::string_view text = tokenizer_.text_of(static_cast<int32_t>(token));
  const size_t number = number_of(id);
  if (number != shown_) {
    kept_[number].text += text;
    return;
  }
  fmt::print("{}", text);
  std::fflush(stdout);
}

void ContinuationPrinter::on_end(const generate::ContinuationId& id, const generate::Continuation& continuation) {
  const size_t number = number_of(id);
  if (form_ == Form::text && !std::exchange(started_, true)) start(0);
  if (form_ == Form::json_lines) {
    const Prompt& prompt = prompts_[id.prompt];
    Json line = {{"line", prompt.line},
                 {"prompt", prompt.text},
                 {"prompt_tokens", prompt.tokens.size()},
                 {"sample", id.sample + 1}};
    line.update(continuation_json(continuation, tokenizer_));
    kept_[number].text = json_line(line);
  }
  kept_[number].ended = true;
  while (shown_ < kept_.size() && kept_[shown_].ended) {
    fmt::print("{}", form_ == Form::json_lines ? std::exchange(kept_[shown_].text, {}) : "\n");
    ++shown_;
    if (form_ == Form::text && shown_ < kept_.size()) start(shown_);
  }
  std::fflush(stdout);
}

// Prints the prompt of a continuation and what has been drawn of it.
void ContinuationPrinter::start(size_t number) {
  const size_t prompt = number / samples_, sample = number % samples_;
  const std::string sample_words = samples_ > 1 ? fmt::format("sample {} of {}", sample + 1, samples_) : "";
  if (prompts_.front().line > 0) {
    fmt::print("--- prompt {} of {}{}{} ---\n", prompt + 1, prompts_.size(), samples_ > 1 ? ", " : "", sample_words);
  } else if (samples_ > 1) {
    fmt::print("--- {} ---\n", sample_words);
  }
  fmt::print("{}{}", prompts_[prompt].text, std::exchange(kept_[number].text, {}));
}

}  // namespace terrace::cli
