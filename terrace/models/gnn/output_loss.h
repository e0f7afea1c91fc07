// The terms of the loss of an output, and the output in the units of the data.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/models/gnn/heads.h"
#include "terrace/models/model.h"

namespace terrace::models::gnn {

struct OutputTerms {
  at::Tensor loss;  // the sum over all labelled values
  // [4]: the sums of the sizes and of the squares of the errors in the units of the data, and the sums over the columns
  // of the largest less the least of the labelled values, of the output and of the labels.
  at::Tensor figures;
};

OutputTerms output_terms(const OutputConfig& output, const OutputPrediction& value, const Batch& batch,
                         const Graphs& graphs);

// NAME: [B or N, columns] fp64, and of an uncertain output its standard deviation NAME_std.
void add_in_data_units(const OutputConfig& output, const OutputPrediction& value, const Batch& batch, Outputs& outputs);

}  // namespace terrace::models::gnn
