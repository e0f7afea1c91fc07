// Writes and reads lines of JSON.
#include "terrace/observe/slowness_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <system_error>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json_record.h"

namespace terrace::observe {

void members_of(auto& json, MaybeConst<Slowness> auto& one) {
  json("step", one.step)("what", one.what)("ended", one.ended)("rank", one.rank)("to", one.to);
  json("place", one.place)("excess", one.excess)("text", one.text);
}

void append_slowness(const std::filesystem::path& folder, const Slowness& slowness) {
  const std::filesystem::path path = folder / slowness_file;
  std::ofstream file(path, std::ios::app);
  file << json_of_record(slowness).dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  file.flush();
  if (!file) throw_write_error(path);
}

std::vector<Slowness> read_slowness(const std::filesystem::path& folder) {
  std::vector<Slowness> all;
  std::ifstream file(folder / slowness_file);
  for (std::string text; std::getline(file, text);) {
    const Json line = parse_json_or_discard(text);
    if (!line.is_object()) continue;
    try {
      all.push_back(record_of<Slowness>(line));
    } catch (const Json::exception&) {
      continue;
    }
  }
  return all;
}

std::vector<std::string> texts_of(const std::vector<Slowness>& all) {
  std::vector<std::string> texts;
  for (auto one = all.begin(); one != all.end(); ++one) {
    if (one->ended) continue;
    const auto end = std::find_if(one, all.end(), [&](const Slowness& later) {
      return later.ended && later.what == one->what && later.rank == one->rank && later.to == one->to;
    });
    texts.push_back(fmt::format("from step {}{}: {}", one->step,
                                end == all.end() ? std::string(" on") : fmt::format(" to step {}", end->step),
                                one->text));
  }
  return texts;
}

}  // namespace terrace::observe
