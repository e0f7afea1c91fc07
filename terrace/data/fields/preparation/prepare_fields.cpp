// Reads fields file by file into their places in the dataset, then computes statistics of what was written.
#include "terrace/data/fields/preparation/prepare_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/data/fields/fields_store.h"
#include "terrace/data/fields/formats/field_files.h"
#include "terrace/data/fields/formats/zarr_store.h"
#include "terrace/data/fields/preparation/fields_flags.h"
#include "terrace/data/fields/preparation/fields_plan.h"
#include "terrace/data/fields/preparation/fields_progress.h"
#include "terrace/data/fields/preparation/fields_summary.h"
#include "terrace/data/fields/preparation/fields_work.h"
#include "terrace/data/fields/preparation/same_constant.h"
#include "terrace/data/fields/statistics/field_statistics.h"
#include "terrace/data/preparation_run.h"
#include "terrace/data/prepare_ranks.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t least_days_of_year = 330;  // from the first time of a year to its last one, which may be a month's
constexpr size_t block_bytes = size_t{32} << 20;  // of a file's numbers that are read at once

std::string fields_prefix(const std::string& output) { return prefix_of_output(output, ".nc", "data/era5"); }

// Runs one preparation, step by step.
class FieldsRun {
 public:
  explicit FieldsRun(const PrepareRequest& request)
      : request_(request), run_(request.ranks, request.threads, request.stop), ranks_(run_.ranks()) {}

  PrepareResult run(double seconds_between_records) {
    on_all_ranks(ranks_, [&] { take_request(); });
    run_.on_first([&] {
      FieldsProgress::remove_abandoned(prefix_);
      remove_abandoned_partials(fields_path(prefix_), left_ ? left_->partial : fs::path());
      remove_abandoned_partials(description_path(prefix_));
    });
    std::string identity;
    on_all_ranks(ranks_, [&] {
      plan();
      identity = identity_of_plan();
      if (left_) check_left(identity);
    });
    check_same_plan(identity);
    std::optional<AtomicFile> file;  // of the first rank
    std::optional<FieldsProgress> reached;
    const auto begin_progress = [&](const FieldsWork& done) {
      reached.emplace(prefix_, ranks_.rank(), identity, partial_, done, seconds_between_records);
    };
    run_.on_first_then_others(
        [&] {
          file.emplace(fields_path(prefix_));
          begin_file(file->temporary_path());
          begin_progress(left_ ? left_->done : FieldsWork{});
          if (left_ || ranks_.size() > 1) reached->record(description());
          FieldsProgress::remove_others(prefix_);
        },
        [&] {
          join_file();
          begin_progress({});
        });
    write_all(*reached);
    const StoreFile store(partial_);
    compute(store);
    run_.on_first([&] {
      add_checksums(store);
      store.sync();
      run_.commit(*file, description_path(prefix_), description().text());
    });
    return ranks_.is_first() ? result() : PrepareResult{};
  }

 private:
  FieldsDescription& description() { return plan_.description; }

  void take_request() {
    prefix_ = fields_prefix(request_.output);
    run_.writes(prefix_ + ".nc and .json");
    if (!request_.overwrite) check_absent({fields_path(prefix_), description_path(prefix_)});
    if (request_.flags.contains("resume")) left_ = FieldsProgress::find(prefix_);
    flags_ = fields_flags(request_);
  }

  void plan() {
    const std::vector<fs::path> files =
        find_field_files(request_.inputs, {fields_path(prefix_), description_path(prefix_)});
    Progress progress("looking at files", files.size());
    plan_ = plan_fields(files, flags_.selection, [&](size_t done) {
      run_.check_stop();
      if (ranks_.is_first()) progress.update(done);
    });
    for (const LeftOutVariable& one : plan_.left_out) {
      if (ranks_.is_first()) log_warning("left out: {}", one.why);
    }
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

  // Identifies what is written of which inputs, by their names, sizes and times of change.
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

  // A folder that is not shared, or that changes, shows other files to some ranks.
  void check_same_plan(const std::string& identity) {
    const std::vector<std::string> all = ranks_.gather(identity);
    const auto other = std::ranges::find_if(all, [&](const std::string& one) { return one != all.front(); });
    if (other == all.end()) return;
    throw UserError(ranks_.is_first()
                        ? fmt::format("rank {} finds other input files, or files of other sizes and times of "
                                      "change, than rank 0; all ranks must see the same files",
                                      other - all.begin())
                        : "");
  }

  // The first rank makes the file, or takes that of the preparation that is continued.
  void begin_file(const fs::path& path) {
    partial_ = path;
    if (!left_) return make_fields_store(path, plan_.description);
    fs::rename(left_->partial, path);
    take_places(*left_);
  }

  // The other ranks find the file by what the first rank recorded.
  void join_file() {
    const std::optional<FieldsProgress::Left> begun = FieldsProgress::find(prefix_);
    if (!begun) {
      throw UserError::of("rank {} does not see {}, which rank 0 wrote; prepare in a folder that all ranks share",
                          ranks_.rank(), progress_path(prefix_).string());
    }
    partial_ = begun->partial;
    take_places(*begun);
  }

  void take_places(const FieldsProgress::Left& left) {
    description().fields = left.fields;
    description().constant_fields = left.constants;
    description().climatology_fields = left.climatology;
    description().has_missing = left.has_missing;
  }

  void write_all(FieldsProgress& reached) {
    const FieldsWork work = work_left(all_work(plan_), left_ ? left_->done : FieldsWork{});
    const uint64_t all = description().times.size() * description().variables.size() * places();
    before_ = all - values_of(plan_, work);
    if (left_ && ranks_.is_first()) log_info("continuing where {} of {} values were written", before_, all);
    on_all_ranks(ranks_, [&] {
      Progress progress("reading fields", all * sizeof(float), before_ * sizeof(float));
      const StoreFile store(partial_);
      if (ranks_.is_first()) write_constants(store);
      size_t open = plan_.files.size();
      std::unique_ptr<FieldFile> file;
      for (const PieceTimes& times : work_of_rank(plan_, work, ranks_.rank(), ranks_.size())) {
        const FieldPiece& piece = plan_.pieces[times.piece];
        if (piece.file != open) {
          file.reset();
          file = open_file(piece);
          open = piece.file;
        }
        write_times(*file, times, store, progress, reached);
      }
      if (ranks_.size() > 1) store.sync();  // the others read it
    });
    const std::vector<std::string> missing = ranks_.gather(description().has_missing ? "missing" : "");
    description().has_missing = std::ranges::find(missing, "missing") != missing.end();
  }

  std::unique_ptr<FieldFile> open_file(const FieldPiece& piece) const {
    return open_field_file(plan_.files[piece.file], flags_.selection.dimensions);
  }

  // Files may repeat a constant, with the same values.
  void write_constants(const StoreFile& store) {
    std::map<size_t, std::pair<std::vector<float>, size_t>> written;  // values, file; by number of the constant
    for (const FieldPiece& piece : plan_.constants) {
      const std::unique_ptr<FieldFile> file = open_file(piece);
      file->read({.variable = piece.variable, .first_level = piece.first_level, .levels = piece.outputs.size()},
                 values_);
      for (size_t level = 0; level < piece.outputs.size(); ++level) {
        if (piece.outputs[level] < 0) continue;
        const auto number = static_cast<size_t>(piece.outputs[level]);
        const std::span<const float> field = std::span(values_).subspan(level * places(), places());
        const std::string& name = description().constants[number].name;
        if (const auto known = written.find(number); known != written.end()) {
          const auto& [values, of_file] = known->second;
          if (!file->contents().variables[piece.variable].has_times) {
            check_same_constant(name, field, plan_.files[piece.file], values, plan_.files[of_file]);
          }
          continue;
        }
        check_values(field, plan_.files[piece.file], name, "");
        store.write(description().constant_fields, number * places(), field);
        written[number] = {{field.begin(), field.end()}, piece.file};
      }
    }
  }

  // Returns the times of a block, which fits the memory, and where possible the file's own chunks.
  size_t times_at_once(const FieldFile& file, const FieldPiece& piece) const {
    const size_t levels = piece.outputs.size(), time_bytes = levels * places() * sizeof(double);
    const size_t fitting = std::max<size_t>(1, block_bytes / time_bytes), chunk = file.times_in_chunk(piece.variable);
    if (fitting >= chunk) return fitting / chunk * chunk;
    return chunk * time_bytes <= 8 * block_bytes ? chunk : fitting;
  }

  void write_times(FieldFile& file, const PieceTimes& part, const StoreFile& store, Progress& progress,
                   FieldsProgress& reached) {
    const FieldPiece& piece = plan_.pieces[part.piece];
    const std::vector<int64_t>& axis = plan_.axes[plan_.axis_of_file[piece.file]];
    if (file.contents().times.size() != axis.size()) {
      throw UserError::of("{} changed while it was read", plan_.files[piece.file].string());
    }
    const size_t at_once = times_at_once(file, piece);
    for (size_t first = part.first; first < part.end; first += at_once) {
      run_.check_stop();
      const size_t times = std::min(at_once, part.end - first);
      const auto begin = axis.begin() + static_cast<std::ptrdiff_t>(first);
      const bool is_left_out =
          std::all_of(begin, begin + static_cast<std::ptrdiff_t>(times), [](int64_t time) { return time < 0; });
      if (is_left_out) continue;
      file.read({piece.variable, first, times, piece.first_level, piece.outputs.size()}, values_);
      for (size_t i = 0; i < times; ++i) write_time(piece, axis[first + i], i, store);
      show(progress, before_, written_, fs::path(plan_.files[piece.file]).filename().string());
      reached.reach({part.piece, first, first + times}, description(), store);
    }
  }

  // Shows the progress in numbers. The first rank shows the progress of all, as if the others had done as much as it
  // has.
  void show(Progress& progress, uint64_t before, uint64_t done, const std::string& detail = "") const {
    if (ranks_.is_first())
      progress.update((before + done * static_cast<uint64_t>(ranks_.size())) * sizeof(float), detail);
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
    compute_statistics(description(), store, ranks_, run_.threads(), [&](uint64_t done) {
      run_.check_stop();
      show(progress, 0, done);
    });
  }

  void add_checksums(const StoreFile& store) {
    Progress progress("computing checksums", description().fields.numbers() * sizeof(float));
    for (StoredArray* array :
         {&description().fields, &description().constant_fields, &description().climatology_fields}) {
      array->checksum = store.checksum_of(*array, [&](uint64_t done) {
        run_.check_stop();
        if (array == &description().fields) progress.update(done);
      });
    }
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
    for (const LeftOutVariable& one : plan_.left_out) result.json["left_out"].push_back(one.name);
    return result;
  }

  size_t places() const { return static_cast<size_t>(plan_.description.places()); }

  const PrepareRequest& request_;
  PreparationRun run_;
  PrepareRanks& ranks_;
  std::string prefix_;
  FieldsFlags flags_;
  std::optional<FieldsProgress::Left> left_;  // the state of a preparation that is continued, if it was the same
  FieldsPlan plan_;
  fs::path partial_;  // the unfinished P.nc
  std::vector<float> values_;
  uint64_t before_ = 0, written_ = 0;  // the numbers that earlier processes wrote, and those of this one
};

}  // namespace

std::vector<PrepareFlag> FieldsPreparation::flags() const { return flags_of_fields(); }

PrepareResult FieldsPreparation::prepare(const PrepareRequest& request) const {
  return FieldsRun(request).run(seconds_between_records_);
}

bool FieldsPreparation::has_made(const std::string& prefix) const {
  return describes_fields(description_path(fields_prefix(prefix)));
}

PrepareResult FieldsPreparation::inspect(const std::string& prefix) const {
  const FieldsDataset dataset(fields_prefix(prefix));
  return summary_of_fields(dataset.description(), dataset.prefix());
}

void FieldsPreparation::verify(const std::string& prefix) const {
  check_checksums(FieldsDataset(fields_prefix(prefix)));
}

}  // namespace terrace::data
