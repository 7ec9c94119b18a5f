#include "actors/command/named_hosts.hpp"

#include "actors/command/readers.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <sstream>

namespace troupe::command {
namespace {

constexpr whole_range slots_range = {.least = 1, .most = 65536};

bool has_numbers(const std::vector<runtime::host_slots>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [](const auto& x) { return x.slots != 0; });
}

/// "a*2,b*1,...": an example for so many processes.
std::string shared_unevenly(const std::vector<runtime::host_slots>& hosts, std::int64_t processes) {
  const auto n = std::int64_t(hosts.size());
  std::vector<std::string> out;
  for (std::int64_t h = 0; h < std::min<std::int64_t>(n, 3); ++h)
    out.push_back(fmt::format(
        "{}*{}", hosts[std::size_t(h)].name, processes / n + (h < processes % n ? 1 : 0)));
  return fmt::format("{}{}", fmt::join(out, ","), n > 3 ? ",..." : "");
}

/// "2 or 4": the divisors of `number` around `n`, which is none.
std::string nearest_divisors(std::int64_t number, std::int64_t n) {
  auto below = std::min(n, number), above = n;
  while (number % below != 0)
    --below;
  while (above <= number && number % above != 0)
    ++above;
  return above > number ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

}  // namespace

std::string without_port(const std::string& name) {
  if (name.starts_with('['))
    return name.substr(1, name.find(']') - 1);
  const auto colon = name.find(':');
  return colon == name.rfind(':') ? name.substr(0, colon) : name;
}

std::vector<runtime::host_slots> read_hosts(const std::string& list) {
  std::vector<runtime::host_slots> out;
  std::istringstream words(list);
  const auto add = [&out](const std::string& word) {
    const auto star = word.find('*');
    auto& host = out.emplace_back(runtime::host_slots{.name = word.substr(0, star), .slots = 0});
    if (star != std::string::npos)
      host.slots = int(runtime::number_in(slots_range, word.substr(star + 1)).value_or(-1));
  };
  for (std::string word; std::getline(words, word, ',');)
    add(word);
  if (list.ends_with(','))
    add("");
  return out;
}

std::int64_t processes_on(const std::vector<runtime::host_slots>& hosts) {
  std::int64_t out = 0;
  for (const auto& x : hosts)
    out += std::max(1, x.slots);
  return out;
}

std::string complaint_about_slots(std::string_view flag,
                                  const std::vector<runtime::host_slots>& hosts,
                                  std::int64_t processes) {
  for (const auto& x : hosts)
    if (x.slots < 0)
      return fmt::format(
          "{}: '{}*...' has no number of processes after the '*': give {}, such as "
          "{}*2",
          flag,
          x.name,
          range_text(slots_range),
          x.name);
  const auto what = flag.substr(2);
  const auto n = std::int64_t(hosts.size()), room = processes_on(hosts);
  if (has_numbers(hosts))
    return room == processes ? ""
                             : fmt::format(
                                 "{} has room for {}, but the run has {} (--processes): give "
                                 "--processes {}, or other numbers after '*'",
                                 flag,
                                 runtime::counted(room, "process", "processes"),
                                 processes,
                                 room);
  if (n == 0 || processes % n == 0)
    return "";
  return fmt::format(
      "{} names {} {}, but the run has {} (--processes), and without numbers all {} "
      "have equally many; nearest valid: {} {}{}",
      flag,
      n,
      what,
      runtime::counted(processes, "process", "processes"),
      what,
      nearest_divisors(processes, n),
      what,
      processes < n ? "" : ", or " + shared_unevenly(hosts, processes));
}

void share_processes(std::vector<runtime::host_slots>& hosts, int processes) {
  const int even = has_numbers(hosts) ? 1 : processes / std::max(1, int(hosts.size()));
  for (auto& x : hosts)
    if (x.slots == 0)
      x.slots = even;
}

void read_domains(const std::filesystem::path& file,
                  std::vector<runtime::host_slots>& hosts,
                  const std::vector<std::string>& names) {
  std::map<std::string, std::string> domains;
  std::istringstream lines;
  try {
    lines.str(runtime::read_text(file));
  } catch (const runtime::error& failure) {
    throw usage_error("--failure-domains: {}", failure.what());
  }
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host, domain, more;
    if (!(words >> host))
      continue;
    if (!(words >> domain) || words >> more)
      throw usage_error(
          "--failure-domains '{}', line {}: '{}' is not a host and its domain; write e.g. "
          "'host-1 rack-1'",
          file.string(),
          number,
          shown(line));
    const auto [at, is_new] = domains.emplace(host, domain);
    if (!is_new && at->second != domain)
      throw usage_error(
          "--failure-domains '{}', line {}: host '{}' is in '{}' and in '{}'; name "
          "it once",
          file.string(),
          number,
          host,
          at->second,
          domain);
  }
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    auto name = without_port(hosts[h].name);
    auto at = domains.find(name);
    if (at == domains.end() && h < names.size()) {
      name = names[h];
      at = domains.find(name);
    }
    if (at == domains.end())
      throw usage_error(
          "--failure-domains '{0}' has no domain for the host '{1}': add a line "
          "'{1} DOMAIN'",
          file.string(),
          name);
    hosts[h].domain = at->second;
  }
}

}  // namespace troupe::command
