// Loads the module that reads Parquet, and puts its errors into words.
#include "terrace/data/parquet/parquet_texts.h"

#include <dlfcn.h>

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

// The module is looked for in the run path of the program, which the build and the installation set.
constexpr const char* module_file = "terrace_parquet.so";

using OpenFunction = decltype(&terrace_open_parquet_1);

OpenFunction load_module(const std::string& file) {
  // The symbols stay local: Arrow's must not meet those of libtorch. The module stays loaded until the program ends.
  void* module = ::dlopen(module_file, RTLD_NOW | RTLD_LOCAL);
  void* function = module == nullptr ? nullptr : ::dlsym(module, "terrace_open_parquet_1");
  if (function == nullptr) {
    throw UserError::of(
        "{} is a Parquet file, which this terrace cannot read: {}; run tools/setup, which installs Arrow's library, "
        "and "
        "build terrace again, or let pyarrow or DuckDB write the texts as JSON lines",
        file, ::dlerror());
  }
  return reinterpret_cast<OpenFunction>(function);
}

// Returns the library's message without line ends.
std::string reason_of(const std::exception& error) {
  std::string reason = error.what();
  std::ranges::replace(reason, '\n', ' ');
  reason.erase(std::min(reason.find_last_not_of(" .") + 1, reason.size()));
  return reason;
}

std::string described(const ParquetColumn& column) {
  return fmt::format("{} ({}{})", column.name, column.is_list ? "list of " : "", column.type);
}

std::string listed_columns(const std::vector<ParquetColumn>& columns) {
  constexpr size_t most = 30;
  std::string text;
  for (size_t i = 0; i < std::min(columns.size(), most); ++i) text += (i == 0 ? "" : ", ") + described(columns[i]);
  return text + (columns.size() > most ? fmt::format(" and {} more", columns.size() - most) : "");
}

size_t find_column(const std::vector<ParquetColumn>& columns, const std::string& field, const std::string& file) {
  const auto found = std::ranges::find(columns, field, &ParquetColumn::name);
  if (found == columns.end()) {
    throw UserError::of("{} has no column \"{}\"; its columns are {}; name one of strings with --field", file, field,
                        listed_columns(columns));
  }
  if (!found->is_text || found->is_list) {
    throw UserError::of(
        "{}: column \"{}\" is of type {} and not of strings; the columns are {}; name another with --field", file,
        field, (found->is_list ? "list of " : "") + found->type, listed_columns(columns));
  }
  return static_cast<size_t>(found - columns.begin());
}

}  // namespace

ParquetTexts::ParquetTexts(const std::filesystem::path& path, const std::string& field) : name_(path.string()) {
  if (!std::filesystem::is_regular_file(path)) {
    throw UserError::of("{} is no regular file, and Parquet is read from those only; write it to a file first", name_);
  }
  const OpenFunction open = load_module(name_);
  try {
    reader_.reset(open(path.c_str()));
  } catch (const std::exception& error) {
    throw UserError::of("{} cannot be read as a Parquet file: {}; unpack it if it is packed, or fetch it again", name_,
                        reason_of(error));
  }
  reader_->select(find_column(reader_->columns(), field, name_));
}

void ParquetTexts::read_rows() {
  try {
    rows_ = &reader_->next();
  } catch (const std::exception& error) {
    throw UserError::of("{} is damaged or cut off behind row {}: {}; fetch it again", name_, taken_, reason_of(error));
  }
  at_ = 0;
  if (rows_->empty()) {
    throw UserError::of("{} ends behind row {}, and its footer says {} rows; fetch it again", name_, taken_,
                        reader_->rows());
  }
}

std::optional<ParquetText> ParquetTexts::next() {
  if (done()) return std::nullopt;
  if (rows_ == nullptr || at_ == rows_->size()) read_rows();
  ++taken_;
  return (*rows_)[at_++];
}

double ParquetTexts::share_read() const {
  return reader_->rows() == 0 ? 1.0 : static_cast<double>(taken_) / static_cast<double>(reader_->rows());
}

}  // namespace terrace::data
