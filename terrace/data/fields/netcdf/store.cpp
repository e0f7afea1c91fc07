// Lets libnetcdf make the file of a dataset.
#include <netcdf.h>

#include <string>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/data/fields/fields_store.h"
#include "terrace/data/fields/netcdf/contiguous_array.h"

namespace terrace::data {
namespace {

constexpr int stored_array_alignment = 64;  // bytes, of all that lies in the file

class StoreMaker {
 public:
  StoreMaker(const std::filesystem::path& path, FieldsDescription& description)
      : path_(path), description_(description) {
    check(nc_set_alignment(1, stored_array_alignment));
    check(nc_create(path_.c_str(), NC_CLOBBER | NC_NETCDF4, &id_));
  }
  StoreMaker(const StoreMaker&) = delete;
  ~StoreMaker() {
    if (id_ >= 0) nc_close(id_);
    nc_set_alignment(1, 1);
  }

  void make() {
    int old_mode = 0;
    check(nc_set_fill(id_, NC_NOFILL, &old_mode));
    const int latitude = dimension("latitude", description_.latitudes.size());
    const int longitude = dimension("longitude", description_.longitudes.size());
    const int time = dimension("time", description_.times.size());
    const int variable = dimension("variable", description_.variables.size());
    coordinate("latitude", latitude, description_.latitudes, {{"units", "degrees_north"}, {"axis", "Y"}});
    coordinate("longitude", longitude, description_.longitudes, {{"units", "degrees_east"}, {"axis", "X"}});
    add_times(time);
    add_names("variable", variable, description_.variables);
    std::vector<std::pair<int, StoredArray*>> arrays;
    arrays.emplace_back(array("fields", {time, variable, latitude, longitude}), &description_.fields);
    if (!description_.constants.empty()) {
      const int constant = dimension("constant", description_.constants.size());
      add_names("constant", constant, description_.constants);
      arrays.emplace_back(array("constants", {constant, latitude, longitude}), &description_.constant_fields);
    }
    if (const int64_t periods = description_.climatology_periods(); periods > 0) {
      const int period = dimension("period_of_year", static_cast<size_t>(periods));
      const int of_periods = array("climatology", {period, variable, latitude, longitude});
      text(of_periods, "long_name", "mean of the training part");
      arrays.emplace_back(of_periods, &description_.climatology_fields);
    }
    text(NC_GLOBAL, "Conventions", "CF-1.8");
    check(nc_enddef(id_));
    write_coordinates();
    for (const auto& [stored, array] : arrays) array->sizes = make_space(path_, id_, stored).sizes;
    check(nc_close(std::exchange(id_, -1)));
    find_offsets(arrays);
  }

 private:
  void check(int status) const {
    if (status != NC_NOERR) throw UserError::of("cannot write {}: {}", path_.string(), nc_strerror(status));
  }

  int dimension(const char* name, size_t size) const {
    int dimension = 0;
    check(nc_def_dim(id_, name, size, &dimension));
    return dimension;
  }

  void text(int variable, const char* attribute, const std::string& value) const {
    check(nc_put_att_text(id_, variable, attribute, value.size(), value.c_str()));
  }

  void coordinate(const char* name, int dimension, const std::vector<double>& values,
                  const std::vector<std::pair<const char*, const char*>>& attributes) {
    int variable = 0;
    check(nc_def_var(id_, name, NC_DOUBLE, 1, &dimension, &variable));
    text(variable, "standard_name", name);
    for (const auto& [attribute, value] : attributes) text(variable, attribute, value);
    numbers_.emplace_back(variable, &values);
  }

  void add_times(int dimension) {
    check(nc_def_var(id_, "time", NC_INT64, 1, &dimension, &times_));
    text(times_, "standard_name", "time");
    text(times_, "axis", "T");
    text(times_, "units", "seconds since 1970-01-01 00:00:00");
    text(times_, "calendar", std::string(name_of(description_.calendar)));
  }

  // Adds the names and units of the entries of a dimension.
  void add_names(const std::string& of, int dimension, const std::vector<FieldOfDataset>& fields) {
    std::vector<std::string> names, units, standard_names;
    for (const FieldOfDataset& field : fields) {
      names.push_back(field.name);
      units.push_back(field.units);
      standard_names.push_back(field.standard_name);
    }
    for (auto& [name, values] :
         {std::pair{of, names}, {of + "_units", units}, {of + "_standard_name", standard_names}}) {
      int variable = 0;
      check(nc_def_var(id_, name.c_str(), NC_STRING, 1, &dimension, &variable));
      texts_.emplace_back(variable, values);
    }
  }

  int array(const char* name, const std::vector<int>& dimensions) const {
    int variable = 0;
    check(nc_def_var(id_, name, NC_FLOAT, static_cast<int>(dimensions.size()), dimensions.data(), &variable));
    check(nc_def_var_chunking(id_, variable, NC_CONTIGUOUS, nullptr));
    check(nc_def_var_endian(id_, variable, NC_ENDIAN_LITTLE));
    return variable;
  }

  void write_coordinates() const {
    for (const auto& [variable, values] : numbers_) check(nc_put_var_double(id_, variable, values->data()));
    const std::vector<long long> times(description_.times.begin(), description_.times.end());
    check(nc_put_var_longlong(id_, times_, times.data()));
    for (const auto& [variable, values] : texts_) {
      std::vector<const char*> pointers;
      for (const std::string& value : values) pointers.push_back(value.c_str());
      check(nc_put_var_string(id_, variable, pointers.data()));
    }
  }

  void find_offsets(const std::vector<std::pair<int, StoredArray*>>& arrays) const {
    for (const auto& [variable, array] : arrays) {
      const char* name = array == &description_.fields            ? "fields"
                         : array == &description_.constant_fields ? "constants"
                                                                  : "climatology";
      array->offset = offset_of_array(path_, name);
    }
  }

  const std::filesystem::path& path_;
  FieldsDescription& description_;
  int id_ = -1, times_ = -1;
  std::vector<std::pair<int, const std::vector<double>*>> numbers_;
  std::vector<std::pair<int, std::vector<std::string>>> texts_;
};

}  // namespace

void make_fields_store(const std::filesystem::path& path, FieldsDescription& description) {
  StoreMaker(path, description).make();
}

}  // namespace terrace::data
