// Determines where the dropout of a model is drawn, from the batch and the pass.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/models/model.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/elements/dropout.h"

namespace terrace::models {

// Dropout where a rank has all positions, or of whole samples; none outside of training.
inline ops::DropoutSite dropout_site(double rate, const Batch& batch, const Pass& pass) {
  return {pass.training ? rate : 0.0, pass.seed, pass.step, batch.samples};
}

// Dropout of hidden states x [B, own positions, D] between layers. `cut` is that of any parameter of the model.
inline ops::DropoutSite dropout_site_of(const at::Tensor& x, const ops::Cut* cut, double rate, const Batch& batch,
                                        const Pass& pass) {
  ops::DropoutSite site = dropout_site(rate, batch, pass);
  site.first_position = ops::first_own_position(cut, x.size(1));
  return site;
}

}  // namespace terrace::models
