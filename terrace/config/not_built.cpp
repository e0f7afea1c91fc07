// Lists the names of features that are not built yet.
#include "terrace/config/not_built.h"

#include <fmt/format.h>

#include <array>

namespace terrace::config {
namespace {

struct Topic {
  std::string_view stem;  // the beginning of the table's or the key's name
  std::string_view what;
  std::string_view section = "";  // the only section where the stem means this; "": any
};

constexpr std::string_view other_optimizers = "an optimizer other than AdamW, which needs no key, is";
// D-CHAG is another model at every number of tensor ranks; layout.tensor divides the aggregation of variables by heads.
constexpr std::string_view compressed_variables =
    "D-CHAG, which compresses the variables of each tensor rank and so is another model for each layout.tensor, is";

constexpr std::array topics = {
    Topic{"offload", "offloading to CPU memory is"},
    Topic{"cpu_offload", "offloading to CPU memory is"},
    Topic{"d_chag", compressed_variables},
    Topic{"dchag", compressed_variables},
    Topic{"chag", compressed_variables},
    Topic{"type", other_optimizers, "optimizer"},
    Topic{"name", other_optimizers, "optimizer"},
    Topic{"optim", other_optimizers, "train"},
    Topic{"muon", other_optimizers},
};

}  // namespace

std::string not_built(std::string_view section, std::string_view name) {
  for (const Topic& topic : topics) {
    if (!topic.section.empty() && topic.section != section) continue;
    const std::string_view word = section.starts_with(topic.stem) ? section : name;
    if (word.starts_with(topic.stem)) return fmt::format("{} not built yet; remove it", topic.what);
  }
  return "";
}

}  // namespace terrace::config
