// Fields give the same batches through a window, and announce all that they read of their files.
#include <gmock/gmock.h>

#include <cmath>
#include <memory>

#include "terrace/data/fields/fields_source.h"
#include "tests/data/fields_files.h"
#include "tests/data/stage_files.h"

namespace terrace::data {
namespace {

TEST(StagedFields, AreTheSame) {
  const TemporaryFolder folder;
  TestFile file;
  file.times.clear();
  for (int i = 0; i < 100; ++i) file.times.push_back(i * 6);
  file.latitudes = {-75, -45, -15, 15, 45, 75};
  file.longitudes.clear();
  for (int i = 0; i < 24; ++i) file.longitudes.push_back(15 * i);
  const auto wave = [](double factor) {
    return [factor](double time, double, double latitude, double longitude) {
      return factor * std::sin(time / 7 + latitude + longitude / 50) + time / 100;
    };
  };
  file.variables = {{.name = "t", .value = wave(10)},
                    {.name = "u", .value = wave(3)},
                    {.name = "orography", .dimensions = {"lat", "lon"}, .value = wave(100)}};
  prepare_fields({file.write(folder / "in.nc")}, folder / "p",
                 {{"train", {"2000-01-01", "2000-01-15"}},
                  {"validation", {"2000-01-16", "2000-01-20"}},
                  {"climatology", {"monthly"}}});
  const FieldsConfig config{.fields = folder / "p",
                            .leads = {6 * 3600, 24 * 3600},
                            .inputs = 2,
                            .input_step = 12 * 3600,
                            .constants = {"orography"},
                            .turned = true};
  const FieldsRequest request{.inputs = {"u", "t"}, .outputs = {"t"}, .counts = {144, 1}};
  for (const TensorNames& names :
       {TensorNames{"inputs", "targets", "before", "climatology", "climatology_before", "mask", "leads", "times"},
        TensorNames{"inputs", "leads"}, TensorNames{"mask"}, TensorNames{"climatology_before"}}) {
    SCOPED_TRACE(names.size());
    expect_same_when_staged(
        folder, [&] { return std::make_unique<FieldsSource>(config, request, 1); }, names);
  }
}

}  // namespace
}  // namespace terrace::data
