// The part of another rank than 0 in the meeting of a launch (meeting.hpp).

#pragma once

#include "runtime/http/client.hpp"
#include "runtime/launch/launch_messages.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// One thread, except where noted.
class meeting_member {
 public:
  /// `address`: numeric. `keys`: folder of credentials; empty: no TLS. Does not connect yet.
  meeting_member(launch_member self,
                 const std::string& address,
                 std::uint16_t port,
                 const std::filesystem::path& keys);

  /// Waits until all ranks are there. Returns what to do, or the end of a launch that is refused.
  /// Throws io_error when rank 0 is not there, input_error when it does not know these credentials,
  /// and `cancelled` when `stop` returns true.
  std::variant<launch_begin, launch_end> join(const std::function<bool()>& stop);
  /// The address of that node, or why it does not start.
  void report(const std::string& node, const std::string& failure = {});
  /// Waits for the end of the run. Throws io_error when rank 0 is gone.
  launch_end wait_for_end();
  /// Any thread; takes 10 s at most. Throws io_error.
  void ask_to_end(const std::string& why) const;

 private:
  /// Tells rank 0, which waits for it, that this process knows the end.
  launch_end heard(const std::string& answer);
  /// Without `stop` the limits of the client apply.
  http::response ask(http::client& by,
                     const char* target,
                     const nlohmann::json& what,
                     const std::function<bool()>& stop) const;

  const launch_member self_;
  const http::service_address at_;
  http::client client_;
};

}  // namespace troupe::runtime
