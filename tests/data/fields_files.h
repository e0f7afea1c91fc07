// NetCDF files that tests write by libnetcdf, and datasets prepared of them.
#pragma once

#include <netcdf.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "terrace/data/fields/fields_dataset.h"
#include "terrace/data/fields/preparation/prepare_fields.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {

// A variable of a test file: it has its dimensions in any order, and values by a function of the coordinates of its
// dimensions in the order time (in the units of the file), level, latitude, longitude (0 where it has none).
struct TestVariable {
  std::string name = "t";
  std::vector<std::string> dimensions = {"time", "lat", "lon"};
  std::function<double(double time, double level, double latitude, double longitude)> value = {};
  int type = NC_FLOAT;
  std::map<std::string, std::string> texts = {{"units", "K"}};
  std::map<std::string, double> numbers = {};  // attributes in the variable's type
};

struct TestFile {
  std::vector<double> times = {0, 6, 12, 18};
  std::vector<double> levels = {};
  std::vector<double> latitudes = {-60, 0, 60};
  std::vector<double> longitudes = {0, 90, 180, 270};
  std::string time_units = "hours since 2000-01-01 00:00:00", calendar = "standard", level_units = "hPa";
  std::string time_name = "time", level_name = "level", latitude_name = "lat", longitude_name = "lon";
  std::vector<TestVariable> variables = {};
  int format = NC_NETCDF4;

  const std::string& write(const std::string& path) const {
    Writer(*this, path).write();
    return path;
  }

 private:
  class Writer {
   public:
    Writer(const TestFile& file, const std::string& path) : file_(file), path_(path) {
      check(nc_create(path.c_str(), NC_CLOBBER | file.format, &id_));
    }
    ~Writer() { nc_close(id_); }

    void write() {
      add_axis(file_.time_name, file_.times, file_.time_units, file_.calendar);
      add_axis(file_.level_name, file_.levels, file_.level_units, "");
      add_axis(file_.latitude_name, file_.latitudes, "degrees_north", "");
      add_axis(file_.longitude_name, file_.longitudes, "degrees_east", "");
      for (const TestVariable& variable : file_.variables) define(variable);
      check(nc_enddef(id_));
      for (const auto& [variable, values] : values_) check(nc_put_var_double(id_, variable, values.data()));
    }

   private:
    static void check(int status) {
      if (status != NC_NOERR) throw std::runtime_error(nc_strerror(status));
    }

    void add_axis(const std::string& name, const std::vector<double>& values, const std::string& units,
                  const std::string& calendar) {
      if (values.empty()) return;
      int dimension = 0, variable = 0;
      check(nc_def_dim(id_, name.c_str(), values.size(), &dimension));
      check(nc_def_var(id_, name.c_str(), NC_DOUBLE, 1, &dimension, &variable));
      check(nc_put_att_text(id_, variable, "units", units.size(), units.c_str()));
      if (!calendar.empty()) check(nc_put_att_text(id_, variable, "calendar", calendar.size(), calendar.c_str()));
      axes_[name] = {dimension, &values};
      values_.emplace_back(variable, values);
    }

    void define(const TestVariable& variable) {
      std::vector<int> dimensions;
      size_t count = 1;
      for (const std::string& name : variable.dimensions) {
        dimensions.push_back(axes_.at(name).first);
        count *= axes_.at(name).second->size();
      }
      int id = 0;
      check(nc_def_var(id_, variable.name.c_str(), variable.type, static_cast<int>(dimensions.size()),
                       dimensions.data(), &id));
      for (const auto& [name, text] : variable.texts)
        check(nc_put_att_text(id_, id, name.c_str(), text.size(), text.c_str()));
      for (const auto& [name, number] : variable.numbers) {
        const bool is_packing = name == "scale_factor" || name == "add_offset";
        check(nc_put_att_double(id_, id, name.c_str(), is_packing ? NC_DOUBLE : variable.type, 1, &number));
      }
      values_.emplace_back(id, values_of(variable, count));
    }

    std::vector<double> values_of(const TestVariable& variable, size_t count) const {
      std::vector<double> values(count);
      for (size_t i = 0; i < count; ++i) {
        std::map<std::string, double> at;
        size_t rest = i;
        for (size_t d = variable.dimensions.size(); d-- > 0;) {
          const std::vector<double>& axis = *axes_.at(variable.dimensions[d]).second;
          at[variable.dimensions[d]] = axis[rest % axis.size()];
          rest /= axis.size();
        }
        values[i] = variable.value(at[file_.time_name], at[file_.level_name], at[file_.latitude_name],
                                   at[file_.longitude_name]);
      }
      return values;
    }

    const TestFile& file_;
    std::string path_;
    int id_ = -1;
    std::map<std::string, std::pair<int, const std::vector<double>*>> axes_;
    std::vector<std::pair<int, std::vector<double>>> values_;
  };
};

// 100 times of 6 hours from the year 2000, with the variables t and u and the constant orography.
inline TestFile file_of_waves() {
  TestFile file;
  file.times.clear();
  for (int i = 0; i < 100; ++i) file.times.push_back(i * 6);
  const auto wave = [](double factor) {
    return [factor](double time, double, double latitude, double longitude) {
      return factor * std::sin(time / 7 + latitude + longitude / 50) + time / 100;
    };
  };
  file.variables = {{.name = "t", .value = wave(10)},
                    {.name = "u", .value = wave(3)},
                    {.name = "orography", .dimensions = {"lat", "lon"}, .value = wave(100)}};
  return file;
}

using Flags = std::map<std::string, std::vector<std::string>>;

inline PrepareResult prepare_fields(const std::vector<std::string>& inputs, const std::string& output,
                                    const Flags& flags = {}) {
  return FieldsPreparation().prepare(
      {.inputs = inputs, .output = output, .overwrite = true, .threads = 2, .flags = flags});
}

// Returns the message with which the inputs are refused; nothing may be left of the output.
inline std::string refused_fields(const TemporaryFolder& folder, const std::vector<std::string>& inputs,
                                  const Flags& flags = {}) {
  std::filesystem::create_directories(folder.path() / "refused");
  const std::string message = user_error([&] { prepare_fields(inputs, folder / "refused/p", flags); });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "refused")) << message;
  return message;
}

}  // namespace terrace::data
