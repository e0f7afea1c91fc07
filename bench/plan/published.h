// Published step times of training runs, and the configurations that describe these runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/config.h"
#include "terrace/models/gpt/planned_gpt.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::bench {

struct PublishedRun {
  std::string name = {};   // of the row, if it has one
  std::string model = {};  // by which runs are grouped
  int64_t devices = 0;
  int64_t global_batch = 0, micro_batch = 0;  // sequences
  int64_t width = 0, heads = 0, layers = 0, sequence = 0;
  int64_t tensor = 1, data = 1, pipeline = 1;
  double seconds = 0;          // of a step, as measured
  double flops_rate = 0;       // where FLOP/s a device were published in place of seconds; attention counts in full
  int64_t vocabulary = 51200;  // GPT-2's, padded as Megatron-LM pads it
  config::Precision precision = config::Precision::fp16;
  config::Recompute recompute = config::Recompute::full;
  config::Sharding sharding = config::Sharding::ddp;
  double dropout = 0;     // on hidden states
  bool is_llama = false;  // RMSNorm, SwiGLU of Llama's width, rotary positions, no biases, a head of its own
  bool tied_head = true, sequence_parallel = false;
  bool is_forge = false;  // rotary positions, a head of its own, gradients of 16 bits (bench/plan/data/README.md)
  int64_t ffn_width = 0, kv_heads = 0;  // 0: as usual
  int64_t shard_group = 0;              // ranks that share a copy, with hybrid sharding
  int64_t chunks = 1;                   // model chunks a stage: one forward and one backward in turn, or interleaved
  std::vector<int64_t> stage_layers = {};
  std::string machine = {}, software = {};
  std::string missing = {};  // why the run cannot be predicted; "" where it can
};

inline std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) {
    std::erase(cell, '\r');
    cells.push_back(cell);
  }
  return cells;
}

using Row = std::map<std::string, std::string>;  // cells by heading

inline std::vector<Row> rows_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) throw UserError::of("{} cannot be read", path.string());
  const std::vector<std::string> headings = cells_of(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    Row& row = rows.emplace_back();
    for (size_t i = 0; i < std::min(cells.size(), headings.size()); ++i) row[headings[i]] = cells[i];
  }
  return rows;
}

// The default of Megatron-LM's --hidden-dropout, from which no table says that it departs.
inline constexpr double megatron_dropout = 0.1;

// Runs of GPT models on A100 with Megatron-LM (vTrain, Bang et al., MICRO 2024, arXiv 2312.12391): one row a run, with
// the columns that the authors published.
inline std::vector<PublishedRun> read_vtrain(const std::filesystem::path& path) {
  std::vector<PublishedRun> runs;
  for (const Row& row : rows_of(path)) {
    const auto whole = [&](const char* heading) { return std::stoll(row.at(heading)); };
    const auto named = row.find("Parameters (billion)");
    runs.push_back({.model = named != row.end() ? named->second + "B" : "width " + row.at("hidden size"),
                    .devices = whole("# GPUs"),
                    .global_batch = whole("global batch"),
                    .micro_batch = whole("micro batch"),
                    .width = whole("hidden size"),
                    .heads = whole("attention heads"),
                    .layers = whole("# layers"),
                    .sequence = whole("sequence length"),
                    .tensor = whole("tensor parallelism"),
                    .data = whole("data parallelism"),
                    .pipeline = whole("pipeline parallelism"),
                    .seconds = std::stod(row.at("iteration time (ms)")) / 1e3,
                    .dropout = megatron_dropout});
  }
  return runs;
}

// The whole number of a cell; 0 where it is empty.
inline int64_t whole(const Row& row, const char* heading) {
  const std::string& cell = row.at(heading);
  return cell.empty() ? 0 : std::stoll(cell);
}

// The columns that the tables of runs on NVIDIA's devices have in common.
inline PublishedRun run_of_row(const Row& row) {
  PublishedRun run{.devices = whole(row, "gpus"),
                   .global_batch = whole(row, "gbs"),
                   .micro_batch = whole(row, "mbs"),
                   .width = whole(row, "hidden"),
                   .heads = whole(row, "heads"),
                   .layers = whole(row, "layers"),
                   .sequence = whole(row, "seq"),
                   .tensor = whole(row, "tp"),
                   .pipeline = whole(row, "pp")};
  run.data = run.devices / run.tensor / run.pipeline;
  return run;
}

// A run of the tables of Megatron-LM's authors and of the zero-bubble study.
inline PublishedRun megatron_run(const Row& row) {
  PublishedRun run = run_of_row(row);
  run.model = row.at("model");
  run.seconds = std::stod(row.at("sec_per_iter"));
  run.dropout = megatron_dropout;
  run.chunks = whole(row, "vpp");
  return run;
}

// The first and the last chunk have one layer less than the others.
inline void shorten_ends(PublishedRun& run) {
  const int64_t chunks = run.pipeline * run.chunks;
  run.stage_layers.assign(static_cast<size_t>(chunks), (run.layers + 2) / chunks);
  --run.stage_layers.front();
  --run.stage_layers.back();
}

// Megatron-LM on Selene (Narayanan et al., SC 2021, arXiv 2104.04473, table 1), of up to 1,008 billion parameters on
// 3,072 A100; a step's time follows from the published FLOP/s.
inline std::vector<PublishedRun> read_sc21(const std::filesystem::path& path) {
  std::vector<PublishedRun> runs;
  for (const Row& row : rows_of(path)) runs.push_back(megatron_run(row));
  return runs;
}

// Pipelines of 8 to 32 stages with Megatron-LM of 2023, without tensor parallelism (Qi et al., arXiv 2401.10241, tables
// 4 to 8). The first and the last chunk have one layer less than the others. The vocabulary, which is not published, is
// that of the study's tokenizer with which the models have their published sizes; nothing is recomputed and attention
// is not fused, as the published memory shows.
inline std::vector<PublishedRun> read_zero_bubble(const std::filesystem::path& path) {
  std::vector<PublishedRun> runs;
  for (const Row& row : rows_of(path)) {
    if (row.at("sec_per_iter").empty()) continue;
    PublishedRun& run = runs.emplace_back(megatron_run(row));
    run.vocabulary = 32000;
    run.recompute = config::Recompute::none;
    shorten_ends(run);
  }
  return runs;
}

// The program of a row, and the machine with the libraries of its time.
inline void choose_program(const Row& row, PublishedRun& run) {
  const std::string& id = row.at("id");
  run.machine = id.starts_with("LUMI") ? "lumi" : "frontier-early-2023";
  run.software = "megatron-deepspeed";
  if (id.starts_with("FORGE")) run.software = "gpt-neox";
  if (id.starts_with("TT-")) run.software = "torchtitan";
  if (id.starts_with("FA-"))
    run.software = "deepspeed-zero3";  // accelerate's FSDP, which divides and overlaps as it does
  // These runs are of 2024, or the study's own figures, which are later than its logs.
  if (id.starts_with("TT-") || id.starts_with("FA-") || id.ends_with("-paper")) run.machine = "frontier";
}

// Runs on MI250X, of Frontier and LUMI; each row has its provenance. "320 (effective)" counts as 320, and what is
// called unconfirmed as it stands. A time that is not published follows from the tokens per second of a die.
inline std::vector<PublishedRun> read_mi250x(const std::filesystem::path& path) {
  std::vector<PublishedRun> runs;
  for (const Row& row : rows_of(path)) {
    PublishedRun& run = runs.emplace_back();
    run.name = row.at("id");
    run.model = row.at("system");
    choose_program(row, run);
    for (const auto& [heading, word] : {std::pair{"n_gcd", "dies"},
                                        {"tp", "tensor"},
                                        {"pp", "pipeline"},
                                        {"mbs", "micro-batch"},
                                        {"gbs_seqs", "batch"}}) {
      if (!row.at(heading).empty()) continue;
      run.missing += (run.missing.empty() ? "not published: " : ", ") + std::string(word);
    }
    if (!run.missing.empty()) continue;
    const auto whole = [&](const char* heading) { return std::stoll(row.at(heading)); };
    run.devices = whole("n_gcd");
    run.global_batch = whole("gbs_seqs");
    run.micro_batch = whole("mbs");
    run.width = whole("hidden");
    run.heads = whole("heads");
    run.layers = whole("layers");
    run.sequence = whole("seq");
    run.tensor = whole("tp");
    run.pipeline = whole("pp");
    run.data = run.devices / run.tensor / run.pipeline;
    if (run.global_batch % run.data != 0) {
      run.missing = "unconfirmed: " + std::to_string(run.global_batch) + " sequences on " + std::to_string(run.data) +
                    " data-parallel ranks";
      continue;
    }
    const std::string vocabulary = row.at("vocab");
    run.vocabulary = std::stoll(vocabulary.substr(vocabulary.front() == '~' ? 1 : 0));
    run.precision = row.at("precision") == "bf16" ? config::Precision::bf16 : config::Precision::fp16;
    run.recompute = row.at("recompute") == "full"           ? config::Recompute::full
                    : row.at("recompute") == "selective-op" ? config::Recompute::selective
                                                            : config::Recompute::none;
    run.sharding = config::Sharding::zero1;
    if (row.at("zero") == "3") run.sharding = config::Sharding::zero3;
    if (row.at("zero") == "HSDP") {
      run.sharding = config::Sharding::hybrid;
      run.shard_group = whole("dp");  // "32 shard x 20 repl"
    }
    run.is_llama = row.at("model").starts_with("Llama");
    if (row.at("model").starts_with("Llama3")) {
      run.ffn_width = 14336;
      run.kv_heads = 8;
    }
    run.is_forge = row.at("model").starts_with("FORGE");
    const double tokens = static_cast<double>(run.global_batch * run.sequence);
    run.seconds = !row.at("sec_per_iter").empty() && row.at("sec_per_iter").front() != '~'
                      ? std::stod(row.at("sec_per_iter"))
                      : tokens / std::stod(row.at("tok_s_gcd")) / static_cast<double>(run.devices);
  }
  return runs;
}

inline const std::vector<int64_t> likely_micro_batches = {1, 2, 4, 8};

// The chunks of a stage that a run may have had: those that were published, or else all that divide its layers.
inline std::vector<int64_t> likely_chunks(const PublishedRun& run, int64_t micro_batches) {
  if (run.chunks > 0) return {run.chunks};
  std::vector<int64_t> likely = {1};
  const int64_t layers = run.layers / run.pipeline;
  const bool interleaves = run.pipeline > 1 && micro_batches % run.pipeline == 0;
  for (int64_t chunks = 2; interleaves && chunks <= layers; ++chunks) {
    if (layers % chunks == 0) likely.push_back(chunks);
  }
  return likely;
}

// The run, or where its micro-batch or chunks were not published all that it may have been.
inline std::vector<PublishedRun> likely_runs(const PublishedRun& run) {
  std::vector<PublishedRun> runs;
  const int64_t sequences = run.global_batch / run.data;
  for (const int64_t micro_batch : run.micro_batch > 0 ? std::vector{run.micro_batch} : likely_micro_batches) {
    if (sequences % micro_batch != 0) continue;
    for (const int64_t chunks : likely_chunks(run, sequences / micro_batch)) {
      runs.push_back(run);
      runs.back().micro_batch = micro_batch;
      runs.back().chunks = chunks;
    }
  }
  return runs;
}

// Runs on H100: for each row what likely_runs() makes of it.
inline std::vector<std::vector<PublishedRun>> read_h100(const std::filesystem::path& path) {
  std::vector<std::vector<PublishedRun>> rows;
  for (const Row& row : rows_of(path)) {
    PublishedRun run = run_of_row(row);
    run.name = row.at("id");
    run.vocabulary = whole(row, "vocab");
    run.precision = config::Precision::bf16;
    run.ffn_width = whole(row, "ffn");
    run.kv_heads = whole(row, "kv_heads");
    run.chunks = whole(row, "chunks");
    run.machine = row.at("machine");
    run.software = row.at("software");
    run.recompute = row.at("recompute") == "full"        ? config::Recompute::full
                    : row.at("recompute") == "selective" ? config::Recompute::selective
                                                         : config::Recompute::none;
    run.sharding = row.at("sharding") == "zero3" ? config::Sharding::zero3 : config::Sharding::zero1;
    run.is_llama = run.kv_heads > 0;
    run.tied_head = false;
    run.sequence_parallel = run.tensor > 1;
    if (run.layers % run.pipeline != 0) shorten_ends(run);
    const double per_device = static_cast<double>(run.global_batch * run.sequence) / static_cast<double>(run.devices);
    if (!row.at("tflops_gpu").empty()) run.flops_rate = 1e12 * std::stod(row.at("tflops_gpu"));
    if (!row.at("tokens_s_gpu").empty()) run.seconds = per_device / std::stod(row.at("tokens_s_gpu"));
    rows.push_back(likely_runs(run));
  }
  return rows;
}

// The run with one forward and one backward in turn, interleaved if stages have several chunks.
inline config::Config config_of(const PublishedRun& run) {
  config::Config config = config::config_of(models::gpt::planned_family());
  models::gpt::ModelConfig& model = models::gpt::model_of(config);
  model.layers = run.layers;
  model.width = run.width;
  model.heads = run.heads;
  model.sequence = run.sequence;
  model.vocabulary = run.vocabulary;
  model.vocabulary_multiple = 128 * run.tensor;
  if (run.is_llama) {
    model.ffn_width = run.ffn_width > 0 ? run.ffn_width : (8 * run.width / 3 + 255) / 256 * 256;
    if (run.kv_heads > 0) model.kv_heads = run.kv_heads;
    model.activation = models::gpt::Activation::swiglu;
    model.norm = models::gpt::Norm::rmsnorm;
    model.positions = models::gpt::Positions::rotary;
    model.tied_head = model.bias = false;
  }
  if (!run.tied_head) model.tied_head = false;
  model.dropout = run.dropout;
  if (run.is_forge) {
    model.positions = models::gpt::Positions::rotary;
    model.tied_head = false;
  }
  models::gpt::derive(model);
  config.train.global_batch = run.global_batch;
  config.train.micro_batch = run.micro_batch;
  config.train.precision = run.precision;
  // Gradients of fp16 models are kept and reduced in fp16 (Megatron-LM without --accumulate-allreduce-grads-in-fp32).
  if (run.precision == config::Precision::fp16) config.train.gradient_type = config::Precision::fp16;
  if (run.is_forge) config.train.gradient_type = run.precision;
  config.train.recompute = run.recompute;
  config.layout.tensor = run.tensor;
  config.layout.pipeline = run.pipeline;
  config.layout.sequence_parallel = run.sequence_parallel;
  config.layout.sharding = run.sharding;
  config.layout.stage_layers = run.stage_layers;
  if (run.chunks > 1) {
    config.layout.chunks = run.chunks;
    config.layout.schedule = config::PipelineSchedule::interleaved;
  }
  if (run.shard_group > 0) config.layout.shard_group = run.shard_group;
  return config;
}

}  // namespace terrace::bench
