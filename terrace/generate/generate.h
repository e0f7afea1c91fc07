// Continues a prompt token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "terrace/generate/cached_model.h"
#include "terrace/generate/sampler.h"

namespace terrace::generate {

struct Request {
  std::vector<int64_t> prompt;  // at least one token
  int64_t max_tokens = 200;     // of each continuation
  int64_t samples = 1;
  Sampling sampling;
  int64_t end_token = -1;  // stops the continuation and is not part of it; -1: none
  int64_t vocabulary = 0;  // only tokens below this number are drawn; 0: all tokens of the model
};

// Why a continuation ended. context: the model has no positions left (model.sequence).
enum class Finish { end_token, max_tokens, context };
std::string_view name_of(Finish finish);

struct Continuation {
  std::vector<int64_t> tokens;
  Finish finish = Finish::max_tokens;
};

// Continues the prompt request.samples times; on_token is called with the number of the sample and each token as soon
// as it is drawn. Whatever the model has seen before is forgotten. Throws UserError for options out of range and for a
// prompt that is empty or longer than the model's context, before anything is computed.
std::vector<Continuation> generate(CachedModel& model, const Request& request,
                                   const std::function<void(int64_t sample, int64_t token)>& on_token);

}  // namespace terrace::generate
