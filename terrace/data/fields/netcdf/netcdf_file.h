// Calls of libnetcdf whose errors name the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace terrace::data {

// An open NetCDF file. The library is not safe to call from several threads, so that all of them are opened, read and
// closed by one.
class NetcdfFile {
 public:
  // Opens to read: a file, or a folder that is a Zarr store (zarr_store.h). Throws UserError for what is no NetCDF
  // file, or a truncated one.
  explicit NetcdfFile(std::filesystem::path path);
  NetcdfFile(const NetcdfFile&) = delete;
  ~NetcdfFile();

  struct Dimension {
    std::string name;
    size_t size;
  };

  int id() const { return id_; }
  const std::filesystem::path& path() const { return path_; }
  bool is_zarr() const { return is_zarr_; }
  int variables() const;
  std::string name(int variable) const;
  std::vector<Dimension> dimensions(int variable) const;
  // Returns the number of a variable, -1 where there is none.
  int find(const std::string& name) const;
  std::string text(int variable, const std::string& attribute) const;  // "" where it is missing
  bool has_text(int variable) const;                                   // a variable of characters or strings
  int type(int variable) const;                                        // NC_FLOAT and so on
  std::vector<double> values(int variable) const;
  // Returns the entries of a variable of strings, or of characters in the last of two dimensions, without the blanks at
  // their ends; none for other variables.
  std::vector<std::string> texts(int variable) const;
  // Reads the part of a variable as it is stored, in the bytes of its type.
  void read(int variable, const std::vector<size_t>& start, const std::vector<size_t>& count,
            std::vector<std::byte>& numbers) const;
  // Returns how many entries of each dimension are stored together; empty where the variable is not chunked.
  std::vector<size_t> chunks(int variable) const;

  // Throws UserError with the file, `what` and the library's message where the status is an error.
  void check(int status, const std::string& what) const;

 private:
  void open_zarr_store();

  std::filesystem::path path_;
  int id_ = -1;
  bool is_zarr_ = false;
};

// Returns the bytes of a number of a type such as NC_FLOAT.
size_t bytes_of_netcdf_type(int type);

}  // namespace terrace::data
