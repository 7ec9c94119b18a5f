#include "actors/command/attended_node.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/shortened.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;

constexpr auto between_reads = std::chrono::milliseconds(20);
constexpr auto patience_at_end = std::chrono::seconds(5);

std::string contents_of(const fs::path& file) {
  std::ostringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

struct both_ends {
  runtime::descriptor read, write;
};

both_ends new_pipe() {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw runtime::io_error("cannot start a node: {}", runtime::system_message(errno));
  return {runtime::descriptor(ends[0]), runtime::descriptor(ends[1])};
}

runtime::child_process started(const std::vector<std::string>& command,
                               const fs::path& output,
                               runtime::descriptor& input) {
  ::signal(SIGPIPE, SIG_IGN);  // a node that has ended does not read
  auto pipe = new_pipe();
  runtime::child_process out({.command = command, .output = output, .input = pipe.read.number()});
  input = std::move(pipe.write);
  return out;
}

}  // namespace

std::vector<std::string> attended_node_command(const std::vector<std::string>& where,
                                               double suspicion,
                                               bool insecure) {
  std::vector<std::string> out{fs::read_symlink("/proc/self/exe").string(), "node"};
  out.insert(out.end(), where.begin(), where.end());
  out.insert(out.end(),
             {"--attended", "--once", "--suspicion-seconds", fmt::format("{}", suspicion)});
  if (insecure)
    out.emplace_back("--insecure");
  return out;
}

attended_node::attended_node(std::string host,
                             const std::vector<std::string>& command,
                             const std::string& credentials,
                             fs::path output)
    : host_(std::move(host)),
      output_(std::move(output)),
      child_(started(command, output_, input_)) {
  const auto line = credentials + "\n";  // less than a pipe holds
  if (::write(input_.number(), line.data(), line.size()) != ssize_t(line.size()) && errno != EPIPE)
    throw runtime::io_error("cannot give a node its credentials: {}",
                            runtime::system_message(errno));
}

attended_node::~attended_node() {
  if (!input_)  // moved from
    return;
  ask_to_end();
  try {
    child_.wait(patience_at_end);
  } catch (const runtime::error&) {  // the child's destructor kills it
  }
}

void attended_node::say(std::string_view word) {
  const auto line = std::string(word) + "\n";
  static_cast<void>(::write(input_.number(), line.data(), line.size()) == 0);
}

std::string attended_node::last_words() const {
  constexpr std::size_t most = 500;
  auto text = contents_of(output_);
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  if (text.size() > most)
    text = "..." + text.substr(text.size() - most);
  std::ranges::replace(text, '\n', ' ');
  return text.empty() ? "it said nothing" : text;
}

std::string attended_node::address(std::chrono::steady_clock::time_point until,
                                   const std::function<bool()>& stop) {
  for (;;) {
    const auto end = child_.wait(between_reads);
    const auto text = contents_of(output_);
    constexpr std::string_view before = actors::node_listens_at;
    const auto at = text.find(before);
    if (const auto comma = text.find(',', at); at != text.npos && comma != text.npos && !end)
      return text.substr(at + before.size(), comma - at - before.size());
    if (end)
      throw runtime::input_error("the node on the host '{}' does not start, {}: {}",
                                 host_,
                                 runtime::text_of(*end),
                                 last_words());
    if (stop())
      throw runtime::cancelled();
    if (std::chrono::steady_clock::now() > until)
      throw runtime::input_error(
          "the node on the host '{}' does not start in time: {}", host_, last_words());
  }
}

}  // namespace troupe::command
