// Figures that an evaluation of a GPT gives beside its loss.
#pragma once

#include "terrace/observe/figures.h"

namespace terrace::models::gpt {

class GptFigures : public observe::Figures {
 public:
  std::string loss_unit(const config::Config&) const override { return "nats a token"; }
  // The perplexity, e to the loss.
  std::vector<observe::Figure> list(const config::Config&) const override;
};

}  // namespace terrace::models::gpt
