// Formats numbers with units for people.
#pragma once

#include <cstdint>
#include <string>

namespace terrace {

std::string format_bytes(double bytes);             // "71.3 GiB"
std::string format_seconds(double seconds);         // "850 ms", "3.46 s", "4 min 05 s"
std::string format_days(double seconds);            // "12.3 days", "7.69 years"; below two days as format_seconds()
std::string format_energy(double joules);           // "1.76 MWh"
std::string format_flops(double flops_per_second);  // "412.0 GFLOP/s"
std::string format_count(int64_t count);            // "124,439,808"

}  // namespace terrace
