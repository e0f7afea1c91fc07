// Runs of the family of grids on a field that turns around the globe.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "tests/families/grid/grid_family.h"
#include "tests/families/grid/grid_preparation.h"
#include "tests/families/runs.h"

namespace terrace::grid {

inline config::Families families_with_grid() {
  config::Families families = models::families();
  families.push_back(&family());
  return families;
}

// The numbers of two variables on 4 x 6 places at so many times: waves that move by one place in six hours.
inline std::string moving_waves(int64_t times) {
  std::string numbers;
  for (int64_t time = 0; time < times; ++time) {
    for (int64_t variable = 0; variable < 2; ++variable) {
      for (int64_t place = 0; place < 24; ++place) {
        const double longitude = static_cast<double>((place % 6 + time) % 6), latitude = static_cast<double>(place / 6);
        numbers += fmt::format("{} ", (variable + 1) * std::cos(longitude * 1.0472 + 0.3 * latitude) + 3.0 * latitude);
      }
    }
    numbers += '\n';
  }
  return numbers;
}

class GridRuns : public RunsOfFamily {
 protected:
  GridRuns() {
    std::ofstream(folder_ / "waves.txt") << moving_waves(60);
    GridPreparation().prepare(
        {.inputs = {(folder_ / "waves.txt").string()},
         .output = (folder_ / "waves").string(),
         .flags = {{"variables", {"u", "v"}}, {"latitudes", {"4"}}, {"longitudes", {"6"}}, {"seconds", {"21600"}}}});
  }

  config::Config config(const std::vector<std::string>& overrides) const override {
    const std::string toml = fmt::format(
        "[model]\nfamily = \"grid\"\nvariables = [\"u\", \"v\"]\nlatitudes = 4\nlongitudes = 6\nlayers = 3\n"
        "width = 12\nweights = {{v = 0.5}}\n"
        "[data]\nfields = \"{0}/waves\"\nleads = [\"6h\", \"12h\"]\n"
        "[train]\nglobal_batch = 24\nmicro_batch = 1\nsteps = 3\nthreads = 1\ndevice = \"cpu\"\n"
        "[optimizer]\nlearning_rate = 1e-2\n[layout]\ndeterministic = true\n[checkpoint]\nfolder = \"{0}/run\"\n",
        folder_.string());
    return config::parse(toml, "grid.toml", families_with_grid(), overrides);
  }
};

}  // namespace terrace::grid
