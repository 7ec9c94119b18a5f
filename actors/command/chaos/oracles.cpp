#include "actors/command/chaos/oracles.hpp"

#include "actors/command/checkpoint_pages.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/listing.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/state/ledger_record.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <thread>
#include <utility>

namespace troupe::command::chaos {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_told = 5;

/// Keeps the first few sentences and counts the rest.
void shorten(sentences& all) {
  if (all.size() <= most_told)
    return;
  const auto more = all.size() - most_told;
  all.resize(most_told);
  all.push_back(fmt::format("and {} more of these", more));
}

}  // namespace

std::vector<logged_step> read_log(const fs::path& file) {
  const auto text = runtime::read_text(file);
  std::vector<logged_step> out;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const auto x = runtime::json_value_or_discarded(std::string_view(text).substr(at, end - at));
    if (!x.is_object() || !x.contains("state_digest") || !x["state_digest"].is_string()
        || !x.contains("iteration") || !x["iteration"].is_number_unsigned())
      continue;
    const bool timed = x.contains("elapsed_ms") && x["elapsed_ms"].is_number();
    out.push_back({x["iteration"].get<std::uint64_t>(),
                   x["state_digest"].get<std::string>(),
                   timed ? x["elapsed_ms"].get<double>() : 0});
  }
  if (out.empty())
    throw runtime::input_error("the log '{}' has no step", file.string());
  return out;
}

sentences digests_differ(const std::vector<logged_step>& here,
                         const std::vector<logged_step>& undisturbed) {
  sentences out;
  std::map<std::uint64_t, std::string> wanted;
  for (const auto& x : undisturbed)
    wanted[x.iteration] = x.digest;
  for (const auto& x : here) {
    const auto found = wanted.find(x.iteration);
    if (found == wanted.end())
      out.push_back(fmt::format("the undisturbed run has no iteration {}", x.iteration));
    else if (found->second != x.digest)
      out.push_back(fmt::format("the state after iteration {} is {}; the undisturbed run has {}",
                                x.iteration,
                                x.digest,
                                found->second));
  }
  if (here.empty() || here.back().iteration != undisturbed.back().iteration)
    out.push_back(fmt::format("the last iteration is {}; the undisturbed run has {}",
                              here.empty() ? 0 : here.back().iteration,
                              undisturbed.back().iteration));
  shorten(out);
  return out;
}

sentences checkpoints_differ(const fs::path& save, const fs::path& undisturbed) {
  try {
    const runtime::checkpoint_reader here(runtime::named_checkpoint(save)),
        there(runtime::named_checkpoint(undisturbed));
    here.verify();
    const auto found = diff_json(here, there);
    if (found["equal"] == true && found["state"].empty())
      return {};
    return {
        fmt::format("the checkpoint '{}' differs from the undisturbed run's, '{}': see `troupe "
                    "checkpoint diff`",
                    here.folder().string(),
                    there.folder().string())};
  } catch (const runtime::error& failure) {
    return {fmt::format("the newest checkpoint cannot be compared: {}", failure.what())};
  }
}

sentences ledger_is_wrong(const fs::path& ledger, std::uint64_t last) {
  try {
    const auto all = runtime::read_ledger(ledger);
    auto out = runtime::complaints_of(all);
    std::uint64_t newest = 0;
    for (const auto& one : all)
      if (const auto* const step = std::get_if<runtime::ledger::committed>(&one))
        newest = step->at.iteration;
    if (newest != last)
      out.push_back(
          fmt::format("the newest iteration of the ledger is {}; the run has {}", newest, last));
    shorten(out);
    return out;
  } catch (const runtime::error& failure) {
    return {failure.what()};
  }
}

sentences log_is_wrong(const std::vector<logged_step>& log,
                       std::uint64_t first,
                       std::uint64_t last) {
  sentences out;
  auto next = first;
  for (const auto& x : log) {
    if (x.iteration != next)
      out.push_back(fmt::format("the log has iteration {} in place of {}", x.iteration, next));
    next = x.iteration + 1;
  }
  if (next != last + 1)
    out.push_back(fmt::format("the log ends with iteration {}; the run with {}", next - 1, last));
  shorten(out);
  return out;
}

std::vector<std::string> replaced_between(const standing_processes& before,
                                          const standing_processes& after) {
  std::vector<std::string> out;
  for (const auto& [name, process] : before)
    if (const auto now = after.find(name); now == after.end() || !(now->second == process))
      out.push_back(name);
  return out;
}

sentences survivors_lost(const std::vector<std::string>& replaced_ones,
                         replaced allowed,
                         const std::string& victim) {
  const auto is_node = [](const std::string& x) { return x.starts_with("node-"); };
  const auto is_agent = [](const std::string& x) { return x.starts_with("agent-"); };
  const auto may = [&](const std::string& x) {
    switch (allowed) {
      case replaced::nobody:
        return false;
      case replaced::victim:
        return x == victim;
      case replaced::one_node:
        return is_node(x);
      case replaced::supervisor:
        return x == "supervisor";
      case replaced::agents_and_nodes:
        return is_node(x) || is_agent(x);
    }
    return false;
  };
  std::vector<std::string> lost;
  for (const auto& x : replaced_ones)
    if (!may(x))
      lost.push_back(x);
  if (allowed == replaced::one_node && replaced_ones.size() > 1 && lost.empty())
    lost = replaced_ones;
  if (lost.empty())
    return {};
  return {fmt::format("replaced or lost: {}; but the fault struck {}",
                      fmt::join(lost, ", "),
                      victim.empty() ? "an actor" : victim)};
}

sentences victim_kept(const std::vector<std::string>& replaced_ones,
                      replaced allowed,
                      const std::string& victim) {
  const bool other = std::any_of(replaced_ones.begin(), replaced_ones.end(), [&](const auto& x) {
    return allowed == replaced::one_node     ? x.starts_with("node-")
           : allowed == replaced::supervisor ? x == "supervisor"
                                             : x == victim;
  });
  if (other)
    return {};
  return {fmt::format("{} was not replaced, although the fault ends it",
                      allowed == replaced::one_node     ? "the node of " + victim
                      : allowed == replaced::supervisor ? std::string("the supervisor's process")
                                                        : victim)};
}

sentences leftovers(const runtime::footprint& of,
                    const std::string& run_id,
                    const fs::path& run,
                    const fs::path& save,
                    const fs::path& temporary,
                    const std::vector<fs::path>& hosts,
                    double patience_seconds) {
  constexpr auto pause = std::chrono::milliseconds(50);
  const auto end
      = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_seconds);
  for (;;) {
    auto out = of.left();
    for (auto& more : {runtime::files_left(run, save, temporary), runtime::segments_left(run_id)})
      out.insert(out.end(), more.begin(), more.end());
    for (const auto& host : hosts)
      for (auto& more : runtime::files_left_by_host(host, run_id))
        out.push_back(std::move(more));
    if (out.empty() || std::chrono::steady_clock::now() > end) {
      for (auto& x : out)
        x = "left behind: " + x;
      shorten(out);
      return out;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace troupe::command::chaos
