#include "actors/command/launch_other_rank.hpp"

#include "actors/command/launch_nodes.hpp"
#include "actors/command/meeting_place.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/launch/launch_folder.hpp"
#include "runtime/launch/meeting_member.hpp"
#include "runtime/process/host_address.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

namespace troupe::command {
namespace {

using clock = std::chrono::steady_clock;

constexpr auto between_tries = std::chrono::milliseconds(100);
constexpr auto between_reports = std::chrono::seconds(3);
constexpr auto patience_for_names = std::chrono::seconds(5);

class other_rank {
 public:
  other_rank(const runtime::launch_environment& by,
             const training_flags& flags,
             runtime::launch_member self)
      : flags_(flags),
        place_(meeting_place_of(by, flags)),
        self_(std::move(self)),
        signals_(nodes_),
        until_(clock::now() + launch_patience(flags)) {}
  ~other_rank() { signals_.pass_to({}); }

  int run() {
    try {
      const auto joined = join();
      if (const auto* const end = std::get_if<runtime::launch_end>(&joined))
        return told(*end);
      signals_.pass_to([this](const std::string& name) { pass_on(name); });
      if (const auto& begin = std::get<runtime::launch_begin>(joined); begin.starts_node)
        start(begin.node);
      return told(wait_for_end());
    } catch (const runtime::cancelled&) {
      if (member_)  // else rank 0 would wait for this rank
        pass_on(signals_.name());
      if (is_first())
        tell_stopped();
      return 0;
    } catch (const runtime::error&) {  // each host says it once
      if (is_first())
        throw;
      return launch_refused;
    }
  }

 private:
  bool is_first() const { return self_.local_rank.value_or(0) == 0; }

  std::optional<runtime::published_meeting> find() const {
    if (place_.folder.empty())
      return runtime::published_meeting{
          runtime::numeric_address(place_.address), place_.port, place_.credentials};
    auto out = runtime::find_launch_folder(place_.folder,
                                           flags_.hosts.insecure || !place_.credentials.empty());
    if (out && !place_.credentials.empty())
      out->credentials = place_.credentials;
    return out;
  }

  std::variant<runtime::launch_begin, runtime::launch_end> join() {
    const auto begun = clock::now();
    auto report = begun + between_reports;
    std::string last;
    for (;;) {
      try {
        if (const auto where = find()) {
          if (!where->failure.empty())
            return runtime::launch_end{
                .exit_code = launch_refused,
                .reason = "rank 0 of this launch does not start: " + where->failure,
                .first = is_first()};
          last = fmt::format("it listens at {} port {}", where->address, where->port);
          member_ = std::make_unique<runtime::meeting_member>(
              self_, where->address, where->port, where->credentials);
          rank_0_ = where->address;
          credentials_ = where->credentials;
          return member_->join([this] { return signals_.have_come(); });
        }
        last = fmt::format(
            "it has not written '{}'; see what rank 0 says, and that all hosts see this folder",
            place_.folder.string());
      } catch (const runtime::input_error& failure) {
        if (clock::now() > begun + patience_for_names)
          throw;
        last = failure.what();
      } catch (const runtime::io_error& failure) {
        last = failure.what();
      }
      if (signals_.have_come())
        throw runtime::cancelled();
      if (clock::now() > until_)
        throw runtime::input_error("rank {} of this launch does not reach rank 0 within {} s: {}",
                                   self_.rank,
                                   flags_.hosts.launch_timeout,
                                   last);
      if (is_first() && clock::now() > report) {
        runtime::log_info(" rank {} waits for rank 0: {}", self_.rank, last);
        report = clock::now() + between_reports;
      }
      std::this_thread::sleep_for(between_tries);
    }
  }

  /// `earlier`: the address of the node that a killed predecessor of this process started; the run
  /// looks for it at that port.
  void start(const std::string& earlier) {
    std::string address, failure;
    try {
      const auto& interface = flags_.hosts.interface;
      const auto here = interface.empty() ? runtime::own_address_towards(rank_0_)
                                          : runtime::address_of_interface(interface);
      const std::uint16_t port = earlier.empty() ? 0 : runtime::read_host_and_port(earlier).port;
      if (port != 0 && listens(here, port))
        return runtime::log_info(" the node of this host still serves the run");
      nodes_.start_here(here, port, credentials_, flags_);
      address = nodes_.addresses(launch_patience(flags_), [] { return false; }).front();
    } catch (const runtime::error& x) {
      failure = x.what();
      if (!earlier.empty())
        runtime::log_warning("this host does not take part in the run again: {}", failure);
    }
    try {
      member_->report(address, failure);
    } catch (const runtime::io_error&) {  // rank 0 is gone, as wait_for_end finds
    }
  }

  static bool listens(const std::string& address, std::uint16_t port) {
    try {
      runtime::require_listener(address, port, std::chrono::seconds(1));
      return true;
    } catch (const runtime::error&) {
      return false;
    }
  }

  void pass_on(const std::string& name) const {
    try {
      member_->ask_to_end(fmt::format("{} at rank {}", name, self_.rank));
    } catch (const runtime::error& failure) {
      runtime::log_warning("cannot pass {} to rank 0: {}", name, failure.what());
    }
  }

  /// If rank 0 is gone, its run may go on: nodes here serve it to its end.
  runtime::launch_end wait_for_end() {
    constexpr int tries = 3;
    for (int tried = 1;; ++tried)
      try {
        return member_->wait_for_end();
      } catch (const runtime::io_error& failure) {
        if (tried < tries) {
          std::this_thread::sleep_for(std::chrono::seconds(1));
          continue;
        }
        if (!nodes_.empty())
          runtime::log_warning(
              "rank 0 of this launch is gone ({}): the node of this host ends with the run",
              failure.what());
        nodes_.wait_after_run(true);
        return {.exit_code = run_lost,
                .reason = "rank 0 of this launch was lost: the exit code of the run is not known",
                .first = is_first()};
      }
  }

  int told(const runtime::launch_end& end) {
    if (end.first && !end.reason.empty())
      runtime::log_error("{}", end.reason);
    nodes_.wait_after_run();
    return end.exit_code;
  }

  const training_flags& flags_;
  const meeting_place place_;
  const runtime::launch_member self_;
  own_nodes nodes_;
  launch_signals signals_;
  const clock::time_point until_;
  std::unique_ptr<runtime::meeting_member> member_;
  std::string rank_0_;  ///< address
  std::filesystem::path credentials_;
};

}  // namespace

int run_as_other_rank(const runtime::launch_environment& by,
                      const training_flags& flags,
                      runtime::launch_member self) {
  return other_rank(by, flags, std::move(self)).run();
}

}  // namespace troupe::command
