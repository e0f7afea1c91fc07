// Tables of published runs: CSV files with one row for each run, whose headings have several names in use.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::score {

// The columns that a table of runs may have. docs/planning.md has their names.
enum class Column {
  id,
  model,
  arch,
  layers,
  width,
  heads,
  kv_heads,
  ffn_width,
  vocabulary,
  tied,
  sequence,
  experts,  // of the model
  machine,
  devices,
  devices_per_node,
  network,
  software,
  compile,
  fused,  // of the machine and the program
  tensor,
  sequence_parallel,
  pipeline,
  chunks,
  context,
  expert_parallel,
  data,
  sharding,
  schedule,  // of the layout
  micro_batch,
  global_batch,
  precision,
  gradient_type,
  dropout,
  recompute,  // of the step
  seconds,
  milliseconds,
  tokens,
  tokens_of_device,
  flops,
  executed_flops,
  memory,
  memory_gb,
  complete,
  notes  // of what was measured
};

class PublishedTable {
 public:
  struct Row {
    int64_t line = 0;
    std::map<Column, std::string> cells = {};  // those that are not empty

    // "" if the table has no such column, or an empty cell.
    const std::string& of(Column column) const;
  };

  // Throws UserError if the file cannot be read, has no rows, or no column that says how long a step took, with the
  // names of the columns that are known; and for a row whose number of cells differs from that of the headings.
  explicit PublishedTable(const std::string& file);

  const std::string& file() const { return file_; }
  const std::vector<Row>& rows() const { return rows_; }
  bool has(Column column) const;
  // Headings that no column has; what they say counts for nothing.
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  std::string file_;
  std::vector<std::optional<Column>> columns_;
  std::vector<std::string> unknown_;
  std::vector<Row> rows_;
};

// The whole number with which a cell begins, behind "~": "320 (effective)" is 320, "51.2k" none.
std::optional<int64_t> whole_number(std::string_view cell);
// The number that is the whole cell, or stands before a space or a bracket in it; a cell that begins with "~" has none.
std::optional<double> number(std::string_view cell);

}  // namespace terrace::score
