// Figures that the training and the evaluation of a GPT give beside its loss.
#pragma once

#include "terrace/observe/figures.h"

namespace terrace::models::gpt {

class GptFigures : public observe::Figures {
 public:
  std::string loss_unit(const config::Config&) const override { return "nats a token"; }
  // The perplexity, e to the loss, of evaluations. Of the steps of models with experts, made of the tallies of
  // models::Transformer: expert_load, the load of the busiest expert of all layers in terms of an even one; and the
  // router's losses where they are trained on, as means over samples and layers: balance_loss, 1 at even load, and
  // router_z.
  std::vector<observe::Figure> list(const config::Config& config) const override;
};

}  // namespace terrace::models::gpt
