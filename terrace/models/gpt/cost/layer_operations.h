// Lists the operations of the layers of a GPT's units that other transformers lack: its table of tokens and its loss.
#pragma once

#include <cstdint>

#include "terrace/models/gpt/settings/config.h"
#include "terrace/schedule/transformer_operations.h"

namespace terrace::models::gpt {

class LayerOperations : public schedule::TransformerOperations {
 public:
  LayerOperations(const ModelConfig& config, const schedule::UnitTableOptions& options);

  // Rows of a table for the tokens and, if positions are learned, for the positions.
  void embedding();
  // The output matrix, whose part on this rank has so many rows, and its loss in chunks of tokens.
  void vocabulary_loss(int64_t vocabulary);

 private:
  void look_up(int64_t rows);
  void chunk_of_logits(int64_t rows, int64_t vocabulary, int64_t count);
  void exponentials_of_logits(int64_t rows, int64_t vocabulary, int64_t count);
  void gather_row_sums(int64_t rows, int64_t count);

  const ModelConfig& config_;
};

}  // namespace terrace::models::gpt
