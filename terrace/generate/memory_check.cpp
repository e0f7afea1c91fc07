// Adds up keys and values, and the tokens of the continuations.
#include "terrace/generate/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "terrace/base/text/units.h"
#include "terrace/models/text_of_family.h"

namespace terrace::generate {
namespace {

// Bytes of one continuation beside its tokens: its own object, and the place of its text until the continuations before
// it have ended.
constexpr double bytes_beside_tokens = sizeof(Continuation) + 64;

double weight_bytes(models::Model& model) {
  double bytes = 0;
  for (const nn::Parameter* parameter : model.parameters()) bytes += static_cast<double>(parameter->value.nbytes());
  return bytes;
}

std::string count_text(double count) { return format_count(static_cast<int64_t>(count)); }

// The options that decide how much a request takes.
struct Sizes {
  Sizes(const models::TextLimits& model, const Request& request)
      : prompts(static_cast<double>(request.prompts.size())),
        continuations(prompts * static_cast<double>(request.samples)),
        slots(std::min(static_cast<double>(request.batch), continuations)),
        context(model.longest_sequence),
        own_tokens(std::min(request.max_tokens, context)) {
    for (const auto& prompt : request.prompts) {
      longest_prompt = std::max(longest_prompt, static_cast<int64_t>(prompt.size()));
    }
    cached_tokens = static_cast<double>(std::min(longest_prompt + own_tokens - 1, context));
  }

  double prompts, continuations, slots;
  int64_t context, own_tokens, longest_prompt = 0;
  double cached_tokens = 0;  // of each slot
};

std::string cache_problem(const Request& request, const Sizes& sizes, double token_bytes, double left,
                          const char* memory) {
  const double slot_bytes = token_bytes * sizes.cached_tokens;
  if (sizes.slots * slot_bytes <= left) return "";
  const double slots = std::floor(left / slot_bytes);
  if (slots >= 1) {
    return fmt::format(
        "--batch {} takes {} for the keys and values of {} continuations of up to {} tokens with their prompts, and {} "
        "of {} are free beside the weights; use --batch {} or less",
        request.batch, format_bytes(sizes.slots * slot_bytes), count_text(sizes.slots), count_text(sizes.cached_tokens),
        format_bytes(left), memory, static_cast<int64_t>(slots));
  }
  const auto tokens = static_cast<int64_t>(left / token_bytes) - sizes.longest_prompt + 1;
  return fmt::format(
      "--max-tokens {} takes {} for the keys and values of one continuation of up to {} tokens with its prompt, and {} "
      "of {} are free beside the weights; {}",
      request.max_tokens, format_bytes(slot_bytes), count_text(sizes.cached_tokens), format_bytes(left), memory,
      tokens > 0 ? fmt::format("use --max-tokens {} or less", tokens)
                 : "use a shorter prompt or --precision bf16, or divide the model among machines");
}

std::string kept_problem(const Request& request, const Sizes& sizes, double each, double left) {
  if (sizes.continuations * each <= left) return "";
  const double samples = std::floor(left / each / sizes.prompts);
  return fmt::format(
      "--samples {} takes {} for {} continuations of up to {} tokens, and {} of memory are free beside the weights; {}",
      request.samples, format_bytes(sizes.continuations * each), count_text(sizes.continuations),
      count_text(static_cast<double>(sizes.own_tokens)), format_bytes(left),
      samples >= 1 ? fmt::format("use --samples {} or less", static_cast<int64_t>(samples))
                   : fmt::format("use fewer prompts than {} at once", count_text(sizes.prompts)));
}

}  // namespace

std::string memory_problem(const config::Config& config, models::Model& model, const Request& request,
                           const FreeMemory& free) {
  const models::TextOfFamily& text = models::text_of_family(config);
  const Sizes sizes(text.limits(config), request);
  // The share of the model, and of its keys and values, that this machine or GPU holds.
  const double share = free.on_gpu ? 1.0 / static_cast<double>(free.ranks)
                                   : static_cast<double>(free.ranks_here) / static_cast<double>(free.ranks);
  const double token_bytes = share * text.bytes_of_token(config, model.parameters().front()->value.scalar_type());
  const double weights = share * weight_bytes(model);
  const double in_device = free.on_gpu ? free.gpu : free.machine;
  if (in_device > weights) {
    std::string problem =
        cache_problem(request, sizes, token_bytes, in_device - weights, free.on_gpu ? "the GPU's memory" : "memory");
    if (!problem.empty()) return problem;
  }
  const double taken = free.on_gpu ? 0 : weights + sizes.slots * sizes.cached_tokens * token_bytes;
  if (free.machine <= taken) return "";
  // A list of tokens doubles its room when it is full.
  const auto room = static_cast<double>(std::bit_ceil(static_cast<uint64_t>(sizes.own_tokens)) * sizeof(int64_t));
  return kept_problem(request, sizes, static_cast<double>(free.ranks_here) * (room + bytes_beside_tokens),
                      free.machine - taken);
}

}  // namespace terrace::generate
