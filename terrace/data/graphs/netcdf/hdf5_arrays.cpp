// Reads the arrays of HDF5 files.
#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/data/graphs/formats/point_sets.h"

namespace terrace::data {
namespace {

constexpr int most_nested_groups = 16;

// A number that HDF5 gives for what is open, closed with it.
class Hdf5Object {
 public:
  Hdf5Object(hid_t number, herr_t (*close)(hid_t)) : number_(number), close_(close) {}
  Hdf5Object(const Hdf5Object&) = delete;
  ~Hdf5Object() {
    if (number_ >= 0) close_(number_);
  }
  operator hid_t() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  hid_t number_;
  herr_t (*close_)(hid_t);
};

class Hdf5Arrays {
 public:
  explicit Hdf5Arrays(const std::filesystem::path& path)
      : path_(path.string()), file_(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose) {
    if (!file_.is_open()) throw UserError::of("{} is no HDF5 file, or a truncated one", path_);
  }

  std::vector<NamedArray> read() {
    add_group(file_, "", 0);
    return std::move(arrays_);
  }

 private:
  void add_group(hid_t group, const std::string& prefix, int depth) {
    if (depth > most_nested_groups) throw UserError::of("{} has groups within groups without an end", path_);
    H5G_info_t info{};
    if (H5Gget_info(group, &info) < 0) throw_unreadable(prefix);
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      std::string name(most_name, '\0');
      const ssize_t length =
          H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size(), H5P_DEFAULT);
      if (length < 0 || static_cast<size_t>(length) >= name.size()) throw_unreadable(prefix);
      name.resize(static_cast<size_t>(length));
      const Hdf5Object object(H5Oopen(group, name.c_str(), H5P_DEFAULT), H5Oclose);
      if (!object.is_open()) throw_unreadable(prefix + name);
      const H5I_type_t type = H5Iget_type(object);
      if (type == H5I_GROUP) add_group(object, prefix + name + "/", depth + 1);
      if (type == H5I_DATASET && H5Aexists(object, "CLASS") <= 0) add_array(object, prefix + name);
    }
  }

  void add_array(hid_t dataset, const std::string& name) {
    const Hdf5Object space(H5Dget_space(dataset), H5Sclose), type(H5Dget_type(dataset), H5Tclose);
    const H5T_class_t kind = H5Tget_class(type);
    if (kind != H5T_INTEGER && kind != H5T_FLOAT) {
      throw UserError::of("{}: {} has no numbers but another type of values; write integers or reals", path_, name);
    }
    const int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 0 || rank > most_dimensions) throw_unreadable(name);
    std::vector<hsize_t> sizes(static_cast<size_t>(rank));
    if (H5Sget_simple_extent_dims(space, sizes.data(), nullptr) < 0) throw_unreadable(name);
    NamedArray array{.name = name, .shape = {sizes.begin(), sizes.end()}};
    uint64_t numbers = 1;
    for (const uint64_t size : array.shape) {
      if (size > 0 && numbers > (uint64_t{1} << 40) / size) throw_unreadable(name);
      numbers *= size;
    }
    array.numbers.resize(numbers);
    if (numbers > 0 && H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.numbers.data()) < 0) {
      throw_unreadable(name);
    }
    arrays_.push_back(std::move(array));
  }

  [[noreturn]] void throw_unreadable(const std::string& name) const {
    throw UserError::of("{}: {} cannot be read; the file may be truncated or damaged", path_, name);
  }

  static constexpr size_t most_name = 4096;
  static constexpr int most_dimensions = 32;

  std::string path_;
  Hdf5Object file_;
  std::vector<NamedArray> arrays_;
};

}  // namespace

std::vector<NamedArray> hdf5_arrays(const std::filesystem::path& path) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // its errors become ours
  return Hdf5Arrays(path).read();
}

}  // namespace terrace::data
