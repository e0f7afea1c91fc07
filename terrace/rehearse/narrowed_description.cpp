// Puts the FLOPs of one table into the rows of another one.
#include "terrace/rehearse/narrowed_description.h"

#include "terrace/base/error.h"

namespace terrace::rehearse {

NarrowedDescription::NarrowedDescription(const schedule::Description& of_family, const schedule::UnitTable& wide)
    : of_family_(of_family) {
  for (const schedule::UnitRow& row : wide) forward_flops_.push_back(row.forward_flops);
}

schedule::UnitTable NarrowedDescription::unit_table(const config::Config& config,
                                                    const schedule::UnitTableOptions& options) const {
  schedule::UnitTable table = of_family_.unit_table(config, options);
  TERRACE_CHECK(table.size() == forward_flops_.size(), "{} units of the narrowed model and {} of the wide one",
                table.size(), forward_flops_.size());
  for (size_t unit = 0; unit < table.size(); ++unit) table[unit].forward_flops = forward_flops_[unit];
  return table;
}

}  // namespace terrace::rehearse
