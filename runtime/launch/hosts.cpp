#include "runtime/launch/hosts.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/number_range.hpp"
#include "runtime/core/shortened.hpp"

#include <algorithm>
#include <cstdint>

namespace troupe::runtime {
namespace {

constexpr std::size_t most_hosts = 65536, longest_name = 253;  // of a name: RFC 1035
constexpr whole_range task_range = {.least = 1, .most = 4096};
constexpr std::string_view in_names
    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

/// Reads a list from left to right.
class list_reader {
 public:
  list_reader(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  template <class Item>
  std::vector<Item> all() {
    std::vector<Item> out;
    do
      add(out);
    while (take(","));
    require(at_ == text_.size(), "',' or the end");
    return out;
  }

 private:
  void require(bool found, std::string_view expected) const {
    if (!found)
      throw input_error(
          "cannot read {} '{}': expected {} at character {}; leave it as Slurm set it",
          what_,
          shortened(text_, 200),
          expected,
          at_ + 1);
  }
  void require_room(std::size_t hosts) const {
    require(hosts <= most_hosts, fmt::format("at most {} hosts", most_hosts));
  }

  bool take(std::string_view word) {
    const bool found = text_.substr(at_).starts_with(word);
    at_ += found ? word.size() : 0;
    return found;
  }

  std::string_view word() {
    const auto out = text_.substr(at_, text_.find_first_not_of(in_names, at_) - at_);
    at_ += out.size();
    return out;
  }

  std::int64_t number(const whole_range& range) {
    const auto out = number_in(range, word());
    require(out.has_value(), range_text(range));
    return *out;
  }

  /// "2(x3)"
  void add(std::vector<int>& to) {
    const auto count = number(task_range);
    std::int64_t hosts = 1;
    if (take("(x")) {
      hosts = number({.least = 1, .most = most_hosts});
      require(take(")"), "')'");
    }
    require_room(to.size() + std::size_t(hosts));
    to.insert(to.end(), std::size_t(hosts), int(count));
  }

  /// "x[1-2]-rack[3-4]"
  void add(std::vector<std::string>& to) {
    std::vector<std::string> names{""};
    for (;;)
      if (const auto x = word(); !x.empty())
        names = product(names, {std::string(x)});
      else if (take("["))
        names = product(names, group());
      else
        break;
    require(!names.front().empty() && names.front().front() != '-',
            "a name not beginning with '-'");
    require_room(to.size() + names.size());
    to.insert(to.end(), names.begin(), names.end());
  }

  /// "001-004,7]"
  std::vector<std::string> group() {
    std::vector<std::string> out;
    do {
      const auto x = word();
      const auto dash = std::min(x.find('-'), x.size());
      if (dash == x.size()) {
        require(dash > 0, "a number or name");
        out.emplace_back(x);
        continue;
      }
      const auto first = number_in(whole_range{}, x.substr(0, dash));
      const auto last = number_in(whole_range{}, x.substr(dash + 1));
      require(first && last && *first <= *last && dash <= longest_name,
              "an ascending range of numbers, such as 001-004");
      require_room(out.size() + std::size_t(*last - *first) + 1);
      for (auto i = *first; i <= *last; ++i)
        out.push_back(fmt::format("{:0{}}", i, int(dash)));
    } while (take(","));
    require(take("]"), "']'");
    return out;
  }

  std::vector<std::string> product(const std::vector<std::string>& heads,
                                   const std::vector<std::string>& tails) const {
    require_room(heads.size() * tails.size());
    std::vector<std::string> out;
    for (const auto& head : heads)
      for (const auto& tail : tails) {
        require(head.size() + tail.size() <= longest_name, "a shorter name");
        out.push_back(head + tail);
      }
    return out;
  }

  std::string_view text_, what_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> hosts_in_list(std::string_view text, std::string_view what) {
  return list_reader(text, what).all<std::string>();
}

std::vector<int> counts_in_list(std::string_view text, std::string_view what) {
  return list_reader(text, what).all<int>();
}

}  // namespace troupe::runtime
