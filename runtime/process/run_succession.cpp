#include "runtime/process/run_succession.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/fields.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/process_entry.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <limits>

namespace troupe::runtime {
namespace {

constexpr std::int64_t place_version = 3;
constexpr const char* gone_variable = "TROUPE_SUPERVISOR_GONE_NS";

std::uint64_t ns_of(std::chrono::steady_clock::time_point x) {
  return std::uint64_t(std::chrono::nanoseconds(x.time_since_epoch()).count());
}

std::filesystem::path promise_of(const run_folder& in, const std::string& agent) {
  return in.processes() / (agent + ".succession");
}

std::string text_of(const process_id& x) {
  return fmt::format("{} {}\n", x.pid, x.start_time);
}

/// Whether this very process promised: a killed agent may have left its file.
bool has_promised(const run_folder& in, const process_entry& agent) {
  try {
    return read_text(promise_of(in, agent.name)) == text_of(agent.process);
  } catch (const error&) {  // no file
    return false;
  }
}

std::string text_there(const std::filesystem::path& file) {
  std::error_code failure;
  if (!std::filesystem::exists(file, failure))
    throw input_error(
        "cannot continue the run in '{}': it has no {}, so its supervisor process ended before a "
        "successor could take over; start the run again",
        file.parent_path().string(),
        file.filename().string());
  return read_text(file);
}

}  // namespace

void write_rendezvous(const run_folder& to, const rendezvous_place& x) {
  const nlohmann::json out = {{"version", place_version},
                              {"incarnation", x.incarnation},
                              {"address", x.address},
                              {"port", x.port},
                              {"places", x.places},
                              {"round", x.round}};
  replace_file(to.rendezvous(), json_text_replacing(out) + "\n");
}

std::optional<rendezvous_place> find_rendezvous(const run_folder& in) {
  const auto file = in.rendezvous();
  std::error_code failure;
  if (!std::filesystem::exists(file, failure))
    return std::nullopt;
  const auto what = "'" + file.string() + "'";
  const auto x = read_object(read_text(file), what);
  if (const auto version = whole_field(x, "version", what, 0); version != place_version)
    throw input_error(
        "{}: it has version {}, but this program reads version {}", what, version, place_version);
  constexpr auto most_incarnations = std::numeric_limits<std::uint32_t>::max();
  rendezvous_place out{
      .incarnation = std::uint32_t(whole_field(x, "incarnation", what, 1, most_incarnations)),
      .address = text_field(x, "address", what),
      .port
      = std::uint16_t(whole_field(x, "port", what, 1, std::numeric_limits<std::uint16_t>::max()))};
  out.round = std::uint32_t(whole_field(x, "round", what, 0, most_incarnations));
  for (const auto& one : list_field(x, "places", what)) {
    const nlohmann::json place = {{"incarnation", one}};
    out.places.push_back(std::uint32_t(
        whole_field(place, "incarnation", what + ": 'places'", 0, most_incarnations)));
  }
  return out;
}

void remove_rendezvous(const run_folder& of) {
  std::error_code failure;
  std::filesystem::remove(of.rendezvous(), failure);
  if (failure)
    throw io_error("cannot remove '{}': {}", of.rendezvous().string(), failure.message());
}

void write_order(const run_folder& to, const std::string& order) {
  replace_file(to.order(), order);
}

void write_description(const run_folder& to, const std::string& description) {
  replace_file(to.description(), description);
}

std::string read_order(const run_folder& in) {
  return text_there(in.order());
}

std::string read_description(const run_folder& in) {
  return text_there(in.description());
}

void promise_succession(const run_folder& to, bool promised) {
  const auto file = promise_of(to, agent_name());
  if (promised)
    return replace_file(file, text_of(this_process()));
  remove_replaced(file);  // a stale promise counts only while its agent runs
}

bool has_succession(const run_folder& of) {
  std::error_code failure;
  if (!std::filesystem::exists(of.rendezvous(), failure))
    return false;
  const auto all = seen_processes(of, [](const std::string&) {});
  return of.is_held() || std::any_of(all.begin(), all.end(), [&](const auto& x) {
           return x.entry.role == "agent" && x.runs.value_or(false) && has_promised(of, x.entry);
         });
}

std::string told_when_gone(std::chrono::steady_clock::time_point noticed) {
  return fmt::format("{}={}", gone_variable, ns_of(noticed));
}

std::uint64_t owner_gone_ns() {
  const auto now = ns_of(std::chrono::steady_clock::now());
  const char* const told = std::getenv(gone_variable);
  const std::string_view text = told == nullptr ? "" : told;
  std::uint64_t out = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool is_whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return is_whole && out > 0 ? std::min(out, now) : now;
}

}  // namespace troupe::runtime
