#include "runtime/data/split.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace troupe::runtime {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ')
    text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ')
    text.remove_suffix(1);
  return text;
}

}  // namespace

std::string_view to_string(data_split split) {
  switch (split) {
    case data_split::train:
      return "train";
    case data_split::valid:
      return "valid";
    case data_split::test:
      return "test";
  }
  throw broken_promise("SPLIT-1: a split is one of three");
}

split_matrix::split_matrix(std::string_view weights) {
  const auto refuse = [weights](std::string_view what) {
    throw input_error(
        "cannot split the data by '{}': {}; give the weights of training, validation and test, "
        "such as 969,30,1",
        weights,
        what);
  };

  std::array<double, 3> share = {};
  std::size_t count = 0;
  for (std::size_t at = 0; at <= weights.size();) {
    const auto comma = std::min(weights.find(',', at), weights.size());
    const auto word = trimmed(weights.substr(at, comma - at));
    at = comma + 1;
    if (count == share.size())
      refuse("it has more than three weights");
    // from_chars also accepts "inf", "1e9" and "-1".
    const bool digits = word.find_first_not_of(".0123456789") == std::string_view::npos;
    const auto [end, failure]
        = std::from_chars(word.data(), word.data() + word.size(), share[count++]);
    if (!digits || failure != std::errc() || end != word.data() + word.size())
      refuse(fmt::format("'{}' is not a weight of 0 or more", word));
  }
  const double sum = share[0] + share[1] + share[2];
  if (!(sum > 0) || !std::isfinite(sum))
    refuse("its weights do not have a positive sum");

  double begin = 0;
  for (std::size_t i = 0; i < share.size(); ++i) {
    const double end = begin + share[i] / sum;
    if (end > begin)
      shares_[i] = bookends{begin, end};
    begin = end;
  }
}

sequence_range split_matrix::of(data_split split, std::int64_t count) const {
  const auto& share = this->share(split);
  if (!share)
    return {};
  // nearbyint rounds ties to even, as Python's round does.
  const auto at = [count](double x) {
    return std::min(static_cast<std::int64_t>(std::nearbyint(x * static_cast<double>(count))),
                    count);
  };
  return {at(share->begin), at(share->end)};
}

}  // namespace troupe::runtime
