#include "runtime/schedule/block_tally.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::runtime {

bool block_tally::is_complete(int back, int again) const {
  return f == 1 && b + i == back && b + w == back && r == again;
}

std::string block_tally::missing(int back, int again) const {
  if (f > 1 || b + i > back || b + w > back || r > again)
    return "";
  std::vector<const char*> out;
  if (f == 0)
    out.push_back("F");
  if (r < again)
    out.push_back("R");
  if (b + i < back)
    out.push_back(w == 0 ? "B" : "I");
  else if (b + w < back)
    out.push_back("W");
  return fmt::format("{}", fmt::join(out, " and "));
}

std::string list_of_microbatches(const std::vector<int>& numbers) {
  constexpr std::size_t shown = 8;
  if (numbers.size() == 1)
    return fmt::format("micro-batch {}", numbers.front());
  std::vector<std::string> out;
  for (std::size_t i = 0, n = 0; i < numbers.size(); i += n) {
    for (n = 1; i + n < numbers.size() && numbers[i + n] == numbers[i] + int(n);)
      ++n;
    if (out.size() == shown) {
      out.emplace_back("...");
      break;
    }
    n = n == 2 ? 1 : n;
    out.push_back(n == 1 ? fmt::format("{}", numbers[i])
                         : fmt::format("{} to {}", numbers[i], numbers[i + n - 1]));
  }
  return fmt::format("{} micro-batches ({})", numbers.size(), fmt::join(out, ", "));
}

}  // namespace troupe::runtime
