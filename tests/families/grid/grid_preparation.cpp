// Reads numbers and writes them with their means and deviations.
#include "tests/families/grid/grid_preparation.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "tests/families/grid/grid_settings.h"

namespace terrace::grid {
namespace {

std::string value_of(const data::PrepareRequest& request, const std::string& flag) {
  const auto found = request.flags.find(flag);
  if (found == request.flags.end()) throw UserError::of("--{} is missing", flag);
  return found->second.at(0);
}

}  // namespace

std::vector<data::PrepareFlag> GridPreparation::flags() const {
  return {{.name = "variables", .about = "Names of the variables, in the order of the numbers", .is_list = true},
          {.name = "latitudes", .about = "Rows of the grid"},
          {.name = "longitudes", .about = "Columns of the grid"},
          {.name = "seconds", .about = "Seconds between two times"}};
}

data::PrepareResult GridPreparation::prepare(const data::PrepareRequest& request) const {
  const auto found = request.flags.find("variables");
  if (found == request.flags.end()) throw UserError("--variables is missing; name those of the files");
  const std::vector<std::string>& variables = found->second;
  const int64_t latitudes = std::stoll(value_of(request, "latitudes")),
                longitudes = std::stoll(value_of(request, "longitudes"));
  const auto places = static_cast<size_t>(latitudes * longitudes), field = variables.size() * places;
  std::vector<float> values;
  for (const std::string& input : request.inputs) {
    std::istringstream numbers(read_text(input));
    size_t count = 0;
    for (float number = 0; numbers >> number; ++count) values.push_back(number);
    if (!numbers.eof() || count % field != 0) {
      throw UserError::of("{}: {} numbers, and a time has {} of {} variables at {} places", input, count, field,
                          variables.size(), places);
    }
  }
  std::vector<double> means, deviations;
  const size_t times = values.size() / field;
  const auto count = static_cast<double>(times * places);
  for (size_t variable = 0; variable < variables.size(); ++variable) {
    double sum = 0, squares = 0;
    for (size_t time = 0; time < times; ++time) {
      for (size_t place = 0; place < places; ++place) {
        const double value = values[time * field + variable * places + place];
        sum += value;
        squares += value * value;
      }
    }
    means.push_back(sum / count);
    deviations.push_back(std::max(1e-6, std::sqrt(squares / count - means.back() * means.back())));
  }
  if (!request.overwrite && std::filesystem::exists(request.output + ".json")) {
    throw UserError::of("{}.json exists; add --overwrite to replace it", request.output);
  }
  const Json description = {{"variables", variables},   {"latitudes", latitudes},
                            {"longitudes", longitudes}, {"seconds", std::stod(value_of(request, "seconds"))},
                            {"times", times},           {"means", means},
                            {"deviations", deviations}};
  const auto bytes = std::as_bytes(std::span(values));
  write_text_atomically(request.output + ".fields",
                        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  write_text_atomically(request.output + ".json", description.dump(2));
  return {.text = fmt::format("{} times of {} variables: wrote {}.fields and .json", times, variables.size(),
                              request.output),
          .json = description};
}

}  // namespace terrace::grid
