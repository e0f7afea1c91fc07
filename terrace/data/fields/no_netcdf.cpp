// Refuses fields in builds without libnetcdf.
#include "terrace/base/error.h"
#include "terrace/data/fields/field_file.h"
#include "terrace/data/fields/fields_store.h"

namespace terrace::data {
namespace {

[[noreturn]] void refuse_netcdf(const std::filesystem::path& path) {
  throw UserError::of(
      "{}: this program was built without libnetcdf; install libnetcdf-dev and libhdf5-dev, run cmake again and build",
      path.string());
}

}  // namespace

std::unique_ptr<FieldFile> open_netcdf(const std::filesystem::path& path, const std::vector<DimensionChoice>&) {
  refuse_netcdf(path);
}

void make_fields_store(const std::filesystem::path& path, FieldsDescription&) { refuse_netcdf(path); }

}  // namespace terrace::data
