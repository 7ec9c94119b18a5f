#include "actors/job/part_commands.hpp"

#include "actors/job/node_process.hpp"
#include "actors/job/run.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/process/host_agent.hpp"

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <utility>

namespace troupe::actors {
namespace {

constexpr const char* node_word = "troupe:node";

/// Name-value pairs after the first word.
class part_words {
 public:
  explicit part_words(const std::vector<std::string>& words) : part_(words.at(0)) {
    for (std::size_t i = 1; i + 1 < words.size(); i += 2)
      values_.emplace(words[i], words[i + 1]);
  }

  const std::string& text(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end())
      throw runtime::input_error(
          "'{}' is for processes that a run starts, not for users: '{}' is missing", part_, name);
    return found->second;
  }
  bool has(const std::string& name) const { return values_.contains(name); }

  template <class Number>
  Number number(const std::string& name) const {
    const auto& from = text(name);
    Number out = {};
    const auto* const end = from.data() + from.size();
    if (const auto read = std::from_chars(from.data(), end, out);
        read.ec != std::errc() || read.ptr != end)
      throw runtime::input_error("'{}': {} '{}' is out of range", part_, name, from);
    return out;
  }

 private:
  std::string part_;
  std::map<std::string, std::string> values_;
};

int be_agent(const part_words& words) {
  runtime::host_agent_settings settings;
  settings.run = words.text("run");
  settings.behaviour.owner_patience = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(words.number<double>("patience")));
  if (words.has("connection"))
    settings.connection = runtime::descriptor(words.number<int>("connection"));
  settings.obeys_signals = !settings.connection;
  runtime::run_host_agent(std::move(settings));
  return 0;
}

int be_node(const part_words& words, const runtime::registered_functions& functions) {
  node_process_settings settings;
  settings.run = words.text("run");
  settings.who = {words.number<int>("process"), words.number<std::uint32_t>("incarnation")};
  const auto where = runtime::read_host_and_port(words.text("rendezvous"));
  settings.address = where.host;
  settings.port = where.port;
  settings.listen = words.text("address");
  settings.suspicion = words.number<double>("suspicion");
  settings.insecure = words.has("insecure");
  settings.functions = functions;
  runtime::ignore_requests_to_end();
  return run_node(settings);
}

std::string this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

}  // namespace

launch_settings launch_of_parts(const part_settings& how, const std::string& address) {
  const auto program = this_program(), run = how.run.string();
  std::vector<std::string> agent{program,
                                 runtime::agent_word,
                                 "run",
                                 run,
                                 "patience",
                                 fmt::format("{}", how.suspicion * how.patience)};
  agent.emplace_back("connection");
  return {.run = how.run,
          .agent = std::move(agent),
          .node =
              [program, run, how, address](const node_program& x) {
                std::vector<std::string> out{program,
                                             node_word,
                                             "run",
                                             run,
                                             "process",
                                             std::to_string(x.process),
                                             "incarnation",
                                             std::to_string(x.incarnation),
                                             "rendezvous",
                                             fmt::format("{}:{}", x.address, x.port),
                                             "address",
                                             address,
                                             "suspicion",
                                             fmt::format("{}", how.suspicion)};
                if (how.insecure)
                  out.insert(out.end(), {"insecure", "yes"});
                return out;
              },
          .address = address,
          .insecure = how.insecure};
}

bool is_part(const std::vector<std::string>& words) {
  return !words.empty() && (words.front() == runtime::agent_word || words.front() == node_word);
}

int play_part(const std::vector<std::string>& words,
              const runtime::registered_functions& functions) {
  ::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit then fails with an error
  try {
    const part_words given(words);
    return words.front() == node_word ? be_node(given, functions) : be_agent(given);
  } catch (const std::exception& failure) {
    runtime::log_error("{}", failure.what());
    return exit_code_of(failure);
  }
}

}  // namespace troupe::actors
