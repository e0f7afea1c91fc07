// Text of GPTs, which keep the keys and values of the tokens that they have seen.
#pragma once

#include "terrace/models/text_of_family.h"

namespace terrace::models::gpt {

class GptText : public TextOfFamily {
 public:
  TextLimits limits(const config::Config& config) const override;
  std::string begin_token(const config::Config& config) const override;
  void set_begin_token(config::Config& config, const std::string& token) const override;
  double bytes_of_token(const config::Config& config, at::ScalarType type) const override;
  std::unique_ptr<TextSequences> sequences(const config::Config& config, Model& model, int64_t slots,
                                           int64_t length) const override;
};

}  // namespace terrace::models::gpt
