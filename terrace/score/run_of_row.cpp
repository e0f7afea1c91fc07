// Reads what each cell means, as the field writes it in tables of runs.
#include "terrace/score/run_of_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "terrace/base/error.h"
#include "terrace/base/text/lower_case.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/machine/machine.h"
#include "terrace/machine/software.h"
#include "terrace/models/planned_families.h"

namespace terrace::score {
namespace {

// The numbers of a row that a configuration needs; 0: not stated.
struct Numbers {
  int64_t layers = 0, width = 0, heads = 0, sequence = 0, vocabulary = 0;
  int64_t devices = 0, tensor = 1, context = 1, pipeline = 1, chunks = 0, global_batch = 0, micro_batch = 0;

  int64_t data() const { return devices / (tensor * context * pipeline); }
};

// The vocabulary of GPT-2, padded as Megatron-LM pads it, of tables that do not state one.
constexpr int64_t usual_vocabulary = 51'200;
// Micro-batches that a run may have had where its table states none.
constexpr int64_t likely_micro_batches[] = {1, 2, 4, 8};

class RowReader {
 public:
  RowReader(const PublishedTable& table, const PublishedTable::Row& row, const Given& given)
      : table_(table), row_(row), given_(given) {
    run_.table = table.file();
    run_.line = row.line;
    run_.name = row.of(Column::id);
    run_.model = row.of(Column::model);
  }

  PublishedRun run() {
    read_numbers();
    refuse_what_is_unknown();
    choose_machine();
    choose_software();
    choose_products();
    read_measured();
    if (run_.problems.empty()) add_configs();
    return run_;
  }

 private:
  bool has(Column column, std::string_view word) const {
    return lower_case(row_.of(column)).find(word) != std::string::npos;
  }
  void refuse(std::string problem) { run_.problems.push_back(std::move(problem)); }

  // The number of a cell; `absent` if the table says nothing, and a problem if the cell is no number.
  int64_t whole(Column column, std::string_view what, int64_t absent) {
    const std::string& cell = row_.of(column);
    if (cell.empty()) return absent;
    const std::optional<int64_t> value = whole_number(cell);
    if (!value || *value < 0) refuse(fmt::format("{} is \"{}\" and no whole number", what, cell));
    return value.value_or(absent);
  }
  int64_t needed(Column column, std::string_view what) {
    const int64_t value = whole(column, what, 0);
    if (value == 0 && row_.of(column).empty()) refuse(fmt::format("{} not published", what));
    return value;
  }

  void read_numbers() {
    numbers_ = {.layers = needed(Column::layers, "layers"),
                .width = needed(Column::width, "width"),
                .heads = needed(Column::heads, "heads"),
                .sequence = needed(Column::sequence, "sequence length"),
                .vocabulary = whole(Column::vocabulary, "vocabulary", usual_vocabulary),
                .devices = needed(Column::devices, "number of devices"),
                .tensor = laid_out(Column::tensor, "tensor size"),
                .context = std::max<int64_t>(1, whole(Column::context, "context size", 1)),
                .pipeline = laid_out(Column::pipeline, "pipeline size"),
                .chunks = whole(Column::chunks, "chunks", table_.has(Column::chunks) ? 0 : 1),
                .global_batch = needed(Column::global_batch, "global batch"),
                .micro_batch = whole(Column::micro_batch, "micro-batch", 0)};
    const int64_t model = std::max<int64_t>(1, numbers_.tensor * numbers_.context * numbers_.pipeline);
    if (numbers_.devices % model != 0) {
      refuse(fmt::format("tensor {}{} and pipeline {} do not divide {} devices", numbers_.tensor,
                         numbers_.context > 1 ? fmt::format(", context {}", numbers_.context) : "", numbers_.pipeline,
                         numbers_.devices));
    } else if (numbers_.data() > 0 && numbers_.global_batch % numbers_.data() != 0) {
      refuse(fmt::format("{} sequences do not divide among {} data-parallel ranks", numbers_.global_batch,
                         numbers_.data()));
    }
  }
  // A size of the layout: 1 if the table has no such column, but not if this row leaves it out.
  int64_t laid_out(Column column, std::string_view what) {
    return table_.has(column) ? std::max<int64_t>(1, needed(column, what)) : 1;
  }

  void refuse_what_is_unknown() {
    const auto above_one = [&](Column column) { return whole_number(row_.of(column)).value_or(0) > 1; };
    if (above_one(Column::experts) || above_one(Column::expert_parallel)) refuse("mixtures of experts are not planned");
    const std::string& complete = row_.of(Column::complete);
    if (!complete.empty() && lower_case(complete) != "yes") {
      refuse(fmt::format("the table calls the row incomplete: {}", complete));
    }
  }

  void choose_machine() {
    const std::string said = row_.of(Column::machine);
    const std::string name = given_.machine.empty() ? machine::named_in(said) : given_.machine;
    if (name.empty()) {
      return refuse(said.empty() ? "the machine is not stated; name it by --machine"
                                 : fmt::format("no machine is known as \"{}\"; name one by --machine", said));
    }
    run_.machine = name;
    run_.target.machine = machine::load(name);
    run_.target.devices = numbers_.devices;
    const int64_t in_node = run_.target.machine.devices_of("node");
    const int64_t stated = whole(Column::devices_per_node, "number of devices of a node", in_node);
    if (stated != in_node) {
      refuse(fmt::format("nodes of {} devices, where {} has {}; name another by --machine", stated, name, in_node));
    }
    fit_network();
  }

  // A table's bandwidth of a node in place of the machine's, where the two are not the same but for what of a link is
  // reached. It is a number of links, so that a device's share of them is a whole number of quarters.
  void fit_network() {
    const std::optional<double> stated = number(row_.of(Column::network));
    std::vector<machine::Tier>& tiers = run_.target.machine.tiers;
    if (!stated || *stated <= 0 || tiers.size() < 2) return;
    const int64_t in_node = run_.target.machine.devices_of("node");
    const auto first = std::ranges::find_if(tiers, [&](const machine::Tier& tier) { return tier.devices > in_node; });
    if (first == tiers.end()) return;
    const double links = static_cast<double>(in_node) / first->devices_per_link;
    const double ratio = links * first->link_bandwidth / (*stated * 1e9 / 8);
    if (ratio > 0.8 && ratio < 1.25) return;
    first->devices_per_link = std::max(0.25, std::round(4 * ratio * first->devices_per_link) / 4);
    run_.notes.push_back(fmt::format("{:g} Gb/s of a node: {:g} links", *stated,
                                     static_cast<double>(in_node) / first->devices_per_link));
  }

  void choose_software() {
    const std::string said = row_.of(Column::software);
    std::string name = given_.software.empty() ? machine::software_named_in(said) : given_.software;
    if (name.empty()) {
      return refuse(said.empty() ? "the program is not stated; name it by --software"
                                 : fmt::format("no program is known as \"{}\"; name one by --software", said));
    }
    const std::string eager = name + "-eager";
    const std::vector<std::string> all = machine::software_names();
    if (given_.software.empty() && has(Column::compile, "no") && std::ranges::find(all, eager) != all.end())
      name = eager;
    machine::Software& software = run_.target.software = machine::load_software(name);
    if (has(Column::notes, "async tp") || has(Column::notes, "asynchronous tensor")) {
      software.sums_while_computing = true;
      run_.notes.push_back("sums of tensor parallelism overlap, as the row says");
    }
    const bool unfused = has(Column::arch, "no flash") || lower_case(row_.of(Column::fused)) == "no";
    if (unfused && software.fused_attention) {
      software.fused_attention = false;
      software.score_passes = machine::load_software("megatron").score_passes;
      run_.notes.push_back("attention is not fused, as the row says");
    }
  }

  // A row in 8-bit floats has them in the products of blocks alone, as --products fp8 plans it.
  void choose_products() {
    if (!has(Column::precision, "fp8")) return;
    run_.target.block_products = plan::BlockProducts::fp8;
    run_.notes.emplace_back("products of blocks in fp8, all else as in a run in bf16");
  }

  // The time of a step: as published, or of the tokens a second, or by the FLOP/s.
  void read_measured() {
    const auto of = [&](Column column) { return number(row_.of(column)).value_or(0); };
    const auto tokens = static_cast<double>(numbers_.global_batch * numbers_.sequence);
    if (of(Column::seconds) > 0) {
      run_.seconds = of(Column::seconds);
    } else if (of(Column::milliseconds) > 0) {
      run_.seconds = of(Column::milliseconds) / 1e3;
    } else if (of(Column::tokens) > 0) {
      run_.seconds = tokens / of(Column::tokens);
    } else if (of(Column::tokens_of_device) > 0) {
      run_.seconds =
          tokens / of(Column::tokens_of_device) / static_cast<double>(std::max<int64_t>(1, numbers_.devices));
    } else if (of(Column::flops) > 0) {
      run_.flops_rate = 1e12 * of(Column::flops);
    } else if (of(Column::executed_flops) > 0) {
      run_.flops_rate = 1e12 * of(Column::executed_flops);
      run_.counts_recompute = true;
    } else {
      refuse("the time of a step is not published");
    }
    const double gib = of(Column::memory), gb = of(Column::memory_gb);
    run_.memory_bytes = gib > 0 ? gib * 1073741824.0 : gb * 1e9;
  }

  std::string precision() const {
    if (has(Column::precision, "bf16") || has(Column::precision, "fp8")) return "bf16";
    return has(Column::precision, "fp32") ? "fp32" : "fp16";
  }

  // The type of gradients: as stated, or fp32 beside bf16 and fp16 beside fp16, as Megatron-LM has it.
  std::string gradient_type() const {
    for (const char* type : {"bf16", "fp16", "fp32"}) {
      if (has(Column::gradient_type, type)) return type;
    }
    return precision() == "fp16" ? "fp16" : "fp32";
  }

  std::string recompute() const {
    const std::string cell = lower_case(row_.of(Column::recompute));
    return cell.starts_with("full") ? "full" : cell.starts_with("select") ? "selective" : "none";
  }

  std::string sharding() const {
    const std::string cell = lower_case(row_.of(Column::sharding));
    const auto says = [&](std::string_view word) { return cell.find(word) != std::string::npos; };
    if (says("hsdp") || says("hybrid")) return "hybrid";
    if (says("grad_op") || says("zero2") || cell == "2") return "zero2";
    if (says("zero3") || says("fsdp") || says("full_shard") || cell == "3") return "zero3";
    if (says("zero1") || says("distopt") || cell == "1") return "zero1";
    return "ddp";
  }

  // Whether the row's architecture or model has the word.
  bool names_model(std::string_view word) const { return has(Column::arch, word) || has(Column::model, word); }

  // [model], as TOML.
  std::string model_text() {
    const auto says = [&](std::string_view word) { return names_model(word); };
    const bool is_llama = says("llama"), is_neox = says("neox") || says("forge");
    std::string text = fmt::format(
        "[model]\nfamily = \"gpt\"\nlayers = {}\nwidth = {}\nheads = {}\nsequence = {}\nvocabulary = {}\n"
        "vocabulary_multiple = {}\n",
        numbers_.layers, numbers_.width, numbers_.heads, numbers_.sequence, numbers_.vocabulary, 128 * numbers_.tensor);
    if (const int64_t kv = whole(Column::kv_heads, "heads of keys and values", 0); kv > 0) {
      text += fmt::format("kv_heads = {}\n", kv);
    }
    int64_t ffn = whole(Column::ffn_width, "width of the feed-forward", 0);
    if (ffn == 0 && is_llama) ffn = (8 * numbers_.width / 3 + 255) / 256 * 256;
    if (ffn > 0) text += fmt::format("ffn_width = {}\n", ffn);
    if (is_llama) text += "activation = \"swiglu\"\nnorm = \"rmsnorm\"\nbias = false\n";
    if (is_llama || is_neox || says("rotary")) text += "positions = \"rotary\"\n";
    const bool is_tied = has(Column::tied, "yes") || (row_.of(Column::tied).empty() && !is_llama && !is_neox);
    if (!is_tied) text += "tied_head = false\n";
    if (const std::optional<double> rate = number(row_.of(Column::dropout)); rate && *rate > 0) {
      text += fmt::format("dropout = {}\n", *rate);
    }
    if (says("alibi")) run_.notes.emplace_back("ALiBi counts as learned positions");
    return text;
  }

  // [train] and [layout] with one of the likely micro-batches and chunks, as TOML.
  std::string run_text(int64_t micro_batch, int64_t chunks) const {
    std::string text = fmt::format(
        "[train]\nsteps = 1000\nglobal_batch = {}\nmicro_batch = {}\nprecision = \"{}\"\ngradient_type = \"{}\"\n"
        "recompute = \"{}\"\n[layout]\ntensor = {}\npipeline = {}\nsharding = \"{}\"\n",
        numbers_.global_batch, micro_batch, precision(), gradient_type(), recompute(), numbers_.tensor,
        numbers_.pipeline, sharding());
    const std::string cut = lower_case(row_.of(Column::sequence_parallel));
    const bool is_cut = cut.empty() ? names_model("llama") : cut == "yes" || cut == "1" || cut == "true";
    if (numbers_.tensor > 1 && is_cut) text += "sequence_parallel = true\n";
    if (numbers_.context > 1) text += fmt::format("context = {}\n", numbers_.context);
    if (chunks > 1) text += fmt::format("schedule = \"interleaved\"\nchunks = {}\n", chunks);
    if (sharding() == "hybrid") {
      if (const std::optional<int64_t> group = whole_number(row_.of(Column::data))) {
        text += fmt::format("shard_group = {}\n", *group);
      }
    }
    const int64_t virtual_stages = numbers_.pipeline * std::max<int64_t>(1, chunks);
    if (numbers_.pipeline > 1 && (numbers_.layers + 2) % virtual_stages == 0 && numbers_.layers % virtual_stages != 0) {
      std::vector<int64_t> layers(static_cast<size_t>(virtual_stages), (numbers_.layers + 2) / virtual_stages);
      --layers.front();
      --layers.back();
      text += fmt::format("stage_layers = [{}]\n", fmt::join(layers, ", "));
    }
    return text;
  }

  std::vector<int64_t> likely_chunks(int64_t micro_batches) const {
    if (numbers_.chunks > 0) return {numbers_.chunks};
    std::vector<int64_t> likely = {1};
    const bool interleaves = numbers_.pipeline > 1 && micro_batches % numbers_.pipeline == 0;
    const int64_t layers = numbers_.layers / numbers_.pipeline;
    for (int64_t chunks = 2; interleaves && chunks <= layers; ++chunks) {
      if (layers % chunks == 0) likely.push_back(chunks);
    }
    return likely;
  }

  void add_configs() {
    const std::string where = fmt::format("{}:{}", table_.file(), row_.line), model = model_text();
    const int64_t sequences = numbers_.global_batch / numbers_.data();
    std::vector<int64_t> micro_batches = {numbers_.micro_batch};
    if (numbers_.micro_batch == 0)
      micro_batches.assign(std::begin(likely_micro_batches), std::end(likely_micro_batches));
    std::string problem;
    for (const int64_t micro_batch : micro_batches) {
      if (micro_batch > 0 && sequences % micro_batch != 0) {
        problem =
            fmt::format("{} sequences of a replica are no multiple of the micro-batch {}", sequences, micro_batch);
        continue;
      }
      for (const int64_t chunks : likely_chunks(sequences / std::max<int64_t>(1, micro_batch))) {
        try {
          run_.configs.push_back(config::parse_for_plan(model + run_text(micro_batch, chunks), where,
                                                        models::planned_families(), given_.overrides));
        } catch (const UserError& error) {
          problem = error.what();
        }
      }
    }
    if (run_.configs.empty()) refuse(problem);
  }

  const PublishedTable& table_;
  const PublishedTable::Row& row_;
  const Given& given_;
  Numbers numbers_;
  PublishedRun run_;
};

}  // namespace

std::vector<PublishedRun> runs_of(const PublishedTable& table, const Given& given) {
  std::vector<PublishedRun> runs;
  for (const PublishedTable::Row& row : table.rows()) runs.push_back(RowReader(table, row, given).run());
  return runs;
}

}  // namespace terrace::score
