// Chooses among variables by standard names first, then by the names that files without them use.
#include "terrace/data/fields/netcdf/single_time.h"

#include <algorithm>
#include <sstream>

namespace terrace::data {
namespace {

// Rates how sure it is that the variable has the time of the fields, the higher the surer; 0: it does not have it.
int likeness(const NetcdfFile& file, int variable) {
  const std::string standard = file.text(variable, "standard_name"), name = file.name(variable);
  const bool is_time = file.dimensions(variable).empty() && !file.has_text(variable) &&
                       file.text(variable, "units").find(" since ") != std::string::npos;
  if (!is_time || standard == "forecast_reference_time") return 0;
  if (standard == "time") return name == "valid_time" ? 4 : 3;
  if (name == "valid_time") return 2;
  return name == "time" || file.text(variable, "axis") == "T" ? 1 : 0;
}

}  // namespace

int single_time(const NetcdfFile& file) {
  int best = -1, most = 0;
  for (int variable = 0; variable < file.variables(); ++variable) {
    const int like = likeness(file, variable);
    if (like > most) best = variable, most = like;
  }
  return best;
}

bool has_coordinate(const NetcdfFile& file, int variable, const std::string& name) {
  std::istringstream words(file.text(variable, "coordinates"));
  for (std::string word; words >> word;) {
    if (word == name) return true;
  }
  return false;
}

}  // namespace terrace::data
