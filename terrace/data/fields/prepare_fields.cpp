// Reads fields file by file into their places in the dataset, then computes statistics of what was written.
#include "terrace/data/fields/prepare_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "terrace/base/cores.h"
#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/log.h"
#include "terrace/base/plural.h"
#include "terrace/base/progress.h"
#include "terrace/base/temporary_name.h"
#include "terrace/base/units.h"
#include "terrace/data/fields/field_files.h"
#include "terrace/data/fields/field_statistics.h"
#include "terrace/data/fields/fields_plan.h"
#include "terrace/data/fields/fields_progress.h"
#include "terrace/data/fields/fields_store.h"
#include "terrace/data/fields/zarr_store.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t least_days_of_year = 330;  // from the first time of a year to its last one, which may be a month's
constexpr size_t block_bytes = size_t{32} << 20;  // of a file's numbers that are read at once

struct FieldsFlags {
  FieldsSelection selection = {};
  ClimatologyKind climatology = ClimatologyKind::monthly;
  std::optional<int64_t> harmonics = {};
  bool mask = false;
};

std::vector<double> levels_of(const std::vector<std::string>& words) {
  std::vector<double> levels;
  for (const std::string& word : words) {
    double level = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), level);
    if (error != std::errc() || end != word.data() + word.size()) {
      throw UserError::of("--levels {} is no number; give levels such as 500,850 (hPa)", word);
    }
    levels.push_back(level);
  }
  return levels;
}

std::map<std::string, std::string> units_of(const std::vector<std::string>& words) {
  std::map<std::string, std::string> units;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UserError::of("--units {} is no VARIABLE=UNITS, such as z=m2/s2", word);
    }
    units[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return units;
}

// Fewer than half of the coefficients that twelve months determine; days of the year determine more than is of use.
int64_t harmonics_of(const std::string& word, ClimatologyKind climatology) {
  const int64_t most = climatology == ClimatologyKind::monthly ? 4 : 12;
  int64_t harmonics = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), harmonics);
  const bool is_number = error == std::errc() && end == word.data() + word.size();
  if (climatology == ClimatologyKind::none) {
    throw UserError::of("--harmonics {} smooths a climatology, and --climatology none makes none; leave one out", word);
  }
  if (!is_number || harmonics < 0 || harmonics > most) {
    throw UserError::of("--harmonics {}; give the number of harmonics of the year, from 0 (its mean) to {}", word,
                        most);
  }
  return harmonics;
}

FieldsFlags flags_of(const PrepareRequest& request) {
  const auto values = [&](const char* flag) {
    const auto found = request.flags.find(flag);
    return found == request.flags.end() ? std::vector<std::string>{} : found->second;
  };
  FieldsFlags flags;
  flags.selection.variables = values("variables");
  flags.selection.constants = values("constants");
  flags.selection.levels = levels_of(values("levels"));
  flags.selection.units = units_of(values("units"));
  flags.selection.allow_gaps = request.flags.contains("allow-gaps");
  flags.mask = request.flags.contains("mask");
  for (const char* split : {"train", "validation", "test"}) {
    if (!request.flags.contains(split)) continue;
    const std::vector<std::string> dates = values(split);
    if (dates.size() != 2) {
      throw UserError::of("--{} has {}; give its first and last date, such as --{} 1979 2015", split,
                          counted(dates.size(), "date"), split);
    }
    flags.selection.splits[split] = {dates[0], dates[1]};
  }
  if (const std::vector<std::string> word = values("climatology"); !word.empty()) {
    if (word[0] != "monthly" && word[0] != "daily" && word[0] != "none") {
      throw UserError::of("--climatology {}; give monthly, daily (by day of year and time of day) or none", word[0]);
    }
    flags.climatology = word[0] == "monthly" ? ClimatologyKind::monthly
                        : word[0] == "daily" ? ClimatologyKind::daily
                                             : ClimatologyKind::none;
  }
  if (const std::vector<std::string> word = values("harmonics"); !word.empty()) {
    flags.harmonics = harmonics_of(word[0], flags.climatology);
  }
  return flags;
}

// The prefix that --output means: P, also where it is given as P.nc or P.json.
std::string fields_prefix(const std::string& output) {
  if (output.empty() || output.ends_with('/')) {
    throw UserError::of("--output \"{}\" names no file; give a prefix such as data/era5", output);
  }
  const fs::path path(output);
  return path.extension() == ".nc" || path.extension() == ".json" ? fs::path(path).replace_extension().string()
                                                                  : output;
}

void check_fields_absent(const std::string& prefix) {
  for (const fs::path& path : {fields_path(prefix), description_path(prefix)}) {
    if (fs::exists(path)) {
      throw UserError::of("{} exists; choose another --output, or give --overwrite to replace it", path.string());
    }
  }
}

// One preparation, step by step.
class FieldsRun {
 public:
  // `left` of a preparation that is continued, if it was the same.
  FieldsRun(const PrepareRequest& request, std::string prefix, std::optional<FieldsProgress::Left> left)
      : request_(request), prefix_(std::move(prefix)), flags_(flags_of(request)), left_(std::move(left)) {}

  PrepareResult run(double seconds_between_records) {
    plan();
    const std::string identity = identity_of_plan();
    if (left_) check_left(identity);
    AtomicFile file(fields_path(prefix_));
    FieldsProgress reached(prefix_, identity, file.temporary_path(), seconds_between_records);
    if (left_) {
      take_left(file.temporary_path());
    } else {
      make_fields_store(file.temporary_path(), plan_.description);
    }
    {
      const StoreFile store(file.temporary_path());
      write_all(store, reached);
      compute(store);
      add_checksums(store);
      store.sync();
    }
    commit(file);
    return result();
  }

 private:
  FieldsDescription& description() { return plan_.description; }

  void check_fields_stop() const {
    if (request_.stop != nullptr && *request_.stop) {
      throw UserError(fmt::format("interrupted; nothing was written to {}.nc and .json", prefix_), ExitCode::failure);
    }
  }

  void plan() {
    const std::vector<fs::path> files =
        find_field_files(request_.inputs, {fields_path(prefix_), description_path(prefix_)});
    Progress progress("looking at files", files.size());
    plan_ = plan_fields(files, flags_.selection, [&](size_t done) {
      check_fields_stop();
      progress.update(done);
    });
    FieldsDescription& all = description();
    if (flags_.selection.splits.empty()) {
      const int64_t count = std::ssize(all.times);
      all.splits["train"] = {text_of(all.calendar, all.times.front()), text_of(all.calendar, all.times.back()), 0,
                             count};
    }
    all.climatology = all.splits.contains("train") ? flags_.climatology : ClimatologyKind::none;
    all.harmonics = all.climatology == ClimatologyKind::none ? std::nullopt : flags_.harmonics;
    check_harmonics();
    all.has_missing = false;
  }

  void check_harmonics() {
    if (description().harmonics.value_or(0) == 0) return;
    const FieldsDescription& all = description();
    const TimeSplit& train = all.splits.at("train");
    const auto at = [&](int64_t time) { return all.times[static_cast<size_t>(time)]; };
    const int64_t days = (at(train.end_time - 1) - at(train.first_time)) / 86400;
    if (days >= least_days_of_year) return;
    throw UserError::of(
        "--harmonics {} are fitted to whole years, and the training part goes over {} days; give a longer one with "
        "--train, or --harmonics 0 for its mean",
        *all.harmonics, days);
  }

  // What is written of which inputs, by their names, sizes and times of change.
  std::string identity_of_plan() const {
    Json files = Json::array();
    for (const fs::path& path : plan_.files) {
      if (fs::is_directory(path)) {
        files.push_back({fs::absolute(path).string(), state_of_zarr(path)});
        continue;
      }
      files.push_back(
          {fs::absolute(path).string(), fs::file_size(path), fs::last_write_time(path).time_since_epoch().count()});
    }
    const std::string text = plan_.description.text() + files.dump() + (flags_.mask ? "mask" : "");
    return checksum(std::as_bytes(std::span(text)));
  }

  void check_left(const std::string& identity) const {
    if (left_->plan == identity) return;
    throw UserError::of(
        "--resume: the inputs or flags are not those of the preparation of {} that was killed; give the same ones, or "
        "begin again without --resume",
        prefix_);
  }

  void take_left(const fs::path& path) {
    fs::rename(left_->partial, path);
    description().fields = left_->fields;
    description().constant_fields = left_->constants;
    description().climatology_fields = left_->climatology;
    description().has_missing = left_->has_missing;
  }

  void write_all(const StoreFile& store, FieldsProgress& reached) {
    const uint64_t fields = description().times.size() * description().variables.size();
    const FieldsPosition begin = left_ ? left_->position : FieldsPosition{};
    for (size_t number = 0; number < plan_.pieces.size(); ++number) written_ += values_before(begin, number);
    if (left_) log_info("continuing where {} of {} values were written", written_, fields * places());
    Progress progress("reading fields", fields * places() * sizeof(float), written_ * sizeof(float));
    write_constants(store);
    size_t open = plan_.files.size();
    std::unique_ptr<FieldFile> file;
    for (size_t number = begin.piece; number < plan_.pieces.size(); ++number) {
      const FieldPiece& piece = plan_.pieces[number];
      if (piece.file != open) {
        file.reset();
        file = open_field_file(plan_.files[piece.file]);
        open = piece.file;
      }
      write_piece(*file, number, number == begin.piece ? begin.time : 0, store, progress, reached);
    }
  }

  // The values of a piece that lie before a position.
  uint64_t values_before(const FieldsPosition& position, size_t number) const {
    if (number > position.piece) return 0;
    const FieldPiece& piece = plan_.pieces[number];
    const std::vector<int64_t>& axis = plan_.axes[plan_.axis_of_file[piece.file]];
    const auto end = number < position.piece ? axis.end() : axis.begin() + static_cast<std::ptrdiff_t>(position.time);
    const auto is_taken = [](int64_t output) { return output >= 0; };
    return static_cast<uint64_t>(std::count_if(axis.begin(), end, is_taken)) *
           static_cast<uint64_t>(std::ranges::count_if(piece.outputs, is_taken)) * places();
  }

  void write_constants(const StoreFile& store) {
    for (const FieldPiece& piece : plan_.constants) {
      const std::unique_ptr<FieldFile> file = open_field_file(plan_.files[piece.file]);
      file->read({.variable = piece.variable, .first_level = piece.first_level, .levels = piece.outputs.size()},
                 values_);
      for (size_t level = 0; level < piece.outputs.size(); ++level) {
        if (piece.outputs[level] < 0) continue;
        const auto number = static_cast<size_t>(piece.outputs[level]);
        const std::span<const float> field = std::span(values_).subspan(level * places(), places());
        check_values(field, plan_.files[piece.file], description().constants[number].name, "");
        store.write(description().constant_fields, number * places(), field);
      }
    }
  }

  // Blocks of times that fit the memory, and where possible the file's own chunks.
  size_t times_at_once(const FieldFile& file, const FieldPiece& piece) const {
    const size_t levels = piece.outputs.size(), time_bytes = levels * places() * sizeof(double);
    const size_t fitting = std::max<size_t>(1, block_bytes / time_bytes), chunk = file.times_in_chunk(piece.variable);
    if (fitting >= chunk) return fitting / chunk * chunk;
    return chunk * time_bytes <= 8 * block_bytes ? chunk : fitting;
  }

  void write_piece(FieldFile& file, size_t number, size_t first_time, const StoreFile& store, Progress& progress,
                   FieldsProgress& reached) {
    const FieldPiece& piece = plan_.pieces[number];
    const std::vector<int64_t>& axis = plan_.axes[plan_.axis_of_file[piece.file]];
    if (file.contents().times.size() != axis.size()) {
      throw UserError::of("{} changed while it was read", plan_.files[piece.file].string());
    }
    const size_t at_once = times_at_once(file, piece);
    for (size_t first = first_time; first < axis.size(); first += at_once) {
      check_fields_stop();
      const size_t times = std::min(at_once, axis.size() - first);
      const auto begin = axis.begin() + static_cast<std::ptrdiff_t>(first);
      const bool is_left_out =
          std::all_of(begin, begin + static_cast<std::ptrdiff_t>(times), [](int64_t time) { return time < 0; });
      if (is_left_out) continue;
      file.read({piece.variable, first, times, piece.first_level, piece.outputs.size()}, values_);
      for (size_t i = 0; i < times; ++i) write_time(piece, axis[first + i], i, store);
      progress.update(written_ * sizeof(float), fs::path(plan_.files[piece.file]).filename().string());
      reached.reach({number, first + times}, description(), store);
    }
  }

  void write_time(const FieldPiece& piece, int64_t time, size_t of_block, const StoreFile& store) {
    if (time < 0) return;
    const size_t levels = piece.outputs.size();
    for (size_t level = 0; level < levels; ++level) {
      if (piece.outputs[level] < 0) continue;
      const auto variable = static_cast<size_t>(piece.outputs[level]), at = static_cast<size_t>(time);
      const std::span<const float> field = std::span(values_).subspan((of_block * levels + level) * places(), places());
      check_values(field, plan_.files[piece.file], description().variables[variable].name,
                   " at " + text_of(description().calendar, description().times[at]));
      store.write(description().fields, (at * description().variables.size() + variable) * places(), field);
      written_ += places();
    }
  }

  void check_values(std::span<const float> field, const fs::path& file, const std::string& name,
                    const std::string& when) {
    size_t missing = 0, infinite = 0;
    for (const float value : field) {
      missing += std::isnan(value) ? 1 : 0;
      infinite += std::isinf(value) ? 1 : 0;
    }
    if (infinite > 0) {
      throw UserError::of("{}: {}{} has {} of {} values that are infinite", file.string(), name, when, infinite,
                          field.size());
    }
    if (missing > 0 && !flags_.mask) {
      throw UserError::of(
          "{}: {}{} has {} of {} values missing; leave the variable out, or keep them missing with --mask",
          file.string(), name, when, missing, field.size());
    }
    if (missing > 0) description().has_missing = true;
  }

  void compute(const StoreFile& store) {
    uint64_t training = 0;
    if (const auto split = description().splits.find("train"); split != description().splits.end()) {
      training = static_cast<uint64_t>(split->second.count()) * description().variables.size() * places();
    }
    Progress progress("computing statistics", training * sizeof(float));
    const int64_t threads = request_.threads > 0 ? request_.threads : usable_cores();
    compute_statistics(description(), store, threads, [&](uint64_t done) {
      check_fields_stop();
      progress.update(done * sizeof(float));
    });
  }

  void add_checksums(const StoreFile& store) {
    Progress progress("computing checksums", description().fields.numbers() * sizeof(float));
    for (StoredArray* array :
         {&description().fields, &description().constant_fields, &description().climatology_fields}) {
      array->checksum = store.checksum_of(*array, [&](uint64_t done) {
        check_fields_stop();
        if (array == &description().fields) progress.update(done);
      });
    }
  }

  // Without its description no dataset is opened, so that old fields never have a new description or the other way.
  void commit(AtomicFile& file) {
    AtomicFile described(description_path(prefix_));
    described.write(description().text());
    described.sync();
    file.sync();
    check_fields_stop();
    if (fs::remove(description_path(prefix_))) sync_folder(description_path(prefix_).parent_path());
    file.commit();
    described.commit();
  }

  PrepareResult result() {
    const FieldsDescription& all = description();
    std::vector<std::string> parts;
    Json splits = Json::object();
    for (const auto& [name, split] : all.splits) {
      parts.push_back(fmt::format("{}: {}", name, counted(static_cast<uint64_t>(split.count()), "time")));
      splits[name] = split.count();
    }
    const std::string first = text_of(all.calendar, all.times.front());
    const std::string last = text_of(all.calendar, all.times.back());
    const std::string variables = counted(all.variables.size(), "variable");
    const std::string what = all.times.size() == 1
                                 ? fmt::format("{} at {}", variables, first)
                                 : fmt::format("{} at {} from {} to {}, every {}", variables,
                                               counted(all.times.size(), "time"), first, last, all.step.text());
    PrepareResult result;
    result.text =
        fmt::format("{} (calendar {}), on {} x {} places; {}\nwrote {}.nc and {}.json", what, name_of(all.calendar),
                    all.latitudes.size(), all.longitudes.size(), fmt::join(parts, ", "), prefix_, prefix_);
    result.json = {{"variables", FieldsDescription::names(all.variables)},
                   {"constants", FieldsDescription::names(all.constants)},
                   {"latitudes", all.latitudes.size()},
                   {"longitudes", all.longitudes.size()},
                   {"times", all.times.size()},
                   {"from", first},
                   {"to", last},
                   {"step", all.step.text()},
                   {"calendar", name_of(all.calendar)},
                   {"splits", splits},
                   {"files", plan_.files.size()},
                   {"has_missing", all.has_missing}};
    return result;
  }

  size_t places() const { return static_cast<size_t>(plan_.description.places()); }

  const PrepareRequest& request_;
  std::string prefix_;
  FieldsFlags flags_;
  std::optional<FieldsProgress::Left> left_;
  FieldsPlan plan_;
  std::vector<float> values_;
  uint64_t written_ = 0;  // numbers
};

}  // namespace

std::vector<PrepareFlag> FieldsPreparation::flags() const {
  return {
      {.name = "variables",
       .about = "Variables by name, such as z,t_850: all levels of z and one of t (default: all that have times)",
       .is_list = true},
      {.name = "levels", .about = "Levels, pressures in hPa, such as 500,850 (default: all)", .is_list = true},
      {.name = "constants", .about = "Fields that do not change (default: all without times)", .is_list = true},
      {.name = "train",
       .about = "First and last date of the training part, such as 1979 2015 (default: all times)",
       .is_range = true},
      {.name = "validation", .about = "First and last date of the validation part (default: none)", .is_range = true},
      {.name = "test", .about = "First and last date of the test part (default: none)", .is_range = true},
      {.name = "climatology",
       .about = "Mean of the training part by month (monthly), by day of year and time of day (daily), or none "
                "(default: monthly)"},
      {.name = "harmonics",
       .about = "Smooth the climatology: its mean and so many harmonics of the year (default: no smoothing)"},
      {.name = "units", .about = "VARIABLE=UNITS in place of those in the files (default: none)", .is_list = true},
      {.name = "allow-gaps", .about = "Take the times that all variables have, with gaps", .is_switch = true},
      {.name = "mask", .about = "Keep missing values, which are otherwise refused", .is_switch = true},
      {.name = "resume", .about = "Continue a preparation that was killed, where there is one", .is_switch = true}};
}

PrepareResult FieldsPreparation::prepare(const PrepareRequest& request) const {
  const std::string prefix = fields_prefix(request.output);
  if (!request.overwrite) check_fields_absent(prefix);
  std::optional<FieldsProgress::Left> left;
  if (request.flags.contains("resume")) left = FieldsProgress::find(prefix);
  remove_abandoned_partials(fields_path(prefix), left ? left->partial : fs::path());
  remove_abandoned_partials(description_path(prefix));
  remove_abandoned_partials(progress_path(prefix));
  return FieldsRun(request, prefix, std::move(left)).run(seconds_between_records_);
}

}  // namespace terrace::data
