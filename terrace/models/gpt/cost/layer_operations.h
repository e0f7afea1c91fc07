// Lists the operations of the layers that a GPT's units consist of, with the collectives of tensor parallelism.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "terrace/models/gpt/settings/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::gpt {

// Collects the operations of one unit on one rank. Each function adds those of one layer to all lists. The names of
// passes over memory are those of the kernels in terrace/ops/kernels.h where there is one.
class LayerOperations {
 public:
  LayerOperations(const ModelConfig& config, const schedule::UnitTableOptions& options);

  struct NormPlace {
    bool adds = false;         // the output of the branch before it to the hidden states, which it writes too
    bool in_residual = false;  // its input goes on to a later sum, whose gradient its backward adds
  };
  void norm(const NormPlace& place);

  // A linear layer whose input are the hidden states of all positions, which are gathered where the sequence is cut.
  void cut_by_outputs(std::string_view name, int64_t outputs, bool bias);
  // A linear layer whose output is a sum over the ranks. It is sent in pieces.
  void cut_by_inputs(std::string_view name, int64_t inputs);

  // The norm of queries and keys, of which this rank has so many.
  void head_norm(int64_t queries, int64_t keys);

  // `heads` on this rank; a token's bytes in queries, keys and values, and in the context.
  void attention(int64_t heads, double joint, double context);
  // Of a branch's output or, with `adds`, of its sum with the hidden states.
  void dropout(bool adds);
  // Rows of a table for the tokens and, if positions are learned, for the positions.
  void embedding();
  // The output matrix, whose part on this rank has so many rows, and its loss in chunks of tokens.
  void vocabulary_loss(int64_t vocabulary);

  // Bytes of a tensor [tokens, columns] of the micro-batch.
  double bytes_of_tokens(int64_t columns) const { return bytes_of(tokens_, columns); }

  schedule::Operations operations;

 private:
  schedule::LinearLayer layer(std::string_view name, int64_t inputs, int64_t outputs) const;
  double bytes_of(int64_t rows, int64_t columns) const;
  void look_up(int64_t rows);
  void weight_gradient(const schedule::LinearLayer& layer, int64_t count);
  void layer_gradients(const schedule::LinearLayer& layer, int64_t bias_rows);
  void sum_of_pieces(schedule::LinearLayer layer);
  void chunk_of_logits(int64_t rows, int64_t vocabulary, int64_t count);
  void exponentials_of_logits(int64_t rows, int64_t vocabulary, int64_t count);
  void gather_row_sums(int64_t rows, int64_t count);
  template <typename Piece>
  void in_pieces(int64_t rows, const Piece& piece) const;
  void gather(std::vector<schedule::Operation>& list, std::vector<schedule::TensorCollective>& collectives) const;
  void sum(std::vector<schedule::Operation>& list, std::vector<schedule::TensorCollective>& collectives,
           schedule::TensorCollective::Meanwhile meanwhile) const;

  const ModelConfig& config_;
  const schedule::UnitTableOptions& options_;
  int64_t ranks_;
  bool is_cut_, cuts_sequence_;
  int64_t tokens_, own_tokens_;  // of the micro-batch, and of these the rank's own between the cut layers
  double hidden_, own_hidden_;   // bytes of the hidden states of these tokens
};

}  // namespace terrace::models::gpt
