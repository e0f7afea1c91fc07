// Makes the tables of tensors of GPT-2's layout, of Llama's, which Qwen and Gemma have too, and of Phi 3's, which joins
// Llama's matrices.
#include "terrace/models/gpt/hf_layout.h"

#include <fmt/format.h>

#include "terrace/models/gpt/hf_kind.h"

namespace terrace::models::gpt {
namespace {

using Shape = std::vector<int64_t>;

class Table {
 public:
  explicit Table(const ModelConfig& config) : config_(config) {}

  std::vector<HfTensor> gpt2() {
    const int64_t width = config_.width, inner = config_.ffn_width;
    add_rows("transformer.wte.weight", "embedding.tokens.weight");
    add("transformer.wpe.weight", {config_.sequence, width}, "embedding.positions.weight");
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string theirs = fmt::format("transformer.h.{}.", layer), ours = fmt::format("blocks.{}.", layer);
      add_layer_norm(theirs + "ln_1", ours + "attention_norm");
      // Conv1D stores [inputs, outputs], with all queries before all keys and all keys before all values.
      add(theirs + "attn.c_attn.weight", {width, 3 * width}, ours + "attention.qkv.weight",
          [groups = by_group()](const at::Tensor& joint) {
            return groups(joint).permute({3, 1, 0, 2});
          });
      add(theirs + "attn.c_attn.bias", {3 * width}, config_.has_qkv_bias() ? ours + "attention.qkv.bias" : "",
          [groups = by_group()](const at::Tensor& joint) { return groups(joint).transpose(0, 1); });
      add_conv(theirs + "attn.c_proj", width, width, ours + "attention.output");
      add_layer_norm(theirs + "ln_2", ours + "ffn_norm");
      add_conv(theirs + "mlp.c_fc", width, inner, ours + "ffn.first");
      add_conv(theirs + "mlp.c_proj", inner, width, ours + "ffn.second");
    }
    add_layer_norm("transformer.ln_f", "head.norm");
    add_head();
    return std::move(tensors_);
  }

  // With `joined` matrices of queries, keys and values, and of gate and up.
  std::vector<HfTensor> llama(bool joined) {
    const int64_t width = config_.width, inner = config_.ffn_width, queries = config_.heads / config_.kv_heads;
    add_rows("model.embed_tokens.weight", "embedding.tokens.weight");
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string theirs = fmt::format("model.layers.{}.", layer), ours = fmt::format("blocks.{}.", layer);
      add(theirs + "input_layernorm.weight", {width}, ours + "attention_norm.weight");
      if (joined) {
        add(theirs + "self_attn.qkv_proj.weight", {(config_.heads + 2 * config_.kv_heads) * config_.head_dim, width},
            ours + "attention.qkv.weight", {heads(0, queries), heads(queries, 1), heads(queries + 1, 1)});
      } else {
        add_heads(theirs + "self_attn.q_proj", 0, queries, ours + "attention.qkv");
        add_heads(theirs + "self_attn.k_proj", queries, 1, ours + "attention.qkv");
        add_heads(theirs + "self_attn.v_proj", queries + 1, 1, ours + "attention.qkv");
      }
      add_linear(theirs + "self_attn.o_proj", config_.heads * config_.head_dim, width, ours + "attention.output",
                 config_.bias);
      if (config_.qk_norm) {
        add(theirs + "self_attn.q_norm.weight", {config_.head_dim}, ours + "attention.query_norm.weight");
        add(theirs + "self_attn.k_norm.weight", {config_.head_dim}, ours + "attention.key_norm.weight");
      }
      if (config_.post_norms) {
        add(theirs + "post_attention_layernorm.weight", {width}, ours + "attention.output_norm.weight");
        add(theirs + "pre_feedforward_layernorm.weight", {width}, ours + "ffn_norm.weight");
        add(theirs + "post_feedforward_layernorm.weight", {width}, ours + "ffn_output_norm.weight");
      } else {
        add(theirs + "post_attention_layernorm.weight", {width}, ours + "ffn_norm.weight");
      }
      if (config_.experts.number > 0 && layer >= config_.experts.dense_layers) {
        add_experts(theirs, ours + "ffn");
      } else if (joined) {
        add(theirs + "mlp.gate_up_proj.weight", {2 * inner, width}, ours + "ffn.first.weight",
            {one_of_pairs(inner, 0), one_of_pairs(inner, 1)});
        add_linear(theirs + "mlp.down_proj", inner, width, ours + "ffn.second", config_.bias);
      } else {
        add_gated(theirs + "mlp", {"gate_proj", "up_proj", "down_proj"}, ours + "ffn", inner, config_.bias);
      }
    }
    add("model.norm.weight", {width}, "head.norm.weight");
    add_head();
    return std::move(tensors_);
  }

 private:
  using View = std::function<at::Tensor(const at::Tensor&)>;
  using Views = std::vector<View>;

  static at::Tensor whole(const at::Tensor& parameter) { return parameter; }

  // Rows of the joint projection as [groups, queries + 2, head_dim, ...].
  View by_group() const {
    const Shape rows = {config_.kv_heads, config_.heads / config_.kv_heads + 2, config_.head_dim};
    return [rows](const at::Tensor& joint) { return joint.unflatten(0, rows); };
  }

  // The heads first .. first + count - 1 of each group.
  View heads(int64_t first, int64_t count) const {
    return
        [groups = by_group(), first, count](const at::Tensor& joint) { return groups(joint).narrow(1, first, count); };
  }

  // Rows of SwiGLU's first matrix are pairs of gate and up.
  static View one_of_pairs(int64_t inner, int64_t which) {
    return [inner, which](const at::Tensor& first) { return first.unflatten(0, {inner, 2}).select(1, which); };
  }

  // The names of the three matrices.
  struct GatedNames {
    const char *gate, *up, *down;
  };

  void add_gated(const std::string& theirs, const GatedNames& names, const std::string& ours, int64_t inner,
                 bool bias) {
    const int64_t width = config_.width;
    add_linear(theirs + "." + names.gate, width, inner, ours + ".first", bias, one_of_pairs(inner, 0));
    add_linear(theirs + "." + names.up, width, inner, ours + ".first", bias, one_of_pairs(inner, 1));
    add_linear(theirs + "." + names.down, inner, width, ours + ".second", bias);
  }

  void add_experts(const std::string& theirs, const std::string& ours) {
    const ExpertsConfig& experts = config_.experts;
    const bool mixtral = hf_kind(config_) == HfKind::mixtral;
    const std::string block = theirs + (mixtral ? "block_sparse_moe" : "mlp");
    const GatedNames names = mixtral ? GatedNames{"w1", "w3", "w2"} : GatedNames{"gate_proj", "up_proj", "down_proj"};
    add_linear(block + ".gate", config_.width, experts.number, ours + ".router", false);
    for (int64_t expert = 0; expert < experts.number; ++expert) {
      const std::string one = fmt::format("{}.experts.{}.", block, expert);
      const auto half = [inner = experts.width, expert](int64_t which) -> View {
        return [pairs = one_of_pairs(inner, which), expert](const at::Tensor& all) {
          return pairs(all.select(0, expert));
        };
      };
      const Shape first = {experts.width, config_.width}, second = {config_.width, experts.width};
      add(one + names.gate + ".weight", first, ours + ".experts.first.weight", half(0));
      add(one + names.up + ".weight", first, ours + ".experts.first.weight", half(1));
      add(one + names.down + ".weight", second, ours + ".experts.second.weight",
          [expert](const at::Tensor& all) { return all.select(0, expert); });
    }
    if (experts.shared == 0) return;
    add_gated(block + ".shared_expert", names, ours + ".shared", experts.shared * experts.width, false);
    if (experts.shared_gate) add_linear(block + ".shared_expert_gate", config_.width, 1, ours + ".shared_gate", false);
  }

  void add(std::string name, Shape shape, std::string parameter, View view = whole) {
    add(std::move(name), std::move(shape), std::move(parameter), Views{std::move(view)});
  }

  void add(std::string name, Shape shape, std::string parameter, Views views) {
    tensors_.push_back({std::move(name), std::move(shape), std::move(parameter), std::move(views)});
  }

  void add_bias(std::string name, Shape shape, std::string parameter) {
    add(std::move(name), std::move(shape), config_.bias ? std::move(parameter) : "");
  }

  // Adds a table without the rows that pad the vocabulary.
  void add_rows(std::string name, std::string parameter) {
    add(std::move(name), {config_.vocabulary, config_.width}, std::move(parameter),
        [rows = config_.vocabulary](const at::Tensor& table) { return table.narrow(0, 0, rows); });
  }

  void add_head() {
    if (!config_.tied_head) add_rows("lm_head.weight", "head.output.weight");
  }

  void add_layer_norm(const std::string& theirs, const std::string& ours) {
    add(theirs + ".weight", {config_.width}, ours + ".weight");
    add_bias(theirs + ".bias", {config_.width}, ours + ".bias");
  }

  void add_conv(const std::string& theirs, int64_t inputs, int64_t outputs, const std::string& ours) {
    add(theirs + ".weight", {inputs, outputs}, ours + ".weight", [](const at::Tensor& weight) { return weight.t(); });
    add_bias(theirs + ".bias", {outputs}, ours + ".bias");
  }

  void add_linear(const std::string& theirs, int64_t inputs, int64_t outputs, const std::string& ours, bool bias,
                  const View& view = whole) {
    add(theirs + ".weight", {outputs, inputs}, ours + ".weight", view);
    if (bias) add(theirs + ".bias", {outputs}, ours + ".bias", view);
  }

  void add_heads(const std::string& theirs, int64_t first, int64_t count, const std::string& ours) {
    add_linear(theirs, config_.width, config_.kv_heads * count * config_.head_dim, ours, config_.has_qkv_bias(),
               heads(first, count));
  }

  ModelConfig config_;
  std::vector<HfTensor> tensors_;
};

}  // namespace

std::vector<HfTensor> hf_tensors(const ModelConfig& config) {
  Table table(config);
  const HfKind kind = hf_kind(config);
  return kind == HfKind::gpt2 ? table.gpt2() : table.llama(/*joined=*/kind == HfKind::phi3);
}

}  // namespace terrace::models::gpt
