// Lists the operations of the layers of transformers, with the collectives of tensor parallelism.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "terrace/schedule/unit_table.h"

namespace terrace::schedule {

// What the layers of a transformer have in common.
struct TransformerShape {
  int64_t sequence = 0;  // tokens of a sample
  int64_t width = 0;     // of the hidden states
  int64_t head_dim = 0;
  bool causal = true;
  int64_t window = 0;           // of causal attention: tokens that a token attends to; 0: all before it
  bool fused_attention = true;  // false: separate operations over all scores
  bool bias = true;             // of linear layers
  bool centered_norms = true;   // layer norms, with a bias if `norm_bias`; else RMS norms
  bool norm_bias = true;
  bool head_norms_are_centered = false;  // those of queries, with a bias, and of keys, without one
  double dropout = 0;
};

// Collects the operations of one unit on one rank. Each function adds those of one layer to all lists. The names of
// passes over memory are those of the kernels in terrace/ops/kernels.h where there is one.
class TransformerOperations {
 public:
  TransformerOperations(const TransformerShape& shape, const UnitTableOptions& options);

  struct NormPlace {
    bool adds = false;         // the output of the branch before it to the hidden states, which it writes too
    bool in_residual = false;  // its input goes on to a later sum, whose gradient its backward adds
  };
  void norm(const NormPlace& place);

  // A linear layer whose input are the hidden states of all positions, which are gathered where the sequence is cut.
  void cut_by_outputs(std::string_view name, int64_t outputs, bool bias);
  // A linear layer whose output is a sum over the ranks. It is sent in pieces.
  void cut_by_inputs(std::string_view name, int64_t inputs);
  // A linear layer that every rank computes whole, of its own tokens where the sequence is cut.
  void replicated(std::string_view name, int64_t inputs, int64_t outputs);
  // Its output of so many columns, or what is made of it, gathered to all tokens where the sequence is cut.
  void gather_output(int64_t columns, int64_t element_bytes);

  // The norm of queries and keys, of which this rank has so many.
  void head_norm(int64_t queries, int64_t keys);

  // `heads` on this rank; a token's bytes in queries, keys and values, and in the context.
  void attention(int64_t heads, double joint, double context);
  // Of a branch's output or, with `adds`, of its sum with the hidden states.
  void dropout(bool adds);

  // Bytes of a tensor [tokens, columns] of the micro-batch.
  double bytes_of_tokens(int64_t columns) const { return bytes_of(tokens_, columns); }

  Operations operations;

 protected:
  LinearLayer layer(std::string_view name, int64_t inputs, int64_t outputs) const;
  double bytes_of(int64_t rows, int64_t columns) const;
  // The weight gradients of `count` times so many rows, each of which is added to the whole gradient.
  void weight_gradient(const LinearLayer& layer, int64_t count);
  // Calls piece(rows, count) for the whole pieces of the micro-batch's tokens and for the rest.
  template <typename Piece>
  void in_pieces(int64_t rows, const Piece& piece) const {
    if (tokens_ >= rows) piece(rows, tokens_ / rows);
    if (tokens_ % rows > 0) piece(tokens_ % rows, 1);
  }
  // Of hidden states; those of several samples are put in order by a copy.
  void gather(std::vector<Operation>& list, std::vector<TensorCollective>& collectives) const;
  void sum(std::vector<Operation>& list, std::vector<TensorCollective>& collectives,
           TensorCollective::Meanwhile meanwhile) const;

  TransformerShape shape_;
  const UnitTableOptions& options_;
  int64_t ranks_;
  bool is_cut_, cuts_sequence_;
  int64_t tokens_, own_tokens_;  // of the micro-batch, and of these the rank's own between the cut layers
  double hidden_, own_hidden_;   // bytes of the hidden states of these tokens

 private:
  void layer_gradients(const LinearLayer& layer, int64_t bias_rows);
  void sum_of_pieces(LinearLayer layer);
};

}  // namespace terrace::schedule
