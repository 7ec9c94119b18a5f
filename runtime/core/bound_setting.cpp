#include "runtime/core/bound_setting.hpp"

#include <fmt/format.h>
#include <sstream>

namespace troupe::runtime {

std::vector<std::string> words_in(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> out;
  for (std::string word; in >> word;)
    out.push_back(word);
  return out;
}

std::string with_commas(const std::vector<std::string>& all) {
  return fmt::format("{}", fmt::join(all, ","));
}

std::string shortest_text(double x) {
  return fmt::format("{}", x);
}

}  // namespace troupe::runtime
