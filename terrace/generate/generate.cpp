// Generates with continuous batching (Yu et al., "Orca", 2022): each pass draws one token of every sequence in a slot,
// and a slot whose sequence has ended takes the next one.
#include "terrace/generate/generate.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "terrace/base/error.h"

namespace terrace::generate {
namespace {

void check(const Request& request, const models::TextLimits& model) {
  check(request.sampling);
  if (request.max_tokens < 1) throw UserError::of("max-tokens = {}: use 1 or more", request.max_tokens);
  if (request.samples < 1) throw UserError::of("samples = {}: use 1 or more", request.samples);
  if (request.batch < 1) throw UserError::of("batch = {}: use 1 or more", request.batch);
  if (request.prompts.empty()) throw UserError("there is no prompt: give at least one");
  for (const std::vector<int64_t>& prompt : request.prompts) check_prompt(prompt, model);
}

int64_t longest_prompt(const Request& request) {
  size_t longest = 0;
  for (const std::vector<int64_t>& prompt : request.prompts) longest = std::max(longest, prompt.size());
  return static_cast<int64_t>(longest);
}

class Generation {
 public:
  Generation(const config::Config& config, models::Model& model, const Request& request, const Listener& listener)
      : request_(request),
        listener_(listener),
        context_(models::text_of_family(config).limits(config).longest_sequence),
        vocabulary_(request.vocabulary > 0 ? request.vocabulary
                                           : models::text_of_family(config).limits(config).vocabulary),
        continuations_(request.prompts.size() * static_cast<size_t>(request.samples)),
        slots_(std::min(static_cast<size_t>(request.batch), continuations_.size())),
        // The last token is drawn, but not run.
        sequences_(models::text_of_family(config).sequences(
            config, model, static_cast<int64_t>(slots_.size()),
            longest_prompt(request) + std::min(request.max_tokens, context_) - 1)) {}

  std::vector<Continuation> run() {
    for (;;) {
      for (size_t slot = 0; slot < slots_.size(); ++slot) fill(slot);
      if (!decode()) return std::move(continuations_);
    }
  }

 private:
  // A row of the batch: it computes the continuation with this number, or holds the remains of it.
  struct Slot {
    std::optional<size_t> number = {};
    bool busy = false;
  };

  ContinuationId id_of(size_t number) const {
    const auto samples = static_cast<size_t>(request_.samples);
    return {number / samples, static_cast<int64_t>(number % samples)};
  }
  const std::vector<int64_t>& prompt_of(size_t number) const { return request_.prompts[id_of(number).prompt]; }

  // Begins continuations in a slot that is free until one of them needs more than its first token.
  void fill(size_t slot) {
    while (!slots_[slot].busy && next_ < continuations_.size()) {
      const size_t number = next_++;
      run_prompt(number, slot);
      slots_[slot] = {.number = number, .busy = true};
      add(slot, drawn(number, after_prompt_));
    }
  }

  // Makes the slot hold the prompt alone. Samples follow each other, so a prompt is run for its first sample only.
  void run_prompt(size_t number, size_t slot) {
    const std::vector<int64_t>& prompt = prompt_of(number);
    const auto own = static_cast<int64_t>(slot), length = static_cast<int64_t>(prompt.size());
    if (id_of(number).sample == 0) {
      sequences_->truncate(own, 0);
      after_prompt_ = sequences_->next_logits(own, prompt);
      return;
    }
    const auto holds_prompt = [&](const Slot& other) {
      return other.number && id_of(*other.number).prompt == id_of(number).prompt;
    };
    if (holds_prompt(slots_[slot])) {
      sequences_->truncate(own, length);
      return;
    }
    // The sample before this one is in a slot: only samples of the same prompt have begun since.
    const auto holder = std::ranges::find_if(slots_, holds_prompt);
    TERRACE_CHECK(holder != slots_.end(), "no slot holds prompt {}", id_of(number).prompt);
    sequences_->copy(holder - slots_.begin(), own, length);
  }

  // Runs one pass for all busy slots. Returns whether there was one.
  bool decode() {
    std::vector<int64_t> busy, tokens;
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      if (!slots_[slot].busy) continue;
      busy.push_back(static_cast<int64_t>(slot));
      tokens.push_back(continuations_[*slots_[slot].number].tokens.back());
    }
    if (busy.empty()) return false;
    const at::Tensor logits = sequences_->next_logits(busy, tokens);  // [B, V]
    std::vector<int64_t> next(busy.size());
    at::parallel_for(0, static_cast<int64_t>(busy.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* values = logits.const_data_ptr<float>() + row * logits.size(1);
        next[row] = drawn(*slots_[busy[row]].number, {values, static_cast<size_t>(logits.size(1))});
      }
    });
    for (size_t row = 0; row < busy.size(); ++row) add(static_cast<size_t>(busy[row]), next[row]);
    return true;
  }

  int64_t drawn(size_t number, std::span<const float> logits) const {
    const auto position = static_cast<int64_t>(prompt_of(number).size() + continuations_[number].tokens.size());
    return choose(logits.first(vocabulary_), request_.sampling, id_of(number).sample, position);
  }

  // Adds a token to the slot's continuation, which may end.
  void add(size_t slot, int64_t token) {
    const size_t number = *slots_[slot].number;
    Continuation& own = continuations_[number];
    if (ends(token)) return end(slot, Finish::end_token);
    own.tokens.push_back(token);
    listener_.on_token(id_of(number), token);
    if (static_cast<int64_t>(own.tokens.size()) == request_.max_tokens) return end(slot, Finish::max_tokens);
    if (sequences_->size(static_cast<int64_t>(slot)) == context_) end(slot, Finish::context);
  }

  bool ends(int64_t token) const {
    const std::vector<int64_t>& more = request_.more_end_tokens;
    return token == request_.end_token || std::ranges::find(more, token) != more.end();
  }

  void end(size_t slot, Finish finish) {
    const size_t number = *slots_[slot].number;
    continuations_[number].finish = finish;
    slots_[slot].busy = false;
    listener_.on_end(id_of(number), continuations_[number]);
  }

  const Request& request_;
  const Listener& listener_;
  int64_t context_;
  size_t vocabulary_;
  std::vector<Continuation> continuations_;
  std::vector<Slot> slots_;
  std::unique_ptr<models::TextSequences> sequences_;
  size_t next_ = 0;                  // continuation that has not begun
  std::vector<float> after_prompt_;  // logits after the prompt of the last continuation that began
};

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

void check_prompt(std::span<const int64_t> prompt, const models::TextLimits& model) {
  const auto length = static_cast<int64_t>(prompt.size());
  if (length == 0) throw UserError("the prompt is empty: give at least one token");
  if (length > model.longest_sequence) {
    throw UserError::of("the prompt has {} tokens, but the model's context is {} (model.sequence): shorten it by {}",
                        length, model.longest_sequence, length - model.longest_sequence);
  }
  for (int64_t token : prompt) {
    if (token < 0 || token >= model.vocabulary) {
      throw UserError::of("the prompt holds token {}, but the model's tokens are 0 to {}", token, model.vocabulary - 1);
    }
  }
}

std::vector<Continuation> generate(const config::Config& config, models::Model& model, const Request& request,
                                   const Listener& listener) {
  check(request, models::text_of_family(config).limits(config));
  return Generation(config, model, request, listener).run();
}

}  // namespace terrace::generate
