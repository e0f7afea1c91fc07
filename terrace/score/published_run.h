// A run of a table of published runs, as a planner can predict it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/plan/target.h"

namespace terrace::score {

struct PublishedRun {
  std::string table = {};  // the file
  int64_t line = 0;        // in the file, from 1
  std::string name = {};   // of the row; "" if it has none
  std::string model = {};  // by which layouts are compared
  // The configurations that the run may have had: several where the table leaves out the micro-batch or the chunks.
  std::vector<config::Config> configs = {};
  std::string machine = {};       // by which its description is loaded: a built-in name or a file
  plan::Target target = {};       // with what the table states of the machine
  double seconds = 0;             // of a step, as measured; 0: see flops_rate
  double flops_rate = 0;          // FLOP/s of a device, as published in place of the time; attention counts in full
  bool counts_recompute = false;  // in flops_rate
  double memory_bytes = 0;        // of the fullest device; 0: not published
  std::vector<std::string> problems = {};  // why the run cannot be scored; empty: it can
  std::vector<std::string> notes = {};     // what is counted otherwise than the table says
};

}  // namespace terrace::score
