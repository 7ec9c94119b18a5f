// A node that this command starts for one run, on this host or by ssh on another one: a child
// process that becomes `troupe node --attended`. Credentials and the request to end go by its
// standard input.

#pragma once

#include "actors/process/standing_node.hpp"
#include "runtime/process/child_process.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::command {

/// The words that start such a node; `where`: "--listen ADDRESS:0", or "--interface NAME".
std::vector<std::string> attended_node_command(const std::vector<std::string>& where,
                                               double suspicion,
                                               bool insecure);

/// One thread. The destructor asks the node to end, and kills the child if it does not.
class attended_node {
 public:
  /// Starts it. `host`: its name for messages. `credentials`: one line (credentials.hpp), or empty.
  /// `output`: a new file. Throws io_error.
  attended_node(std::string host,
                const std::vector<std::string>& command,
                const std::string& credentials,
                std::filesystem::path output);
  attended_node(attended_node&&) noexcept = default;
  attended_node& operator=(attended_node&&) = delete;
  ~attended_node();

  /// Waits until it listens: "10.0.0.2:7000". Throws input_error with the host and the child's
  /// words when it ends before or is late, and `cancelled` when `stop` returns true.
  std::string address(std::chrono::steady_clock::time_point until,
                      const std::function<bool()>& stop);

  /// True if it has ended by itself after `at_most`.
  bool has_ended(std::chrono::milliseconds at_most) { return child_.wait(at_most).has_value(); }
  /// Asks it to end at once, with its processes.
  void ask_to_end() { say(actors::node_ends_at); }
  /// Asks it to end if no run has begun on it.
  void ask_to_end_unless_it_serves() { say(actors::node_ends_unused_at); }

 private:
  void say(std::string_view word);
  std::string last_words() const;

  std::string host_;
  std::filesystem::path output_;
  runtime::descriptor input_;
  runtime::child_process child_;
};

}  // namespace troupe::command
