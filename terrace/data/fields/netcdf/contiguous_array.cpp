// Lets libnetcdf take space and libhdf5 say where it is.
#include "terrace/data/fields/netcdf/contiguous_array.h"

#include <hdf5.h>
#include <netcdf.h>

#include <vector>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

void check_space(const std::filesystem::path& path, int status) {
  if (status != NC_NOERR) throw UserError::of("cannot write {}: {}", path.string(), nc_strerror(status));
}

}  // namespace

StoredArray make_space(const std::filesystem::path& path, int file, int variable) {
  int count = 0;
  check_space(path, nc_inq_varndims(file, variable, &count));
  std::vector<int> dimensions(static_cast<size_t>(count));
  check_space(path, nc_inq_vardimid(file, variable, dimensions.data()));
  StoredArray array;
  std::vector<size_t> last;
  for (const int dimension : dimensions) {
    size_t size = 0;
    check_space(path, nc_inq_dimlen(file, dimension, &size));
    array.sizes.push_back(size);
    last.push_back(size - 1);
  }
  const float zero = 0;
  check_space(path, nc_put_var1_float(file, variable, last.data(), &zero));
  return array;
}

uint64_t offset_of_array(const std::filesystem::path& path, const std::string& name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = file < 0 ? -1 : H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  const haddr_t offset = dataset < 0 ? HADDR_UNDEF : H5Dget_offset(dataset);
  if (dataset >= 0) H5Dclose(dataset);
  if (file >= 0) H5Fclose(file);
  if (offset == HADDR_UNDEF || offset % sizeof(float) != 0) {
    throw UserError::of("{}: libhdf5 does not say where {} lies", path.string(), name);
  }
  return offset;
}

}  // namespace terrace::data
