// Writes down what a unit of a model computes, in the order of its forward and without tensors. From that follows the
// unit's row of the unit table (schedule/unit_table.h): parameters with their marks, the operations of a rank with the
// collectives of tensor parallelism, FLOPs, and bytes.
//
// A unit is written twice: in a model as it computes, and here as it is traced, with the same names in the same order
// (docs/model.md#traces shows one).
//
// What follows from a trace:
// - A linear layer has a product in forward, one for the gradient of its input if that depends on parameters, and one
//   for its weight's. It saves its input; a deferred weight gradient keeps that and the gradient of its output.
// - Kept from forward to backward are the distinct values that operations save, and their statistics. With selective
//   recompute attention keeps no statistics; with full recompute a unit keeps its input alone.
// - Temporary are the gradients of all values that linear layers read and give.
// What no function here expresses, a family adds as products, passes and bytes of its own.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "terrace/schedule/unit_table.h"

namespace terrace::layers {

// A tensor [rows, columns] of one micro-batch.
struct Value {
  int64_t number = -1;      // counts the values of the unit
  int64_t rows = 0;         // on all tensor ranks together
  int64_t columns = 0;      // of the whole model
  int64_t own_columns = 0;  // of one tensor rank
  // Whether a rank has a part of the rows where tensor ranks cut the sequence, as of hidden states between cut layers.
  bool cuts_rows = false;
  bool on_parameters = true;  // whether it depends on parameters, so that it has a gradient
  // Whether it depends on what an energy is differentiated by, as on positions of atoms.
  bool on_differentiated = false;
};

// The value x, which depends on what `other` depends on as well.
Value depending_on(Value x, const Value& other);

// The way in which a linear layer is cut over tensor ranks (Megatron-LM, arXiv 1909.08053, section 3).
enum class WeightCut {
  none,     // every rank computes it whole, of its own rows where the sequence is cut
  outputs,  // the rows of the weight; the input is gathered where the sequence is cut
  inputs,   // the columns of the weight; the result is summed over the ranks in pieces, and the whole bias added once
};

// The rows of a cut weight that stay together (ParamMark::groups).
struct RowGroups {
  int64_t groups = 0, shared = 0;
};

struct LinearLayout {
  std::string_view operation = "linear";  // the name of its products; a literal
  bool bias = true;
  bool always_fp32 = false;  // UnitParameter::always_fp32
  WeightCut cut = WeightCut::none;
  RowGroups rows = {};        // with WeightCut::outputs
  bool gives_energy = false;  // its result is summed to an energy that is differentiated, whose gradient is 1
};

// The numbers of tensors of the shape of its result that an operation on each element reads, writes and saves.
struct Touched {
  int64_t read = 0, written = 0, saved = 0;
};

struct NormLayout {
  bool centered = true;  // a layer norm; else an RMS norm
  bool bias = true;      // of layer norms
};

// The norms of queries and keys, whose weights all heads share.
struct HeadNormLayout {
  int64_t heads = 0, key_heads = 0, width = 0;  // of the whole model
  // Layer norms, whose keys have a bias only as a parameter: it adds the same to all scores of a query.
  bool centered = false;
};

// Attention within each sample of the micro-batch.
struct AttentionLayout {
  int64_t heads = 0, key_heads = 0, head_dim = 0;  // of the whole model
  int64_t positions = 0;                           // of a sample, on all context ranks together
  bool causal = true;
  int64_t window = 0;        // of causal attention: tokens that a token attends to; 0: all before it
  bool drops = false;        // drops probabilities, which takes separate operations over all scores
  bool by_document = false;  // a token attends to its own document alone
};

enum class Activation { gelu, gelu_erf, swiglu, geglu };

inline bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}

// Experts that every tensor rank has whole, for its own rows.
struct ExpertLayout {
  int64_t number = 0, per_token = 1;
  int64_t width = 0;  // inner, of one expert
  Activation activation = Activation::gelu;
  bool activation_in_product = true;  // as in UnitTrace::activation()
  bool bias = false;                  // of the choice, a buffer
  // Whether the ranks that have other positions of the same sequences sum the choices of each sequence.
  bool counts_sequences = false;
};

class UnitTrace {
 public:
  // `layer` as in UnitRow. Names of parameters begin with `prefix`. A sample has `positions` rows of hidden states, of
  // which a context rank has its part.
  struct Unit {
    std::string name, prefix = {};
    int64_t layer = -1;
    int64_t positions = 1;
    // Whether an energy is differentiated by inputs: what its value depends on is computed with its derivative in
    // forward, and backward differentiates both.
    bool differentiates = false;
    bool defers = true;            // whether weight gradients can be deferred
    bool counts_executed = false;  // whether figures of utilisation count what is executed, and not three forwards
    bool passes_fp32 = false;      // whether what passes between units is fp32, whatever the type of the model is
  };
  UnitTrace(const schedule::UnitTableOptions& options, Unit unit);

  // Sets Unit::differentiates for what comes next.
  void set_differentiates(bool differentiates) { unit_.differentiates = differentiates; }

  // The value that the unit before gives to this unit: [rows, columns], or the hidden states of all positions.
  Value given(int64_t rows, int64_t columns);
  Value hidden(int64_t width);
  // The hidden states with the branch of the unit before (add_later), which the norm that reads them adds.
  Value branch_sum(int64_t width);
  // [rows, columns] that depend on no parameter, whole on every rank.
  Value data(int64_t rows, int64_t columns);
  // A value of the shape that an operation of the family's own makes of parameters; `own_columns` on a rank.
  Value made(int64_t rows, int64_t columns, int64_t own_columns);

  void parameter(const std::string& name, ParamMark mark, bool always_fp32 = false);
  Value norm(const std::string& name, const Value& x, const NormLayout& layout);
  Value linear(const std::string& name, const Value& x, int64_t outputs, const LinearLayout& layout);
  // A linear layer without its parameters, which a family adds.
  Value product(const Value& x, int64_t outputs, const LinearLayout& layout);
  // The norms of queries and keys within their joint projection with values.
  Value head_norms(const std::string& name, const Value& joint, const HeadNormLayout& layout);
  Value attention(const Value& joint, const AttentionLayout& layout);
  // A router, and the experts that it gives rows of x to, with even loads.
  Value experts(const std::string& name, const Value& x, const ExpertLayout& layout);
  // Bytes of a choice that experts() keeps where the forward is made again.
  int64_t bytes_of_choice(const Value& x, const ExpertLayout& layout) const;
  // The activation of x, or with SwiGLU and GeGLU of its pairs of columns. `in_product`: our products apply it where
  // they can.
  Value activation(const Value& x, Activation activation, bool in_product);
  Value dropout(const Value& x, double rate);
  // Each sample's branch is dropped as a whole.
  Value drop_path(const Value& x);
  Value add(const Value& x, const Value& branch);
  Value add_dropped(const Value& x, const Value& branch, double rate);
  // Rows of a table [rows, width], cut by rows, for the tokens.
  Value embedding(const std::string& name, int64_t rows, int64_t width);
  // Adds rows of a table of positions, which all samples share.
  Value add_positions(const std::string& name, const Value& x, int64_t rows);
  // All columns and all rows of x, whose parts ranks have computed.
  void gather_rows(const Value& x, int64_t element_bytes);

  // Some columns of x, as many as are given.
  Value part(const Value& x, int64_t columns);
  // An operation on each element of [rows of x, columns], whose backward reads what it saves.
  Value elements(std::string_view name, const Value& x, int64_t columns, const Touched& touched);
  // Rows of x for each of so many rows, as of atoms for edges; and sums of these.
  Value gathered(const Value& x, int64_t rows);
  Value segment_sum(const Value& x, int64_t rows);
  // Sums over the edges of each row of x of its products with what edges have (ops/graphs/messages.h): the factors.
  Value message_sum(const Value& x, const Value& factors, int64_t edges);

  // Hands the next unit values, or the hidden states x and a branch that the next norm adds to them.
  void output(const Value& value);
  void add_later(const Value& x, const Value& branch);
  // Says that the unit is the model's last: its backward follows at once, and keeps nothing.
  void set_last();
  // The output matrix [vocabulary, width] and the cross-entropy of its logits, for a chunk of tokens at a time. Without
  // a name the matrix is the embedding's.
  void vocabulary_loss(const std::string& name, const Value& x, int64_t vocabulary);

  // Additions that a family makes of its own: operations, FLOPs and bytes.
  schedule::Operations& operations() { return row_.operations; }
  void add_flops(double forward, double input_gradient, double weight_gradient, double counted);
  void keep(int64_t bytes) { saved_bytes_ += bytes; }
  // Keeps the bytes, and with a derivative as many again for the gradients of what was given.
  void keep_with_derivative(int64_t bytes) { keep((unit_.differentiates ? 2 : 1) * bytes); }
  void defer(int64_t bytes) { row_.deferred_bytes += bytes; }
  void set_temporary(int64_t bytes) { set_temporary_ = bytes; }
  schedule::UnitRow& row() { return row_; }
  // The complete row; the trace is used up.
  schedule::UnitRow finished();

  int64_t bytes(const Value& value) const;  // on one rank
  const schedule::UnitTableOptions& options() const { return options_; }

 private:
  Value value(int64_t rows, int64_t columns, int64_t own_columns, bool cuts_rows);
  Value like(const Value& x);  // a new one of its shape
  void save(const Value& x);
  void touch(const Value& x);  // by a linear layer
  int64_t own_rows(const Value& x) const;
  int64_t passed_bytes(const Value& x) const;
  double bytes_of(int64_t rows, int64_t columns) const;
  // A sum reads x too, whose gradient the backward of a norm of x then adds.
  void read_by_sum(const Value& x);

  void pass(std::string_view name, double bytes);
  void derivative(const schedule::LinearLayer& layer, const Value& y, bool gives_energy, double flops);
  void linear_parameters(const std::string& name, const Value& x, int64_t outputs, const LinearLayout& layout);
  void forward_by_outputs(const schedule::LinearLayer& layer);
  void forward_by_inputs(const schedule::LinearLayer& layer, const Value& y);
  void gradients(const schedule::LinearLayer& layer, const Value& x, const Value& y, WeightCut cut);
  void weight_gradient(const schedule::LinearLayer& layer, int64_t count);
  void sum_of_pieces(schedule::LinearLayer layer, const Value& y);
  void gather(std::vector<schedule::Operation>& list, std::vector<schedule::TensorCollective>& collectives,
              double bytes);
  void sum(std::vector<schedule::Operation>& list, std::vector<schedule::TensorCollective>& collectives, double bytes,
           schedule::TensorCollective::Meanwhile meanwhile);
  // Calls compute(size, count) for the whole pieces of the rows and for the rest.
  template <typename Compute>
  static void in_pieces(int64_t rows, int64_t piece, const Compute& compute) {
    if (rows >= piece) compute(piece, rows / piece);
    if (rows % piece > 0) compute(rows % piece, 1);
  }
  void look_up(int64_t rows, int64_t width);
  void expert_products(int64_t rows, int64_t width, const ExpertLayout& layout);
  void router_product(int64_t rows, int64_t width, const ExpertLayout& layout);
  void sums_of_choices(const ExpertLayout& layout);
  void exchanges_of_rows(int64_t rows, int64_t width, const ExpertLayout& layout);
  void mask(const AttentionLayout& layout);
  // The attention of queries of the rows of `joint`, with so many heads on a rank, to keys of all positions.
  Value attention_to_all(const Value& joint, const AttentionLayout& layout, int64_t heads);
  Value attention_in_parts(const Value& joint, const AttentionLayout& layout);
  Value attention_by_heads(const Value& joint, const AttentionLayout& layout);
  void ring_transfers(int64_t keys, int64_t distance);
  void gather_transfers(int64_t keys);
  void chunk_of_logits(int64_t rows, int64_t width, int64_t vocabulary, int64_t count);
  void exponentials_of_logits(int64_t rows, int64_t width, int64_t vocabulary, int64_t count);
  void gather_row_sums(int64_t rows, int64_t count);
  schedule::LinearLayer layer(std::string_view name, int64_t rows, int64_t inputs, int64_t outputs) const;

  const schedule::UnitTableOptions& options_;
  Unit unit_;
  int64_t ranks_;
  bool is_cut_, cuts_sequence_, is_last_ = false;
  schedule::UnitRow row_;
  int64_t values_ = 0;
  std::set<int64_t> saved_, touched_, deferred_;
  int64_t saved_bytes_ = 0, touched_bytes_ = 0, set_temporary_ = -1;
  // The branch sum, until a norm adds it; and the places of the backwards of norms among the operations, by what they
  // read.
  int64_t to_add_ = -1;
  std::vector<std::pair<int64_t, size_t>> norms_;
  int64_t not_with_selective_ = 0;  // bytes that are kept where nothing is recomputed
  int64_t input_bytes_ = 0;
  // Modules register the norms of queries and keys behind the layers beside them.
  std::vector<schedule::UnitParameter> last_parameters_;
};

// Rows of a weight, cut in such groups, that one of the ranks has.
int64_t rows_on_rank(int64_t rows, const RowGroups& groups, int64_t ranks);

// The row of the same unit in another layer, where names begin with `to` in place of `from`.
schedule::UnitRow renamed(const schedule::UnitRow& row, const std::string& from, const std::string& to, int64_t layer);

}  // namespace terrace::layers
