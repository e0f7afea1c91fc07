// The part of a family whose models generate text.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "terrace/config/family.h"
#include "terrace/models/model.h"

namespace terrace::models {

// Sequences of tokens that a model reads piece by piece and continues. Each has a slot, an index below the number of
// slots, and its own length. The model keeps what it needs of the tokens that it has seen, as a GPT keeps their keys
// and values.
class TextSequences {
 public:
  virtual ~TextSequences() = default;

  // Runs further tokens of the sequence in a slot and returns the fp32 logits of the token after the last one.
  virtual std::vector<float> next_logits(int64_t slot, std::span<const int64_t> tokens) = 0;
  // Runs one further token of each of several sequences and returns the logits of the tokens after them, [sequences,
  // vocabulary] in fp32 on the CPU. Those of a sequence do not depend on which other sequences are run with it.
  virtual at::Tensor next_logits(std::span<const int64_t> slots, std::span<const int64_t> tokens) = 0;

  virtual int64_t size(int64_t slot) const = 0;  // tokens seen
  // Forgets all but the first `length` tokens of a slot, or copies them to another slot.
  virtual void truncate(int64_t slot, int64_t length) = 0;
  virtual void copy(int64_t from, int64_t to, int64_t length) = 0;
};

struct TextLimits {
  int64_t longest_sequence = 0;  // tokens
  int64_t vocabulary = 0;        // tokens that the model knows, without padding
};

// All functions are called with configurations of the family.
class TextOfFamily {
 public:
  virtual ~TextOfFamily() = default;

  virtual TextLimits limits(const config::Config& config) const = 0;
  // The token that stands before every text, by its text or its number in the tokenizer; "" where none does.
  virtual std::string begin_token(const config::Config&) const { return ""; }
  virtual void set_begin_token(config::Config&, const std::string&) const {}
  // The bytes that TextSequences keep for one token if activations have this type. They are those of the whole model,
  // which ranks of tensor parallelism divide among themselves.
  virtual double bytes_of_token(const config::Config& config, at::ScalarType type) const = 0;
  // Room for `slots` sequences of up to `length` tokens, or of the longest sequence if that is shorter. The model,
  // which may be cut over tensor ranks, must outlive the object. A sequence that would exceed its room throws
  // UserError.
  virtual std::unique_ptr<TextSequences> sequences(const config::Config& config, Model& model, int64_t slots,
                                                   int64_t length) const = 0;
};

// Throws UserError, with what can be done with models of the family instead, if they generate no text.
const TextOfFamily& text_of_family(const config::Config& config);

}  // namespace terrace::models
