// Determines where the dropout of a model is drawn, from the batch and the pass.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/models/model.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/elements/dropout.h"

namespace terrace::models {

// The positions of a rank's rows, of all that it has, from `first_row` on.
inline RowPlaces row_places(const Pass& pass, int64_t first_row = 0) {
  if (pass.context == nullptr) return RowPlaces::from(first_row);
  return pass.context->places.rows_of(pass.context->ranks->member(), first_row);
}

// Dropout of whole samples; none outside of training.
inline ops::DropoutSite dropout_site(double rate, const Batch& batch, const Pass& pass) {
  return {pass.training ? rate : 0.0, pass.seed, pass.step, batch.samples};
}

// Dropout inside layers, where tensor ranks have all positions of the rank and some heads.
inline ops::DropoutSite dropout_site_in_layer(double rate, const Batch& batch, const Pass& pass) {
  ops::DropoutSite site = dropout_site(rate, batch, pass);
  site.positions = row_places(pass);
  return site;
}

// Dropout of hidden states x [B, own positions, D] between layers. `cut` is that of any parameter of the model.
inline ops::DropoutSite dropout_site_of(const at::Tensor& x, const ops::Cut* cut, double rate, const Batch& batch,
                                        const Pass& pass) {
  ops::DropoutSite site = dropout_site(rate, batch, pass);
  site.positions = row_places(pass, ops::first_own_position(cut, x.size(1)));
  return site;
}

}  // namespace terrace::models
