#include "runtime/launch/hosts.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/number_range.hpp"
#include "runtime/core/shortened.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <map>
#include <netinet/in.h>
#include <sstream>

namespace troupe::runtime {
namespace {

constexpr std::size_t most_hosts = 65536, longest_name = 253;  // of a name: RFC 1035
constexpr whole_range slot_range = {.least = 1, .most = 4096};
constexpr std::string_view in_addresses = "0123456789abcdefABCDEF:.";
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
      throw input_error("cannot read {} '{}': expected {} at character {}",
                        what_,
                        shortened(text_, 200),
                        expected,
                        at_ + 1);
  }
  void require_room(std::size_t hosts) const { require(hosts <= most_hosts, "fewer hosts"); }

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
    const auto count = number(slot_range);
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

void require_name(const std::string& x) {
  if (x.empty() || x.size() > longest_name || x.front() == '-'
      || x.find_first_not_of(in_names) != std::string::npos)
    throw input_error(
        "'{}' is not a name: write HOST or USER@HOST, and an IPv6 address in brackets",
        shortened(x, 100));
}

/// "HOST", "USER@HOST" or "[IPv6]", then "slots=N" and "max_slots=N"
launch_host host_in(std::istringstream& words) {
  launch_host out;
  std::string word;
  words >> word;
  if (const auto at = word.find('@'); at != std::string::npos) {
    out.user = word.substr(0, at);
    require_name(out.user);
    word.erase(0, at + 1);
  }
  in6_addr address = {};
  const bool is_bracketed = word.starts_with('[') && word.ends_with(']');
  out.name = is_bracketed ? word.substr(1, word.size() - 2) : word;
  if (!is_bracketed)
    require_name(word);
  else if (out.name.find_first_not_of(in_addresses) != std::string::npos
           || ::inet_pton(AF_INET6, out.name.c_str(), &address) != 1)
    throw input_error("'{}' is not an IPv6 address", shortened(word, 100));
  while (words >> word) {
    const auto key = word.substr(0, word.find('='));
    const auto value = number_in(slot_range, word.substr(std::min(key.size() + 1, word.size())));
    const bool is_limit = key == "max_slots" || key == "max-slots";
    if (!value || (key != "slots" && !is_limit))
      throw input_error("'{}' is not slots=N or max_slots=N, with N from 1 to {}",
                        shortened(word, 100),
                        slot_range.most);
    (is_limit ? out.max_slots : out.slots) = int(*value);
  }
  return out;
}

}  // namespace

std::vector<std::string> hosts_in_list(std::string_view text, std::string_view what) {
  return list_reader(text, what).all<std::string>();
}

std::vector<int> counts_in_list(std::string_view text, std::string_view what) {
  return list_reader(text, what).all<int>();
}

std::vector<launch_host> hosts_in_file(std::string_view text, std::string_view name) {
  std::vector<launch_host> out;
  std::map<std::string, std::size_t> places;
  std::istringstream lines{std::string(text)};
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    if ((words >> std::ws).eof())
      continue;
    try {
      const auto x = host_in(words);
      const auto [at, is_new] = places.try_emplace(x.name, out.size());
      auto& host = is_new ? out.emplace_back(x) : out[at->second];
      if (x.user != host.user)
        throw input_error("'{}' has another user than before", x.name);
      if (!is_new)
        host.slots = std::max(host.slots, 1) + std::max(x.slots, 1);
      host.max_slots = std::max(host.max_slots, x.max_slots);
      if (host.slots > (host.max_slots > 0 ? host.max_slots : slot_range.most))
        throw input_error("'{}' has {} slots, which is above its maximum", x.name, host.slots);
    } catch (const input_error& failure) {
      throw input_error("{}:{}: {}", name, number, failure.what());
    }
  }
  if (out.empty())
    throw input_error("{}: the file names no host: write one on each line", name);
  return out;
}

}  // namespace troupe::runtime
