// Implements the part of the GPT's family that generates text.
#include "terrace/models/gpt/gpt_text.h"

#include "terrace/data/text/text_config.h"
#include "terrace/models/gpt/cached_sequences.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {

TextLimits GptText::limits(const config::Config& config) const {
  const ModelConfig& model = model_of(config);
  return {.longest_sequence = model.sequence, .vocabulary = model.vocabulary};
}

std::string GptText::begin_token(const config::Config& config) const { return data::text_of(config).begin_token; }

void GptText::set_begin_token(config::Config& config, const std::string& token) const {
  data::text_of(config).begin_token = token;
}

double GptText::bytes_of_token(const config::Config& config, at::ScalarType type) const {
  const ModelConfig& model = model_of(config);
  const int64_t keys_and_values = 2 * model.layers * model.kv_heads * model.head_dim;
  return static_cast<double>(keys_and_values) * static_cast<double>(c10::elementSize(type));
}

std::unique_ptr<TextSequences> GptText::sequences(const config::Config& config, Model& model, int64_t slots,
                                                  int64_t length) const {
  return std::make_unique<CachedSequences>(model_of(config), model, slots, length);
}

}  // namespace terrace::models::gpt
