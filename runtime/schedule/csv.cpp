#include "runtime/schedule/csv.hpp"

namespace troupe::runtime {

std::string to_csv(const plan& x) {
  std::string out;
  for (const auto& row : x.ranks) {
    for (std::size_t i = 0; i < row.size(); ++i)
      out += (i ? "," : "") + to_string(row[i], x.copies);
    out += '\n';
  }
  return out;
}

}  // namespace troupe::runtime
