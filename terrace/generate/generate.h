// Continues prompts token by token, several at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/generate/sampler.h"
#include "terrace/models/model.h"
#include "terrace/models/text_of_family.h"

namespace terrace::generate {

struct Request {
  std::vector<std::vector<int64_t>> prompts;  // at least one token each
  int64_t max_tokens = 200;                   // of each continuation
  int64_t samples = 1;                        // continuations of each prompt
  int64_t batch = 16;                         // the most continuations that are decoded at the same time
  Sampling sampling;
  int64_t end_token = -1;                     // stops a continuation and is not part of it; -1: none
  std::vector<int64_t> more_end_tokens = {};  // that do the same
  int64_t vocabulary = 0;                     // only tokens below this number are drawn; 0: all tokens of the model
};

// Why a continuation ended. context: the model has no positions left (model.sequence).
enum class Finish { end_token, max_tokens, context };
std::string_view name_of(Finish finish);

struct Continuation {
  std::vector<int64_t> tokens;
  Finish finish = Finish::max_tokens;
};

// Names a continuation: sample `sample` of prompt `prompt`, both from 0.
struct ContinuationId {
  size_t prompt = 0;
  int64_t sample = 0;
  bool operator==(const ContinuationId&) const = default;
};

// Called while the continuations are drawn, which they are in any order.
struct Listener {
  std::function<void(ContinuationId, int64_t token)> on_token = [](ContinuationId, int64_t) {};
  std::function<void(ContinuationId, const Continuation&)> on_end = [](ContinuationId, const Continuation&) {};
};

// Throws UserError for a prompt that is empty, longer than the model's context, or has tokens outside its vocabulary.
void check_prompt(std::span<const int64_t> prompt, const models::TextLimits& model);

// Continues every prompt request.samples times, and returns the continuations of the first prompt, then those of the
// second one, and so on. Where a continuation ends, the next one begins in its place. A continuation is a function of
// the model, its prompt, the number of its sample and the options; it does not depend on the other prompts, on the
// number of samples and on `batch`. `model` is one of the configuration. Throws UserError for options out of range, for
// prompts that do not fit and for a family that generates no text, before anything is computed.
std::vector<Continuation> generate(const config::Config& config, models::Model& model, const Request& request,
                                   const Listener& listener = {});

}  // namespace terrace::generate
