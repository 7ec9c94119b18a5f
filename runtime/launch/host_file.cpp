#include "runtime/launch/host_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/number_range.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <sstream>

namespace troupe::runtime {
namespace {

constexpr whole_range slot_range = {.least = 1, .most = 4096};
constexpr std::size_t most_bytes = 16 << 20, shown_bytes = 100;

}  // namespace

std::string without_user(const std::string& host) {
  return host.substr(host.rfind('@') + 1);
}

std::vector<host_line> host_lines(std::string_view text, const std::string& where) {
  std::vector<host_line> out;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    host_line one;
    if (!(words >> one.host))
      continue;
    const auto refuse = [&](const std::string& why) {
      throw input_error(
          "cannot read {}, line {}, '{}': {}", where, number, shortened(line, shown_bytes), why);
    };
    if (one.host.front() == '-' || without_user(one.host).empty())
      refuse("expected the name or address of a host");
    for (std::string word; words >> word;) {
      constexpr std::string_view slots = "slots=";
      const auto count = word.starts_with(slots)
                             ? number_in(slot_range, std::string_view(word).substr(slots.size()))
                             : std::nullopt;
      if (!count)
        refuse("expected slots=N with " + range_text(slot_range) + " after the host");
      one.slots = int(*count);
    }
    if (std::ranges::find(out, one.host, &host_line::host) != out.end())
      refuse("the host is there twice: name it once, with all its slots");
    out.push_back(std::move(one));
  }
  if (out.empty())
    throw input_error("cannot read {}: it names no host; write one a line, such as: a slots=4",
                      where);
  return out;
}

std::vector<host_line> read_host_file(const std::filesystem::path& file) {
  const auto where = "the host file '" + file.string() + "'";
  const mapped_file all(file);
  if (all.text().size() > most_bytes)
    throw input_error("cannot read {}: it has more than {} bytes", where, most_bytes);
  auto out = host_lines(all.text(), where);
  all.require_intact();
  return out;
}

}  // namespace troupe::runtime
