// Lets libnetcdf make the file, and writes the forecasts into it by POSIX calls.
#include <fmt/format.h>
#include <netcdf.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/text/units.h"
#include "terrace/data/fields/fields_store.h"
#include "terrace/data/fields/netcdf/contiguous_array.h"
#include "terrace/forecast/forecast_file.h"

namespace terrace::forecast {
namespace {

constexpr int alignment_of_arrays = 64;  // bytes

// A variable of the file, with the number of a field for each of its levels.
struct WrittenVariable {
  std::string name = {};
  std::vector<size_t> fields = {};
  bool has_levels = false;
  int id = -1;
  data::StoredArray array = {};
};

std::vector<double> levels_of_fields(const std::vector<data::FieldOfDataset>& fields) {
  std::vector<double> levels;
  for (const data::FieldOfDataset& field : fields) {
    if (field.level) levels.push_back(*field.level);
  }
  std::ranges::sort(levels);
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

// Returns the variables of the file. Fields of one variable with every level, of one unit of levels, are together; the
// others are alone.
std::vector<WrittenVariable> written_variables(const std::vector<data::FieldOfDataset>& fields,
                                               const std::vector<double>& levels) {
  std::map<std::string, std::vector<size_t>> of_variable;
  bool one_unit = true;
  const std::string* units = nullptr;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!fields[i].level) continue;
    of_variable[fields[i].variable].push_back(i);
    if (units != nullptr && *units != fields[i].level_units) one_unit = false;
    units = &fields[i].level_units;
  }
  std::vector<WrittenVariable> list;
  for (size_t i = 0; i < fields.size(); ++i) {
    const bool is_together = fields[i].level && one_unit && of_variable[fields[i].variable].size() == levels.size();
    if (!is_together) {
      list.push_back({.name = fields[i].name, .fields = {i}});
      continue;
    }
    std::vector<size_t> all = of_variable[fields[i].variable];
    if (all.front() != i) continue;
    std::ranges::sort(all, {}, [&](size_t field) { return *fields[field].level; });
    list.push_back({.name = fields[i].variable, .fields = all, .has_levels = true});
  }
  return list;
}

class NetcdfForecasts : public ForecastWriter {
 public:
  NetcdfForecasts(std::filesystem::path path, ForecastHeader header)
      : path_(std::move(path)),
        temporary_(temporary_path(path_)),
        header_(std::move(header)),
        levels_(levels_of_fields(header_.fields)),
        variables_(written_variables(header_.fields, levels_)) {
    remove_abandoned_partials(path_);
    check_room();
    try {
      define();
      for (WrittenVariable& variable : variables_)
        variable.array.offset = data::offset_of_array(temporary_, variable.name);
      store_.emplace(temporary_);
    } catch (...) {
      remove();
      throw;
    }
  }
  NetcdfForecasts(const NetcdfForecasts&) = delete;
  ~NetcdfForecasts() override { remove(); }

  void write(size_t start, size_t lead, size_t first, std::span<const float> fields) override {
    each_field(start, lead, first, fields.size(), [&](const data::StoredArray& array, uint64_t at, size_t begin) {
      store_->write(array, at, fields.subspan(begin, header_.grid.places()));
    });
  }

  void read(size_t start, size_t lead, size_t first, std::span<float> fields) const override {
    each_field(start, lead, first, fields.size(), [&](const data::StoredArray& array, uint64_t at, size_t begin) {
      store_->read(array, at, fields.subspan(begin, header_.grid.places()));
    });
  }

  void commit() override {
    store_.reset();
    std::filesystem::rename(temporary_, path_);
  }

 private:
  // Calls use(array, its first number, the first of the values) for each of the fields, from `first` on, that so many
  // values fill.
  void each_field(size_t start, size_t lead, size_t first, size_t values,
                  const std::function<void(const data::StoredArray&, uint64_t, size_t)>& use) const {
    const size_t places = header_.grid.places(), count = values / places;
    TERRACE_CHECK(values % places == 0 && first + count <= header_.fields.size(), "{} values from field {} of {} on",
                  values, first, header_.fields.size());
    for (const WrittenVariable& variable : variables_) {
      const size_t levels = variable.fields.size();
      for (size_t level = 0; level < levels; ++level) {
        const size_t field = variable.fields[level];
        if (field < first || field >= first + count) continue;
        const size_t number = (start * header_.leads.size() + lead) * levels + level;
        use(variable.array, number * places, (field - first) * places);
      }
    }
  }

  void check(int status) const {
    if (status == NC_NOERR) return;
    const char* reason = status > 0 ? std::strerror(status) : nc_strerror(status);
    throw std::system_error(status > 0 ? status : EIO, std::generic_category(),
                            fmt::format("cannot write {}: {}", path_.string(), reason));
  }

  // The library does not survive a file that it cannot extend.
  void check_room() const {
    const double bytes = sizeof(float) * static_cast<double>(header_.starts.size() * header_.leads.size()) *
                         static_cast<double>(header_.fields.size() * header_.grid.places());
    const std::filesystem::path folder = path_.parent_path();
    std::error_code unknown;
    const auto space = std::filesystem::space(folder.empty() ? "." : folder, unknown);
    rlimit limit{};
    const bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    if (is_limited && bytes > static_cast<double>(limit.rlim_cur)) {
      throw UserError::of(
          "{} takes {}, and the limit on the size of files is {}; raise it with ulimit -f, or forecast fewer "
          "starts",
          path_.string(), format_bytes(bytes), format_bytes(static_cast<double>(limit.rlim_cur)));
    }
    if (!unknown && bytes > static_cast<double>(space.available)) {
      throw UserError::of(
          "{} takes {}, and {} are free in its folder; choose another --output, or forecast fewer starts",
          path_.string(), format_bytes(bytes), format_bytes(static_cast<double>(space.available)));
    }
  }

  void remove() {
    store_.reset();
    if (id_ >= 0) nc_close(std::exchange(id_, -1));
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
  }

  int dimension(const char* name, size_t size) const {
    int id = 0;
    check(nc_def_dim(id_, name, size, &id));
    return id;
  }

  using Texts = std::vector<std::pair<const char*, std::string>>;

  int variable(const std::string& name, nc_type type, const std::vector<int>& dimensions, const Texts& texts) const {
    int id = 0;
    check(nc_def_var(id_, name.c_str(), type, static_cast<int>(dimensions.size()), dimensions.data(), &id));
    for (const auto& [attribute, text] : texts) {
      if (!text.empty()) check(nc_put_att_text(id_, id, attribute, text.size(), text.c_str()));
    }
    return id;
  }

  void define() {
    check(nc_set_alignment(1, alignment_of_arrays));
    const int status = nc_create(temporary_.c_str(), NC_CLOBBER | NC_NETCDF4, &id_);
    nc_set_alignment(1, 1);
    check(status);
    int old_mode = 0;
    check(nc_set_fill(id_, NC_NOFILL, &old_mode));
    const int time = dimension("time", header_.starts.size());
    const int lead = dimension("prediction_timedelta", header_.leads.size());
    const bool has_levels = std::ranges::any_of(variables_, &WrittenVariable::has_levels);
    const int level = has_levels ? dimension("level", levels_.size()) : -1;
    const int latitude = dimension("latitude", header_.grid.latitudes.size());
    const int longitude = dimension("longitude", header_.grid.longitudes.size());
    const std::string calendar(data::name_of(header_.calendar)), since = "seconds since 1970-01-01 00:00:00";
    const int starts =
        variable("time", NC_INT64, {time},
                 {{"standard_name", "forecast_reference_time"}, {"units", since}, {"calendar", calendar}});
    const int leads =
        variable("prediction_timedelta", NC_DOUBLE, {lead}, {{"standard_name", "forecast_period"}, {"units", "hours"}});
    const int valid = variable("valid_time", NC_INT64, {time, lead},
                               {{"standard_name", "time"}, {"units", since}, {"calendar", calendar}});
    const int levels = has_levels ? add_levels(level) : -1;
    const int latitudes = variable("latitude", NC_DOUBLE, {latitude},
                                   {{"standard_name", "latitude"}, {"units", "degrees_north"}, {"axis", "Y"}});
    const int longitudes = variable("longitude", NC_DOUBLE, {longitude},
                                    {{"standard_name", "longitude"}, {"units", "degrees_east"}, {"axis", "X"}});
    for (WrittenVariable& one : variables_) {
      std::vector<int> dimensions = {time, lead};
      if (one.has_levels) dimensions.push_back(level);
      dimensions.insert(dimensions.end(), {latitude, longitude});
      add_fields(one, dimensions);
    }
    const std::string conventions = "CF-1.8";
    check(nc_put_att_text(id_, NC_GLOBAL, "Conventions", conventions.size(), conventions.c_str()));
    check(nc_put_att_text(id_, NC_GLOBAL, "source", header_.source.size(), header_.source.c_str()));
    check(nc_enddef(id_));
    put_instants(starts, header_.starts);
    put_instants(valid, header_.valid_times);
    std::vector<double> hours = header_.leads;
    for (double& seconds : hours) seconds /= 3600;
    check(nc_put_var_double(id_, leads, hours.data()));
    if (has_levels) check(nc_put_var_double(id_, levels, levels_.data()));
    check(nc_put_var_double(id_, latitudes, header_.grid.latitudes.data()));
    check(nc_put_var_double(id_, longitudes, header_.grid.longitudes.data()));
    for (WrittenVariable& one : variables_) one.array = data::make_space(temporary_, id_, one.id);
    check(nc_close(std::exchange(id_, -1)));
  }

  int add_levels(int level) const {
    std::string units;
    for (const data::FieldOfDataset& field : header_.fields) {
      if (field.level) units = field.level_units;
    }
    const bool is_pressure = units == "hPa";
    return variable("level", NC_DOUBLE, {level},
                    {{"units", units},
                     {"axis", "Z"},
                     {"standard_name", is_pressure ? "air_pressure" : ""},
                     {"positive", is_pressure ? "down" : ""}});
  }

  void add_fields(WrittenVariable& one, const std::vector<int>& dimensions) const {
    const data::FieldOfDataset& field = header_.fields[one.fields.front()];
    one.id = variable(one.name, NC_FLOAT, dimensions,
                      {{"units", field.units},
                       {"standard_name", field.standard_name},
                       {"long_name", field.long_name},
                       {"coordinates", "valid_time"}});
    check(nc_def_var_chunking(id_, one.id, NC_CONTIGUOUS, nullptr));
    check(nc_def_var_endian(id_, one.id, NC_ENDIAN_LITTLE));
  }

  void put_instants(int id, const std::vector<int64_t>& instants) const {
    const std::vector<long long> values(instants.begin(), instants.end());
    check(nc_put_var_longlong(id_, id, values.data()));
  }

  std::filesystem::path path_, temporary_;
  ForecastHeader header_;
  std::vector<double> levels_;
  std::vector<WrittenVariable> variables_;
  int id_ = -1;
  std::optional<data::StoreFile> store_;
};

}  // namespace

std::unique_ptr<ForecastWriter> create_forecasts(const std::filesystem::path& path, const ForecastHeader& header) {
  return std::make_unique<NetcdfForecasts>(path, header);
}

}  // namespace terrace::forecast
