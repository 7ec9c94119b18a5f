#include "runtime/core/number_range.hpp"
#include "runtime/family/gpt/experts_config.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <string_view>

namespace troupe::runtime {
namespace {

constexpr std::size_t most_layers = 10000;

/// Reads sums of products of lists. Empty results: not one.
class pattern_reader {
 public:
  explicit pattern_reader(std::string_view text) : rest_(text) {}

  std::vector<bool> whole() {
    auto out = sum();
    if (!out || !rest_.empty())
      return {};
    return *out;
  }

 private:
  using list = std::optional<std::vector<bool>>;

  bool take(char c) {
    if (rest_.empty() || rest_.front() != c)
      return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<std::int64_t> number() {
    const auto end = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    const auto out = number_in(whole_range{0, most_layers}, rest_.substr(0, end));
    rest_.remove_prefix(end);
    return out;
  }

  list entries() {
    std::vector<bool> out;
    do {
      const auto one = number();
      if (!one || *one > 1 || out.size() == most_layers)
        return {};
      out.push_back(*one == 1);
    } while (take(','));
    return take(']') ? list(out) : list();
  }

  list product() {
    list out;
    if (take('['))
      out = entries();
    else if (depth_ < 8 && take('(')) {
      ++depth_;
      out = sum();
      --depth_;
      if (!take(')'))
        return {};
    }
    while (out && take('*')) {
      const auto times = number();
      if (!times || out->size() * std::size_t(*times) > most_layers)
        return {};
      std::vector<bool> all;
      for (std::int64_t i = 0; i < *times; ++i)
        all.insert(all.end(), out->begin(), out->end());
      out = std::move(all);
    }
    return out;
  }

  list sum() {
    auto out = product();
    while (out && take('+')) {
      const auto more = product();
      if (!more || out->size() + more->size() > most_layers)
        return {};
      out->insert(out->end(), more->begin(), more->end());
    }
    return out;
  }

  std::string_view rest_;
  int depth_ = 0;
};

}  // namespace

std::vector<bool> layers_with_experts(const std::string& pattern, std::int64_t layers) {
  if (const auto every = number_in(whole_range{1, most_layers}, pattern)) {
    std::vector<bool> out;
    for (std::int64_t l = 0; l < std::min<std::int64_t>(layers, most_layers); ++l)
      out.push_back(l % *every == 0);
    return out;
  }
  auto text = pattern;
  std::erase(text, ' ');
  return pattern_reader(text).whole();
}

std::string pattern_of(const std::vector<bool>& layers) {
  if (std::find(layers.begin(), layers.end(), false) == layers.end())
    return "1";
  std::string out;
  for (auto at = layers.begin(); at != layers.end();) {
    const auto end = std::find(at, layers.end(), !*at);
    out += fmt::format("{}[{}]", out.empty() ? "" : "+", *at ? 1 : 0);
    if (end - at > 1)
      out += fmt::format("*{}", end - at);
    at = end;
  }
  return "(" + out + ")";
}

}  // namespace troupe::runtime
