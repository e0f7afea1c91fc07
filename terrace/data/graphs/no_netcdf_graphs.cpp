// Refuses HDF5 in builds without libhdf5.
#include "terrace/base/error.h"
#include "terrace/data/graphs/formats/point_sets.h"

namespace terrace::data {

std::vector<NamedArray> hdf5_arrays(const std::filesystem::path& path) {
  throw UserError::of(
      "{}: this program was built without libhdf5; write .npz, or install libnetcdf-dev and libhdf5-dev, run cmake "
      "again "
      "and build",
      path.string());
}

}  // namespace terrace::data
