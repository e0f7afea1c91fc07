// Wraps the calls of libnetcdf that reading needs.
#include "terrace/data/fields/netcdf/netcdf_file.h"

#include <fmt/format.h>
#include <netcdf.h>

#include <array>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/data/fields/formats/classic_size.h"
#include "terrace/data/fields/formats/other_format.h"
#include "terrace/data/fields/formats/zarr_store.h"

namespace terrace::data {
namespace {

constexpr const char* damaged = "; it may be truncated or damaged, so copy it again";

std::string without_blanks(std::string value) {
  while (!value.empty() && (value.back() == '\0' || value.back() == ' ')) value.pop_back();
  const size_t begin = value.find_first_not_of(' ');
  return begin == std::string::npos ? "" : value.substr(begin);
}

}  // namespace

NetcdfFile::NetcdfFile(std::filesystem::path path) : path_(std::move(path)) {
  if (std::filesystem::is_directory(path_)) {
    open_zarr_store();
    return;
  }
  const MappedFile whole(path_);
  if (const std::string other = other_format(whole.bytes(), path_); !other.empty()) {
    throw UserError::of("{} {}", path_.string(), other);
  }
  if (const auto needed = size_of_classic_netcdf(whole.bytes()); needed && *needed > whole.bytes().size()) {
    throw UserError::of("{} has {} bytes and is truncated: its header tells of more; copy it again", path_.string(),
                        whole.bytes().size());
  }
  const int status = nc_open(path_.c_str(), NC_NOWRITE, &id_);
  if (status != NC_NOERR) {
    throw UserError::of("{} cannot be read as NetCDF: {}{}", path_.string(), nc_strerror(status), damaged);
  }
}

void NetcdfFile::open_zarr_store() {
  is_zarr_ = true;
  check_zarr_store(path_);
  const int status = nc_open(netcdf_name_of_zarr(path_).c_str(), NC_NOWRITE, &id_);
  if (status == NC_NOERR) return;
  throw UserError::of(
      "{} is a Zarr store, and this libnetcdf does not open it ({}){}; write it as NetCDF, for example in Python by "
      "xarray.open_zarr(\"{}\").to_netcdf(\"{}.nc\")",
      path_.string(), nc_strerror(status), unusual_attributes_of_zarr(path_), path_.string(),
      (path_.parent_path() / path_.stem()).string());
}

NetcdfFile::~NetcdfFile() { nc_close(id_); }

void NetcdfFile::check(int status, const std::string& what) const {
  if (status == NC_NOERR) return;
  throw UserError::of("{}: {} cannot be read: {}{}", path_.string(), what, nc_strerror(status), damaged);
}

int NetcdfFile::variables() const {
  int count = 0;
  check(nc_inq_nvars(id_, &count), "the list of variables");
  return count;
}

std::string NetcdfFile::name(int variable) const {
  std::array<char, NC_MAX_NAME + 1> name{};
  check(nc_inq_varname(id_, variable, name.data()), "the name of a variable");
  return name.data();
}

std::vector<NetcdfFile::Dimension> NetcdfFile::dimensions(int variable) const {
  int count = 0;
  check(nc_inq_varndims(id_, variable, &count), name(variable));
  std::vector<int> ids(static_cast<size_t>(count));
  check(nc_inq_vardimid(id_, variable, ids.data()), name(variable));
  std::vector<Dimension> dimensions;
  for (const int id : ids) {
    std::array<char, NC_MAX_NAME + 1> of_dimension{};
    size_t size = 0;
    check(nc_inq_dim(id_, id, of_dimension.data(), &size), name(variable));
    dimensions.push_back({of_dimension.data(), size});
  }
  return dimensions;
}

int NetcdfFile::find(const std::string& wanted) const {
  int variable = -1;
  const int status = nc_inq_varid(id_, wanted.c_str(), &variable);
  return status == NC_NOERR ? variable : -1;
}

std::string NetcdfFile::text(int variable, const std::string& attribute) const {
  nc_type type = NC_NAT;
  size_t length = 0;
  if (nc_inq_att(id_, variable, attribute.c_str(), &type, &length) != NC_NOERR) return "";
  std::string value;
  if (type == NC_CHAR) {
    value.resize(length);
    check(nc_get_att_text(id_, variable, attribute.c_str(), value.data()), attribute);
  } else if (type == NC_STRING && length > 0) {
    std::vector<char*> strings(length);
    check(nc_get_att_string(id_, variable, attribute.c_str(), strings.data()), attribute);
    if (strings.front() != nullptr) value = strings.front();
    nc_free_string(length, strings.data());
  }
  return without_blanks(value);
}

int NetcdfFile::type(int variable) const {
  nc_type type = NC_NAT;
  check(nc_inq_vartype(id_, variable, &type), name(variable));
  return type;
}

bool NetcdfFile::has_text(int variable) const {
  const int of_values = type(variable);
  return of_values == NC_CHAR || of_values > NC_UINT64;
}

std::vector<double> NetcdfFile::values(int variable) const {
  size_t count = 1;
  for (const Dimension& dimension : dimensions(variable)) count *= dimension.size;
  std::vector<double> all(count);
  check(nc_get_var_double(id_, variable, all.data()), name(variable));
  return all;
}

std::vector<std::string> NetcdfFile::texts(int variable) const {
  const int of_values = type(variable);
  const std::vector<Dimension> sizes = dimensions(variable);
  std::vector<std::string> all;
  if (of_values == NC_CHAR && sizes.size() == 2) {
    std::string letters(sizes[0].size * sizes[1].size, ' ');
    check(nc_get_var_text(id_, variable, letters.data()), name(variable));
    for (size_t i = 0; i < sizes[0].size; ++i) {
      all.push_back(without_blanks(letters.substr(i * sizes[1].size, sizes[1].size)));
    }
  } else if (of_values == NC_STRING && sizes.size() == 1) {
    std::vector<char*> strings(sizes[0].size);
    check(nc_get_var_string(id_, variable, strings.data()), name(variable));
    for (const char* one : strings) all.push_back(one == nullptr ? "" : without_blanks(one));
    nc_free_string(strings.size(), strings.data());
  }
  return all;
}

void NetcdfFile::read(int variable, const std::vector<size_t>& start, const std::vector<size_t>& count,
                      std::vector<std::byte>& numbers) const {
  size_t bytes = bytes_of_netcdf_type(type(variable));
  for (const size_t size : count) bytes *= size;
  numbers.resize(bytes);
  check(nc_get_vara(id_, variable, start.data(), count.data(), numbers.data()), name(variable));
}

size_t bytes_of_netcdf_type(int type) {
  switch (type) {
    case NC_BYTE:
    case NC_UBYTE:
      return 1;
    case NC_SHORT:
    case NC_USHORT:
      return 2;
    case NC_INT:
    case NC_UINT:
    case NC_FLOAT:
      return 4;
    default:
      return 8;
  }
}

std::vector<size_t> NetcdfFile::chunks(int variable) const {
  std::vector<size_t> sizes(dimensions(variable).size());
  int storage = NC_CONTIGUOUS;
  if (nc_inq_var_chunking(id_, variable, &storage, sizes.data()) != NC_NOERR || storage != NC_CHUNKED) return {};
  return sizes;
}

}  // namespace terrace::data
