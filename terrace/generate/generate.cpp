// Generates: runs the prompt once, then draws one token at a time.
#include "terrace/generate/generate.h"

#include <array>

#include "terrace/base/error.h"

namespace terrace::generate {
namespace {

void check(const Request& request, const CachedModel& model) {
  check(request.sampling);
  if (request.max_tokens < 1) throw UserError::of("max-tokens = {}: use 1 or more", request.max_tokens);
  if (request.samples < 1) throw UserError::of("samples = {}: use 1 or more", request.samples);
  const int64_t length = static_cast<int64_t>(request.prompt.size());
  if (length == 0) throw UserError("the prompt is empty: give at least one token");
  if (length > model.capacity()) {
    throw UserError::of("the prompt has {} tokens, but the model's context is {} (model.sequence): shorten it by {}",
                        length, model.capacity(), length - model.capacity());
  }
  for (int64_t token : request.prompt) {
    if (token < 0 || token >= model.vocabulary()) {
      throw UserError::of("the prompt holds token {}, but the model's tokens are 0 to {}", token,
                          model.vocabulary() - 1);
    }
  }
}

}  // namespace

std::string_view name_of(Finish finish) {
  switch (finish) {
    case Finish::end_token:
      return "end_token";
    case Finish::max_tokens:
      return "max_tokens";
    case Finish::context:
      return "context";
  }
  return "";
}

std::vector<Continuation> generate(CachedModel& model, const Request& request,
                                   const std::function<void(int64_t sample, int64_t token)>& on_token) {
  check(request, model);
  const int64_t vocabulary = request.vocabulary > 0 ? request.vocabulary : model.vocabulary();
  const int64_t prompt_length = static_cast<int64_t>(request.prompt.size());
  model.truncate(0);
  const std::vector<float> after_prompt = model.next_logits(request.prompt);
  std::vector<Continuation> continuations;
  for (int64_t sample = 0; sample < request.samples; ++sample) {
    model.truncate(prompt_length);
    std::vector<float> logits = after_prompt;
    Continuation result;
    for (;;) {
      const int64_t token = choose(std::span<const float>(logits).first(vocabulary), request.sampling, sample,
                                   prompt_length + static_cast<int64_t>(result.tokens.size()));
      result.finish = Finish::end_token;
      if (token == request.end_token) break;
      result.tokens.push_back(token);
      on_token(sample, token);
      result.finish = Finish::max_tokens;
      if (static_cast<int64_t>(result.tokens.size()) == request.max_tokens) break;
      result.finish = Finish::context;
      if (model.size() == model.capacity()) break;
      logits = model.next_logits(std::array{token});
    }
    continuations.push_back(std::move(result));
  }
  return continuations;
}

}  // namespace terrace::generate
