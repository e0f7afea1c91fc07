// Fields give the same batches through a buffer, and announce all that they read of their files.
#include <gmock/gmock.h>

#include <memory>

#include "terrace/data/fields/fields_source.h"
#include "tests/data/fields_files.h"
#include "tests/data/stage_files.h"

namespace terrace::data {
namespace {

TEST(StagedFields, AreTheSame) {
  const TemporaryFolder folder;
  TestFile file = file_of_waves();
  file.latitudes = {-75, -45, -15, 15, 45, 75};
  file.longitudes.clear();
  for (int i = 0; i < 24; ++i) file.longitudes.push_back(15 * i);
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
