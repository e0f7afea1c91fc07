// Finds the columns of a table by the names that headings have in publications.
#include "terrace/score/published_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/byte_order_mark.h"
#include "terrace/base/text/csv.h"
#include "terrace/base/text/lower_case.h"

namespace terrace::score {
namespace {

struct Heading {
  Column column;
  std::vector<std::string_view> names;  // in lower case
};

const std::vector<Heading>& headings() {
  static const std::vector<Heading> known = {
      {Column::id, {"id"}},
      {Column::model, {"model", "parameters (billion)"}},
      {Column::arch, {"arch"}},
      {Column::layers, {"layers", "# layers"}},
      {Column::width, {"hidden", "hidden size"}},
      {Column::heads, {"heads", "attention heads"}},
      {Column::kv_heads, {"kv_heads"}},
      {Column::ffn_width, {"ffn"}},
      {Column::vocabulary, {"vocab"}},
      {Column::tied, {"tied"}},
      {Column::sequence, {"seq", "sequence length"}},
      {Column::experts, {"experts"}},
      {Column::machine, {"gpu", "machine", "system"}},
      {Column::devices, {"gpus", "# gpus", "n_gcd", "devices"}},
      {Column::devices_per_node, {"gpus_per_node"}},
      {Column::network, {"net_gbps_per_node"}},
      {Column::software, {"software"}},
      {Column::compile, {"compile"}},
      {Column::fused, {"flash"}},
      {Column::tensor, {"tp", "tensor parallelism"}},
      {Column::sequence_parallel, {"seq_parallel"}},
      {Column::pipeline, {"pp", "pipeline parallelism"}},
      {Column::chunks, {"vpp", "chunks"}},
      {Column::context, {"cp", "context"}},
      {Column::expert_parallel, {"ep"}},
      {Column::data, {"dp", "data parallelism"}},
      {Column::sharding, {"sharding", "zero"}},
      {Column::schedule, {"schedule"}},
      {Column::micro_batch, {"mbs", "micro batch"}},
      {Column::global_batch, {"gbs", "gbs_seqs", "global batch"}},
      {Column::precision, {"precision"}},
      {Column::gradient_type, {"reduce_dtype"}},
      {Column::dropout, {"dropout"}},
      {Column::recompute, {"recompute"}},
      {Column::seconds, {"sec_per_iter"}},
      {Column::milliseconds, {"iteration time (ms)"}},
      {Column::tokens, {"tokens_per_s"}},
      {Column::tokens_of_device, {"tokens_per_s_gpu", "tokens_s_gpu", "tok_s_gcd"}},
      {Column::flops, {"tflops_gpu"}},
      {Column::executed_flops, {"recompute_incl_tflops_gcd", "reported_tflops_gpu_incl_recompute"}},
      {Column::memory, {"mem_gib"}},
      {Column::memory_gb, {"peak_mem_gb"}},
      {Column::complete, {"complete"}},
      {Column::notes, {"notes"}},
  };
  return known;
}

constexpr Column times[] = {Column::seconds,          Column::milliseconds, Column::tokens,
                            Column::tokens_of_device, Column::flops,        Column::executed_flops};

std::optional<Column> column_of(std::string_view heading) {
  const std::string name = lower_case(heading);
  for (const Heading& one : headings()) {
    if (std::ranges::find(one.names, name) != one.names.end()) return one.column;
  }
  return std::nullopt;
}

std::vector<std::string_view> names_of(std::initializer_list<Column> columns) {
  std::vector<std::string_view> names;
  for (const Heading& one : headings()) {
    if (std::ranges::find(columns, one.column) != columns.end()) {
      names.insert(names.end(), one.names.begin(), one.names.end());
    }
  }
  return names;
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string> cells_of(const std::string& line, const std::string& file, int64_t number) {
  const std::optional<std::vector<std::string>> cells = csv_cells(line);
  if (!cells) throw UserError::of("{}:{}: a quotation mark is not closed, or stands inside a cell", file, number);
  return *cells;
}

}  // namespace

PublishedTable::PublishedTable(const std::string& file) : file_(file) {
  std::string content = read_text(file);
  if (content.starts_with(utf8_mark)) content.erase(0, utf8_mark.size());
  std::istringstream text(content);
  std::string line;
  int64_t number = 0;
  while (std::getline(text, line)) {
    ++number;
    if (trimmed(line).empty()) continue;
    if (line.back() == '\r') line.pop_back();
    const std::vector<std::string> cells = cells_of(line, file, number);
    if (columns_.empty()) {
      for (const std::string& heading : cells) {
        columns_.push_back(column_of(trimmed(heading)));
        if (!columns_.back()) unknown_.push_back(heading);
      }
      continue;
    }
    if (cells.size() != columns_.size()) {
      throw UserError::of(
          "{}:{}: the row has {} cells, but the table has {} headings; put cells with commas into "
          "quotation marks",
          file, number, cells.size(), columns_.size());
    }
    Row& row = rows_.emplace_back(Row{.line = number});
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string_view cell = trimmed(cells[i]);
      // The first of two columns with the same meaning counts, if it says something.
      if (columns_[i] && !cell.empty()) row.cells.emplace(*columns_[i], cell);
    }
  }
  if (std::ranges::none_of(times, [&](Column one) { return has(one); })) {
    throw UserError::of("{} has no column with the time of a step; one of these is needed: {}", file,
                        fmt::join(names_of({Column::seconds, Column::milliseconds, Column::tokens,
                                            Column::tokens_of_device, Column::flops, Column::executed_flops}),
                                  ", "));
  }
  if (rows_.empty()) throw UserError::of("{} has no rows below its headings", file);
}

bool PublishedTable::has(Column column) const {
  return std::ranges::find(columns_, std::optional(column)) != columns_.end();
}

const std::string& PublishedTable::Row::of(Column column) const {
  static const std::string none;
  const auto found = cells.find(column);
  return found == cells.end() ? none : found->second;
}

std::optional<int64_t> whole_number(std::string_view cell) {
  if (!cell.empty() && cell.front() == '~') cell.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc()) return std::nullopt;
  const std::string_view rest(end, static_cast<size_t>(cell.data() + cell.size() - end));
  if (rest.empty() || rest.front() == ' ' || rest.front() == '(') return value;
  // Numbers of data ranks and batches are whole even where a table writes 8.0.
  if (rest.front() == '.' && rest.find_first_not_of('0', 1) == std::string_view::npos) return value;
  return std::nullopt;
}

std::optional<double> number(std::string_view cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc()) return std::nullopt;
  const std::string_view rest(end, static_cast<size_t>(cell.data() + cell.size() - end));
  if (rest.empty() || rest.front() == ' ' || rest.front() == '(') return value;
  return std::nullopt;
}

}  // namespace terrace::score
